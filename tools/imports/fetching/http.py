"""Fetches a document by a URL that a user gave. The address is checked when the socket is opened, not when the URL is read,
and a redirect is an answer like any other that is not 200 (SEC-2).
"""

from __future__ import annotations

import time
import zlib

import httpcore
from django.conf import settings

from portal.outbound.addresses import validate_url, why_unreachable
from portal.outbound.errors import FetchError, FetchTimeout, causes_of
from portal.outbound.http import BodyTooLarge, GuardedBackend, open_response, read_body

READ_SECONDS = 10.0
WHOLE_SECONDS = 60.0
# A server that has a document compressed only may send it so all the same.
_HEADERS = {"Accept": "application/json, application/yaml, */*;q=0.5", "Accept-Encoding": "identity"}
_GZIP, _ZLIB, _RAW_DEFLATE = 31, 15, -15
_MAGIC_BITS = 0x0F
_DEFLATE = 8


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
            body = read_body(response, settings.DOCUMENT_MAX_BYTES)
            return _decoded(body, _content_encoding(response))
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


def _content_encoding(response: httpcore.Response) -> str:
    found = (value for name, value in response.headers if name.lower() == b"content-encoding")
    return next(found, b"").decode("latin-1")


def _decoded(body: bytes, encoding: str) -> bytes:
    """The document in a body, which is unpacked no further than its size may be."""
    coding = encoding.strip().lower().removeprefix("x-")
    if coding in ("", "identity"):
        return body
    if coding not in ("gzip", "deflate"):
        raise FetchError(
            f"The server compressed the document ({coding[:40]}), although it was asked not to; gzip and deflate are read."
        )
    is_zlib = bool(body) and body[0] & _MAGIC_BITS == _DEFLATE
    unpacker = zlib.decompressobj(_GZIP if coding == "gzip" else _ZLIB if is_zlib else _RAW_DEFLATE)
    try:
        document = unpacker.decompress(body, settings.DOCUMENT_MAX_BYTES + 1)
    except zlib.error:
        raise FetchError(
            f"The server says that the document is compressed ({coding}), and it is not."
        ) from None
    if len(document) > settings.DOCUMENT_MAX_BYTES:
        raise BodyTooLarge
    if not unpacker.eof:
        raise FetchError("The compressed document ends before it is complete.")
    return document


def _interrupted(error: Exception) -> FetchError:
    """The error of a server that was reached, so that its existence is no secret."""
    if isinstance(error, httpcore.TimeoutException):
        return FetchTimeout(f"The server was reached, and then said nothing for {READ_SECONDS:.0f} s.")
    if isinstance(error, httpcore.ConnectError):
        return FetchError("The server was reached, and no secure connection to it could be made (TLS).")
    return FetchError("The server was reached, and its answer broke off before the end.")
