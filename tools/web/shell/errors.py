"""What goes wrong, as a page in the portal's shell, or as one alert where htmx asked for a fragment.

The request's transaction is rolled back by then, so nothing here may ask the database.
"""

from __future__ import annotations

import logging
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from portal.http.request_ids import request_id

log = logging.getLogger(__name__)


def _page(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    context: dict[str, Any] = {
        "status": status,
        "title": title,
        "text": text,
        "request_id": request_id(request),
    }
    fragment = getattr(request, "htmx", False)
    answer = render(
        request, "shell/error.html#alert" if fragment else "shell/error.html", context, status=status
    )
    answer["X-Request-ID"] = context["request_id"]
    return answer


def _said(exception: Exception | None, otherwise: str) -> str:
    """Our own sentence for the visitor; Django's own exceptions say things that only developers understand."""
    text = str(exception.args[0]) if exception is not None and exception.args else ""
    return text if text.endswith(".") and not text.startswith("{") else otherwise


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    too_large = type(exception).__name__ in {"RequestDataTooBig", "TooManyFieldsSent", "TooManyFilesSent"}
    text = (
        "This was more than a form may hold (1 MB). Upload large documents as a file."
        if too_large
        else "The browser sent something that this page does not understand. Go back and try again."
    )
    return _page(request, 413 if too_large else 400, "Too large" if too_large else "Bad request", text)


def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _page(request, 403, "Not allowed", _said(exception, "Your role does not allow this."))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _page(request, 404, "Not found", _said(exception, "There is no page at this address."))


def busy(request: HttpRequest, text: str) -> HttpResponse:
    return _page(request, 503, "One moment", text)


def server_error(request: HttpRequest) -> HttpResponse:
    log.error("request %s failed", request_id(request))
    return _page(
        request,
        500,
        "Something went wrong",
        "Nothing of this step was stored. The request id below finds it in the log.",
    )
