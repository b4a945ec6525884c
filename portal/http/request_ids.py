"""The id of a request: the caller's own, its trace's or a new one, in answers, in problems and in every line logged meanwhile."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from django.http import HttpRequest

MAX_LENGTH = 128
# https://www.w3.org/TR/trace-context/#traceparent-header: version, trace, span, flags; zeros only are no trace.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_current: ContextVar[str] = ContextVar("portal_request_id", default="-")


def new_request_id(headers: Mapping[str, str]) -> str:
    """Chooses the id of a request that begins: its X-Request-ID if that is reasonable, else the trace id of its traceparent,
    else a new one. What is logged from here on names it. `headers` are looked up by these names as written here."""
    given = headers.get("X-Request-ID", "")
    fits = given.isascii() and given.isprintable() and 0 < len(given) <= MAX_LENGTH
    trace = _TRACEPARENT.fullmatch(headers.get("traceparent", "").strip())
    chosen = given if fits else trace[1] if trace else uuid.uuid4().hex
    # Never reset: a thread serves one request at a time, and the next one sets its own.
    _current.set(chosen)
    return chosen


def current_request_id() -> str | None:
    """The id of the request that this thread or task serves; None outside of one."""
    current = _current.get()
    return None if current == "-" else current


def request_id(request: Any) -> str:
    """The id of a request of Django or of DRF, the same for the whole request."""
    django_request: HttpRequest = getattr(request, "_request", request)
    known: str | None = getattr(django_request, "request_id", None)
    if known is None:
        known = vars(django_request)["request_id"] = new_request_id(django_request.headers)
    return known


class RequestIdFilter(logging.Filter):
    """Gives every record `request_id`, "-" outside of a request."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _current.get()
        return True
