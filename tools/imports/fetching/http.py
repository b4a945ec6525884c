"""Fetches a document by URL, without letting a stranger's URL reach inside: the address is checked when the socket is
opened, not when the URL is read, and a redirect is an answer like any other that is not 200 (SEC-2).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpcore
from django.conf import settings

from portal.outbound.addresses import Forbidden, judged
from portal.outbound.deadline import DeadlineBackend

CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0
WHOLE_SECONDS = 60.0
MAX_URL = 2048


class FetchRefused(Exception):
    """The document could not be fetched; the message is for the operator."""


class InvalidTarget(FetchRefused):
    """Nobody was asked: what was given is nothing that can be asked."""


class TooSlow(FetchRefused):
    """Somebody was there, and the time was up before the answer was."""


# One sentence for a forbidden, a closed and a filtered address: the difference would map somebody's network.
UNREACHABLE = "The address cannot be reached. Only public addresses over http or https are allowed."


class _GuardedBackend(DeadlineBackend):
    """Opens sockets to public addresses and to IMPORT_ALLOWED_HOSTS only."""

    reached = False

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            address = judged(host, port, allowed=settings.IMPORT_ALLOWED_HOSTS)
        except Forbidden:
            raise FetchRefused(UNREACHABLE) from None
        stream = super().connect_tcp(address, port, timeout, local_address, socket_options)
        self.reached = True
        return stream


def document(url: str, *, seconds: float | None = None) -> bytes:
    """The body of a GET, at most DOCUMENT_MAX_BYTES, in at most `seconds`, or WHOLE_SECONDS. Raises
    FetchRefused, InvalidTarget, TooSlow."""
    seconds = seconds or WHOLE_SECONDS
    host = host_header(url)
    timeouts = {
        "connect": CONNECT_SECONDS,
        "read": READ_SECONDS,
        "write": READ_SECONDS,
        "pool": CONNECT_SECONDS,
    }
    headers: dict[bytes | str, bytes | str] = {
        "Host": host,
        "Accept": "application/json, application/yaml, */*;q=0.5",
        "User-Agent": "tool-portal",
    }
    deadline = time.monotonic() + seconds
    backend = _GuardedBackend(deadline)
    try:
        with (
            httpcore.ConnectionPool(network_backend=backend, retries=0) as pool,
            pool.stream("GET", url, headers=headers, extensions={"timeout": timeouts}) as response,
        ):
            if response.status != 200:
                raise FetchRefused(
                    f"The server answered {response.status} instead of the document (redirects are not followed)."
                )
            body = bytearray()
            for chunk in response.iter_stream():
                body += chunk
                if len(body) > settings.DOCUMENT_MAX_BYTES:
                    raise FetchRefused(
                        f"The document is larger than {settings.DOCUMENT_MAX_BYTES // 1_000_000} MB."
                    )
            return bytes(body)
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        if not backend.reached:
            raise FetchRefused(UNREACHABLE) from None
        if time.monotonic() >= deadline:
            raise TooSlow(f"The document took more than {seconds:.0f} s to arrive.") from None
        raise _cut_short(error) from None


def _cut_short(error: Exception) -> FetchRefused:
    """What became of a server that was reached, and may so be spoken of."""
    if isinstance(error, httpcore.TimeoutException):
        return TooSlow(f"The server was reached, and then said nothing for {READ_SECONDS:.0f} s.")
    if isinstance(error, httpcore.ConnectError):
        return FetchRefused("The server was reached, and no secure connection to it could be made (TLS).")
    return FetchRefused("The server was reached, and its answer broke off before the end.")


def host_header(url: str) -> str:
    """Host and port of a URL that may be asked for at all. Raises InvalidTarget."""
    if len(url) > MAX_URL:
        raise InvalidTarget(f"The URL is longer than {MAX_URL} characters.")
    try:
        parts = urlsplit(url)
        plain = url.isascii() and url.isprintable() and " " not in url and parts.port != 0
    except ValueError:
        plain = False
    if not plain or parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise InvalidTarget("Give a URL that starts with http:// or https:// and holds no user or password.")
    return parts.netloc
