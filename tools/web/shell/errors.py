"""Errors as pages in the portal's shell, as one alert where htmx asked for a fragment, or as messages of the next page.

The request's transaction is rolled back before an error page is rendered, so an error page must not query the database.
"""

from __future__ import annotations

import logging
from types import TracebackType

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import DisallowedHost, RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django_htmx.http import reswap, retarget

from portal.http.request_ids import request_id
from portal.jobs.errors import InvalidArguments, JobError
from portal.tenancy.middleware import Member, OtherTenant
from tools.catalogue.errors import CatalogueError
from tools.web.shell.kept import kept_of

log = logging.getLogger(__name__)


def _page(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    number = request_id(request)
    context = {"status": status, "title": title, "text": text, "request_id": number}
    template = "shell/error.html#alert" if getattr(request, "htmx", False) else "shell/error.html"
    answer = render(request, template, context, status=status)
    answer["X-Request-ID"] = number
    return answer


class ErrorsAsMessages:
    """A block in which a refusal of a service (CatalogueError, JobError) becomes an error message, after `prefix`. Where the
    block ends with a return, the code below it runs after a refusal only."""

    def __init__(self, request: HttpRequest, prefix: str = "") -> None:
        self._request, self._prefix = request, prefix

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, InvalidArguments):
            text = " ".join(sentence for sentences in error.errors.values() for sentence in sentences)
        elif isinstance(error, CatalogueError | JobError):
            text = str(error)
        else:
            return False
        messages.error(self._request, f"{self._prefix}{text}")
        return True


def _own_sentence(exception: Exception | None, otherwise: str) -> str:
    """The exception's text if it is a sentence of ours. Django's own exceptions have texts for developers only."""
    text = str(exception.args[0]) if exception is not None and exception.args else ""
    return text if text.endswith(".") and not text.startswith("{") else otherwise


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    many = "The form has more than {:,} {}. Send fewer at a time."
    match exception:
        case DisallowedHost():
            text = "The portal does not answer to this host name. Whoever runs it can add the name to the setting ALLOWED_HOSTS."
            return _page(request, 400, "Unknown host name", text)
        case TooManyFieldsSent():
            text = many.format(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS, "fields")
        case TooManyFilesSent():
            text = many.format(settings.DATA_UPLOAD_MAX_NUMBER_FILES, "files")
        case RequestDataTooBig():
            megabytes = settings.DATA_UPLOAD_MAX_MEMORY_SIZE / 1_000_000
            text = _own_sentence(
                exception, f"The form is larger than {megabytes:g} MB. Upload large documents as a file."
            )
        case _:
            text = "The browser sent something that this page does not understand. Go back and try again."
            return _page(request, 400, "Bad request", text)
    return _page(request, 413, "Too large", text)


def permission_denied(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if isinstance(exception, OtherTenant):
        return _other_tenant(request, exception.made_for)
    return _page(request, 403, "Not allowed", _own_sentence(exception, "Your role does not allow this."))


def _other_tenant(request: HttpRequest, made_for: Member | None) -> HttpResponse:
    """A 409 with what the visitor typed, which was not saved, and the way to send it where the form was made."""
    member = getattr(request, "member", None)
    opened = f"in {made_for.name}" if made_for else "elsewhere"
    context = {
        "title": "This form was made for another tenant",
        "text": f"It was opened {opened}. You now work in {member.name if member else 'no tenant'}. Nothing was saved.",
        "kept": kept_of(request),
        "has_files": bool(request.FILES),
        "made_for": made_for,
    }
    is_htmx = getattr(request, "htmx", False)
    part = "#refusal" if is_htmx else ""
    answer = render(request, f"shell/other_tenant.html{part}", context, status=409)
    # A dialog or a row of a table would be too small for it.
    return reswap(retarget(answer, "#main"), "innerHTML") if is_htmx else answer


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _page(request, 404, "Not found", _own_sentence(exception, "There is no page at this address."))


def busy(request: HttpRequest, text: str) -> HttpResponse:
    return _page(request, 503, "Busy", text)


def unavailable(request: HttpRequest, text: str) -> HttpResponse:
    return _page(request, 503, "Not available", text)


def server_error(request: HttpRequest) -> HttpResponse:
    log.error("request %s failed", request_id(request))
    return _page(
        request,
        500,
        "Something went wrong",
        "Nothing was saved. Use the request id below to find the error in the log.",
    )
