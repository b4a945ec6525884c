"""Fetches a document by a URL that a user gave. The address is checked when the socket is opened, not when the URL is read,
and a redirect is an answer like any other that is not 200 (SEC-2).
"""

from __future__ import annotations

import time

import httpcore
from django.conf import settings

from portal.outbound.addresses import validate_url, why_unreachable
from portal.outbound.errors import FetchError, FetchTimeout, causes_of
from portal.outbound.http import BodyTooLarge, GuardedBackend, open_response, read_body

READ_SECONDS = 10.0
WHOLE_SECONDS = 60.0
_HEADERS = {"Accept": "application/json, application/yaml, */*;q=0.5"}


def fetch_document(url: str, *, seconds: float | None = None) -> bytes:
    """The body of a GET: at most DOCUMENT_MAX_BYTES, in at most `seconds` (default WHOLE_SECONDS). Raises FetchError,
    InvalidTarget, FetchTimeout."""
    validate_url(url)
    seconds = seconds or WHOLE_SECONDS
    deadline = time.monotonic() + seconds
    backend = GuardedBackend(deadline, settings.IMPORT_ALLOWED_HOSTS)
    try:
        with open_response(
            "GET", url, backend=backend, headers=_HEADERS, read_seconds=READ_SECONDS
        ) as response:
            if response.status != 200:
                raise FetchError(
                    f"The server answered {response.status} instead of the document (redirects are not followed)."
                )
            return read_body(response, settings.DOCUMENT_MAX_BYTES)
    except BodyTooLarge:
        raise FetchError(
            f"The document is larger than {settings.DOCUMENT_MAX_BYTES / 1_000_000:g} MB."
        ) from None
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        if not backend.reached:
            raise FetchError(
                why_unreachable(url, causes_of(error), allowed=settings.IMPORT_ALLOWED_HOSTS)
            ) from None
        if time.monotonic() >= deadline:
            raise FetchTimeout(f"The document took more than {seconds:.0f} s to arrive.") from None
        raise _interrupted(error) from None


def _interrupted(error: Exception) -> FetchError:
    """The error of a server that was reached, so that its existence is no secret."""
    if isinstance(error, httpcore.TimeoutException):
        return FetchTimeout(f"The server was reached, and then said nothing for {READ_SECONDS:.0f} s.")
    if isinstance(error, httpcore.ConnectError):
        return FetchError("The server was reached, and no secure connection to it could be made (TLS).")
    return FetchError("The server was reached, and its answer broke off before the end.")
