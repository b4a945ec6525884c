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
# The proxy's question and its answer (portal/proxy/workers.py).
LENGTH_HEADER, LIMIT_HEADER = "X-Body-Length", "X-Body-Limit"
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
    """Refuses a request by the length of its body, before that is read: the route's bound, and for what is longer than
    REQUEST_MAX_BYTES a visitor who has signed in, or a key.

    The proxy asks with X-Body-Length before it receives more than REQUEST_MAX_BYTES, and gets the bound or the refusal. So the
    right to send a large body is checked here alone, by declared lengths and by those that grow while they are read.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        asked = request.headers.get(LENGTH_HEADER, "")
        length = int(asked) if asked.isdecimal() else int(request.META.get("CONTENT_LENGTH") or 0)
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if length > limit and takes_document(request):
            limit = settings.DOCUMENT_MAX_BYTES + _FORM_BYTES
        is_api = request.path.startswith("/api/")
        try:
            if length > limit:
                raise too_large(settings.DOCUMENT_MAX_BYTES if takes_document(request) else limit)
            if length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
                _require_known_sender(request, is_api=is_api)
        except Problem as problem:
            if is_api:
                return problem_answer(problem, request)
            raise RequestDataTooBig(str(problem.detail)) from None
        if asked:
            return HttpResponse(status=204, headers={LIMIT_HEADER: str(limit)})
        return self.get_response(request)


def takes_document(request: HttpRequest) -> bool:
    """Whether a document may be sent there: to a POST of a view with DocumentForm, or of a page that says so."""
    try:
        view: Any = resolve(request.path_info).func
    except Resolver404:
        return False
    parsers = getattr(getattr(view, "cls", None), "parser_classes", ())
    return request.method == "POST" and (DocumentForm in parsers or getattr(view, "takes_document", False))


def _require_known_sender(request: HttpRequest, *, is_api: bool) -> None:
    """Raises Problem 401, or PermissionDenied of a page."""
    if is_api:
        authenticate_key(request.headers.get("Authorization", ""))
    elif not request.user.is_authenticated:
        raise PermissionDenied(
            "Your session has ended, and the file was not received. Go back to the form, sign in in another tab, and send it again."
        )


def too_large(limit: int) -> Problem:
    return Problem(413, f"The body is larger than {limit / 1_000_000:g} MB.")


def _no_number(token: str) -> None:
    raise ValueError(f"{token} is no number of JSON")
