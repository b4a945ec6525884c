"""Errors of the API as problem details (RFC 9457): one shape for what DRF, Django and our own services refuse."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from rest_framework import exceptions, status
from rest_framework.response import Response

from portal.http.problem_types import PROBLEM_TYPES
from portal.http.request_ids import request_id

log = logging.getLogger("portal.api")

TITLES = {
    400: "validation_error",
    401: "authentication_failed",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "conflict",
    412: "precondition_failed",
    413: "payload_too_large",
    415: "unsupported_media_type",
    422: "unprocessable",
    428: "precondition_required",
    429: "rate_limited",
    500: "internal_error",
    503: "unavailable",
}
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
        **extra: Any,
    ) -> None:
        super().__init__(detail, PROBLEM_TYPES[code or TITLES[status_code]].name)
        self.status_code, self.headers, self.extra = status_code, headers or {}, extra


def _body(code: int, title: str, detail: str, request: Any, **members: Any) -> dict[str, Any]:
    return {
        "type": PROBLEM_TYPES[title].url,
        "title": title,
        "status": code,
        "detail": detail,
        "instance": request.path,
        "request_id": request_id(request),
        **members,
    }


def _escaped(name: object) -> str:
    """A name as a part of a JSON pointer (RFC 6901)."""
    return str(name).replace("~", "~0").replace("/", "~1")


def _flat(detail: Any, pointer: str = "") -> list[dict[str, str]]:
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


def _as_api_exception(error: Exception) -> Exception:
    """What Django and the database raise for a request that cannot be served, in DRF's terms."""
    if isinstance(error, Http404):
        return exceptions.NotFound("There is no such thing here.")
    if isinstance(error, DjangoPermissionDenied):
        return exceptions.PermissionDenied()
    if isinstance(error, RequestDataTooBig):
        return Problem(413, "The body is too large.")
    if isinstance(error, SuspiciousOperation):
        return exceptions.ParseError("This request cannot be read.")
    if isinstance(error, DataError):
        # The net under the checks at the edge: a value that PostgreSQL has no room for is the caller's mistake.
        log.warning("The database refused a value: %s", error)
        return exceptions.ParseError("A value in this request cannot be looked up or stored.")
    if isinstance(error, OperationalError | InterfaceError):
        log.error("The database did not answer: %s", error)
        return Problem(503, "The database did not answer in time. Try again in a moment.")
    return error


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler. None leaves an unexpected error to Django, and ApiProblemMiddleware to its 500."""
    request = context["request"]
    error = _as_api_exception(error)
    if not isinstance(error, exceptions.APIException):
        return None
    code = error.status_code
    headers = {}
    if auth_header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(math.ceil(wait))
    if isinstance(error, Problem):
        headers |= error.headers
        body = _body(code, str(error.get_codes()), str(error.detail), request, **error.extra)
    elif isinstance(error, exceptions.ValidationError):
        errors = _flat(error.detail)
        if request.method in {"GET", "HEAD"}:
            # No body to point into: the parameter's name.
            errors = [{**one, "pointer": one["pointer"].lstrip("/")} for one in errors]
        sentence = " ".join(
            f"{one['pointer'].lstrip('/') or 'request'}: {one['detail']}" for one in errors[:5]
        )
        body = _body(code, TITLES[code], sentence, request, errors=errors)
    else:
        body = _body(code, TITLES.get(code, "error"), str(error.detail), request)
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
                400: "This request cannot be read.",
                404: "There is no such address in this API.",
                405: f"Method {request.method!r} is not allowed here.",
                500: "Something went wrong here. The request id finds it in the log.",
            }.get(response.status_code, response.reason_phrase)
            if response.status_code == status.HTTP_500_INTERNAL_SERVER_ERROR:
                log.error("request %s failed", request_id(request))
            problem = JsonResponse(
                _body(response.status_code, title, detail, request),
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
