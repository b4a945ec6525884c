"""The bodies of requests: how large one may be, and which characters it may hold.

One rule of size for all routes, which holds before a body is read: `BodyLimitMiddleware`. One of characters for all of the
API's JSON and for every value that a service is about to store; documents of imports have a rule of their own, which repairs
instead of refusing (tools/imports/formats/texts.py).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser, MultiPartParser

from portal.http.authentication import authenticate_key
from portal.http.problems import Problem, problem_answer

MAX_DEPTH = 100
# A document comes in a form, whose own lines and fields take some room.
_FORM_BYTES = 100_000
ANONYMOUS_MAX_BYTES = 100_000
"""The most that somebody without a session or a key may send. portal/Caddyfile has the same number."""
LENGTH_HEADER, METHOD_HEADER = "X-Body-Length", "X-Forwarded-Method"
"""How the proxy asks whether a body may be received (portal/Caddyfile)."""
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storage_problem(value: object) -> str | None:
    """Why PostgreSQL cannot hold this JSON value, as half a sentence ("holds …"); None if it can."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for one in level:
            if isinstance(one, str) and _UNSTORABLE.search(one):
                return "holds a NUL character or half of a surrogate pair"
            if isinstance(one, float) and not math.isfinite(one):
                return "holds a number that JSON does not have"
            if isinstance(one, Mapping):
                below += [*one.keys(), *one.values()]
            elif isinstance(one, list | tuple):
                below += one
        if not below:
            return None
        level = below
    return f"is nested deeper than {MAX_DEPTH} levels"


class JsonBody(JSONParser):
    """A JSON body of at most DATA_UPLOAD_MAX_MEMORY_SIZE bytes, every value of which can be stored."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise too_large(limit)
        try:
            data = json.loads(raw.decode(), parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            why = "is nested too deeply" if isinstance(error, RecursionError) else f"is no JSON: {error}"
            raise ParseError(f"The body {why}.") from None
        if reason := storage_problem(data):
            raise ParseError(f"The body {reason}.")
        return data


class DocumentForm(MultiPartParser):
    """A form with one document. A view with this parser may be sent DOCUMENT_MAX_BYTES by callers with a key."""


class BodyLimitMiddleware:
    """Refuses a request by the length of its body, before that is read: what is longer than the route's bound, and of strangers
    what is longer than ANONYMOUS_MAX_BYTES. A body in chunks, which does not say its length, is refused as well.

    Before the proxy receives more than ANONYMOUS_MAX_BYTES it asks with X-Body-Length, and gets 204 or the refusal.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        asked = request.headers.get(LENGTH_HEADER, "")
        method = request.headers.get(METHOD_HEADER, "") if asked else request.method
        length = int(asked or request.META.get("CONTENT_LENGTH") or 0)
        is_api = request.path.startswith("/api/")
        try:
            _require_within_bound(request, method, length)
            if length > ANONYMOUS_MAX_BYTES:
                _require_known_sender(request, is_api=is_api)
        except Problem as problem:
            if is_api:
                return problem_answer(problem, request)
            raise RequestDataTooBig(str(problem.detail)) from None
        return HttpResponse(status=204) if asked else self.get_response(request)


def takes_document(request: HttpRequest) -> bool:
    """Whether a document may be posted there: to a view with DocumentForm, or to a page that says so."""
    try:
        view: Any = resolve(request.path_info).func
    except Resolver404:
        return False
    parsers = getattr(getattr(view, "cls", None), "parser_classes", ())
    return DocumentForm in parsers or getattr(view, "takes_document", False)


def _require_within_bound(request: HttpRequest, method: str | None, length: int) -> None:
    """Raises Problem 413."""
    if "Transfer-Encoding" in request.headers:
        raise Problem(413, "The body comes in chunks, without its length (Content-Length). Nothing was done.")
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    if length > limit and method == "POST" and takes_document(request):
        limit, length = settings.DOCUMENT_MAX_BYTES, length - _FORM_BYTES
    if length > limit:
        raise too_large(limit)


def _require_known_sender(request: HttpRequest, *, is_api: bool) -> None:
    """Raises Problem 401, or PermissionDenied of a page."""
    if is_api:
        authenticate_key(request.headers.get("Authorization", ""))
    elif not request.user.is_authenticated:
        raise PermissionDenied(
            "Your session has ended, and what you sent was not received. Go back to the form, sign in in another tab, and send it again."
        )


def too_large(limit: int) -> Problem:
    return Problem(413, f"The body is larger than {limit / 1_000_000:g} MB.")


def _no_number(token: str) -> None:
    raise ValueError(f"{token} is no number of JSON")
