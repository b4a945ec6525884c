"""The id of a request: the caller's own, its trace's or a new one, in answers, in problems and in every line logged meanwhile."""

from __future__ import annotations

import logging
import re
import uuid
from contextvars import ContextVar
from typing import Any

MAX_LENGTH = 128
# https://www.w3.org/TR/trace-context/#traceparent-header: version, trace, span, flags; zeros only are no trace.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_current: ContextVar[str] = ContextVar("portal_request_id", default="-")


def request_id(request: Any) -> str:
    """The caller's own X-Request-ID if it is reasonable, else the trace id of its traceparent, else a new one.

    The same for the whole request.
    """
    django_request = getattr(request, "_request", request)
    known: str | None = getattr(django_request, "request_id", None)
    if known is None:
        given = django_request.headers.get("X-Request-ID", "")
        fits = given.isascii() and given.isprintable() and 0 < len(given) <= MAX_LENGTH
        trace = _TRACEPARENT.fullmatch(django_request.headers.get("traceparent", "").strip())
        known = given if fits else trace[1] if trace else uuid.uuid4().hex
        django_request.request_id = known
        # Never reset: a thread serves one request at a time, and the next one sets its own.
        _current.set(known)
    return known


class RequestIdFilter(logging.Filter):
    """Gives every record `request_id`, "-" outside of a request."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _current.get()
        return True
