"""Errors of the API as problem details (RFC 9457): one shape for what DRF, Django and our own services refuse."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import DataError, InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.bulkhead import RETRY_SECONDS, TooBusy
from portal.http.problem_types import PROBLEM_TYPES
from portal.http.request_ids import request_id

log = logging.getLogger("portal.api")

# The type of a status that says no more: the first one that has it.
TITLES = {one.status: one.name for one in reversed(PROBLEM_TYPES.values())}
MEDIA_TYPE = "application/problem+json"


class Problem(exceptions.APIException):
    """A refusal with a status, a stable code and a sentence; `extra` adds members to the answer."""

    def __init__(
        self,
        status_code: int,
        detail: str,
        *,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        **extra: object,
    ) -> None:
        super().__init__(detail, PROBLEM_TYPES[code or TITLES[status_code]].name)
        self.status_code, self.headers, self.extra = status_code, headers or {}, extra

    def as_dict(self, *, instance: str, request_id: str) -> dict[str, object]:
        """The problem document. `instance` is the path of the request."""
        return _document(
            self.status_code,
            str(self.get_codes()),
            str(self.detail),
            instance=instance,
            request_id=request_id,
            **self.extra,
        )


def _document(status_code: int, title: str, detail: str, **members: object) -> dict[str, object]:
    head = {"type": PROBLEM_TYPES[title].url, "title": title, "status": status_code, "detail": detail}
    return head | members


def _escaped(name: object) -> str:
    """A name as a part of a JSON pointer (RFC 6901)."""
    return str(name).replace("~", "~0").replace("/", "~1")


def _flat(detail: object, pointer: str = "") -> list[dict[str, str]]:
    """DRF's nested details as a flat list of {code, detail, pointer}."""
    if isinstance(detail, dict):
        return [
            entry
            for name, inner in detail.items()
            for entry in _flat(
                inner, pointer if name == "non_field_errors" else f"{pointer}/{_escaped(name)}"
            )
        ]
    if isinstance(detail, list):
        nested = any(isinstance(inner, dict | list) for inner in detail)
        return [
            entry
            for index, inner in enumerate(detail)
            for entry in _flat(inner, f"{pointer}/{index}" if nested else pointer)
        ]
    return [{"code": getattr(detail, "code", "invalid"), "detail": str(detail), "pointer": pointer}]


Members = Mapping[str, Any]
"""Further arguments of `Problem`: headers, and members of the document."""
Refused = TypeVar("Refused", bound=Exception)


@functools.singledispatch
def problem_of(error: Exception) -> Exception:
    """What DRF's exception handler makes of an exception: an APIException where it has one, else the exception itself, which
    is then a 500. An app adds its own errors with `register_problem`, when it is ready."""
    return error


def register_problem(
    kind: type[Refused],
    status: int,
    code: str | None = None,
    *,
    detail: object = None,
    members: Callable[[Refused], Members] | None = None,
) -> None:
    """Makes a problem of every error of this kind and its subclasses, unless these have their own. Its text is the `detail`
    unless there is another one, and `members` gives what else `Problem` takes."""

    def convert(error: Refused) -> Problem:
        return Problem(status, str(detail or error), code=code, **(members(error) if members else {}))

    problem_of.register(kind, convert)


register_problem(Http404, 404, detail="There is no such thing here.")
# It was there when the request began: somebody was faster.
register_problem(ObjectDoesNotExist, 404, detail="There is no such thing here any more.")
register_problem(DjangoPermissionDenied, 403, detail=exceptions.PermissionDenied.default_detail)
register_problem(SuspiciousOperation, 400, detail="This request cannot be read.")
register_problem(RequestDataTooBig, 413, detail="The body is too large.")
# The net under the checks at the edge: a value that PostgreSQL has no room for is the caller's mistake.
register_problem(DataError, 400, detail="A value in this request cannot be looked up or stored.")
# An InternalError is of a standby that takes no writes, of a transaction that idled too long, of a broken index.
_UNAVAILABLE = (OperationalError, InterfaceError, InternalError)
for _unavailable in _UNAVAILABLE:
    register_problem(_unavailable, 503, detail="The database did not answer in time. Try again in a moment.")
register_problem(TooBusy, 503, members=lambda _: {"headers": {"Retry-After": str(RETRY_SECONDS)}})


def problem_answer(problem: Problem, request: HttpRequest) -> JsonResponse:
    """The answer of code that runs before any view of DRF."""
    body = problem.as_dict(**_place(request))
    return JsonResponse(body, status=problem.status_code, content_type=MEDIA_TYPE, headers=problem.headers)


def _place(request: Request | HttpRequest) -> dict[str, str]:
    return {"instance": request.path, "request_id": request_id(request)}


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """DRF's exception handler. None leaves an unexpected error to Django, and ApiProblemMiddleware to its 500."""
    request = context["request"]
    if isinstance(error, DataError):
        log.warning("The database refused a value: %s", error)
    elif isinstance(error, _UNAVAILABLE):
        log.error("The database did not answer: %s", error)
    elif isinstance(error, ObjectDoesNotExist):
        log.warning("A row was gone when it was needed.", exc_info=error)
    error = problem_of(error)
    if not isinstance(error, exceptions.APIException):
        return None
    code, place = error.status_code, _place(request)
    headers = {}
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(math.ceil(wait))
    if isinstance(error, Problem):
        headers |= error.headers
        body = error.as_dict(**place)
    elif isinstance(error, exceptions.ValidationError):
        errors = _flat(error.detail)
        if request.method in {"GET", "HEAD"}:
            # No body to point into: the parameter's name.
            errors = [{**one, "pointer": one["pointer"].lstrip("/")} for one in errors]
        sentence = " ".join(
            f"{one['pointer'].lstrip('/') or 'request'}: {one['detail']}" for one in errors[:5]
        )
        body = _document(code, TITLES[code], sentence, **place, errors=errors)
    else:
        body = _document(code, TITLES.get(code, "error"), str(error.detail), **place)
    return Response(body, status=code, headers=headers, content_type=MEDIA_TYPE)


class ApiProblemMiddleware:
    """Gives /api/ answers their request id, and what is raised outside of DRF (400, 404, 500) the same shape."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id(request)  # from here on, what is logged says it
        if not request.path.startswith("/api/"):
            return self.get_response(request)
        if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            # No text of ours holds NUL, and PostgreSQL refuses to look for one.
            response = HttpResponse(status=status.HTTP_400_BAD_REQUEST)
        else:
            response = self.get_response(request)
        if response.status_code >= status.HTTP_400_BAD_REQUEST and "json" not in response.get(
            "Content-Type", ""
        ):
            title = TITLES.get(response.status_code, "error")
            detail = {
                400: "This request cannot be read, or it names a host that is not among ALLOWED_HOSTS.",
                404: "There is no such address in this API.",
                405: f"Method {request.method!r} is not allowed here.",
                500: "Something went wrong here. The request id finds it in the log.",
            }.get(response.status_code, response.reason_phrase)
            if response.status_code == status.HTTP_500_INTERNAL_SERVER_ERROR:
                log.error("request %s failed", request_id(request))
            problem = JsonResponse(
                _document(response.status_code, title, detail, **_place(request)),
                status=response.status_code,
                content_type=MEDIA_TYPE,
            )
            if "Allow" in response:
                problem["Allow"] = response["Allow"]
            response = problem
        response["X-Request-ID"] = request_id(request)
        for name, value in getattr(request, "rate_headers", {}).items():
            response[name] = value
        return response
