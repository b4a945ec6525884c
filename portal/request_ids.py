"""The id of a request: the caller's own or a new one, in answers, in problems and in every line that is logged meanwhile."""

from __future__ import annotations

import logging
import uuid
from contextvars import ContextVar
from typing import Any

MAX_LENGTH = 128
_current: ContextVar[str] = ContextVar("portal_request_id", default="-")


def request_id(request: Any) -> str:
    """The caller's own X-Request-ID if it is reasonable, else a new one; the same for the whole request."""
    django_request = getattr(request, "_request", request)
    known: str | None = getattr(django_request, "request_id", None)
    if known is None:
        given = django_request.headers.get("X-Request-ID", "")
        fits = given.isascii() and given.isprintable() and 0 < len(given) <= MAX_LENGTH
        known = given if fits else uuid.uuid4().hex
        django_request.request_id = known
        # Never reset: a thread serves one request at a time, and the next one sets its own.
        _current.set(known)
    return known


class RequestIdFilter(logging.Filter):
    """Gives every record `request_id`, "-" outside of a request."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _current.get()
        return True
