"""Fetches a document by URL, without letting a stranger's URL reach inside: the address is checked when the socket is
opened, not when the URL is read, and a redirect is an answer like any other that is not 200 (SEC-2).
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpcore
from django.conf import settings

from tools.imports.addresses import Forbidden, judged

CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0
WHOLE_SECONDS = 60.0
MAX_URL = 2048


class FetchRefused(Exception):
    """The document could not be fetched; the message is for the operator."""


# One sentence for a forbidden, a closed and a filtered address: the difference would map somebody's network.
UNREACHABLE = "The address cannot be reached. Only public addresses over http or https are allowed."
_SLOW = f"The document took more than {WHOLE_SECONDS:.0f} s to arrive."


class _TimedStream(httpcore.NetworkStream):
    """A stream that ends at the deadline: a timeout of each read alone lets a server send a byte now and then for ever."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream, self._deadline = stream, deadline

    def _within(self, timeout: float | None) -> float:
        left = self._deadline - time.monotonic()
        return max(0.001, min(left, timeout or left))

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._within(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._within(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secure = self._stream.start_tls(ssl_context, server_hostname, self._within(timeout))
        return _TimedStream(secure, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _GuardedBackend(httpcore.SyncBackend):
    """Opens sockets to public addresses and to IMPORT_ALLOWED_HOSTS only."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

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
        return _TimedStream(stream, self._deadline)


def document(url: str) -> bytes:
    """The body of a GET, at most DOCUMENT_MAX_BYTES. Raises FetchRefused."""
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
    deadline = time.monotonic() + WHOLE_SECONDS
    try:
        with (
            httpcore.ConnectionPool(network_backend=_GuardedBackend(deadline), retries=0) as pool,
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
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError):
        raise FetchRefused(UNREACHABLE if time.monotonic() < deadline else _SLOW) from None


def host_header(url: str) -> str:
    """Host and port of a URL that may be asked for at all."""
    if len(url) > MAX_URL:
        raise FetchRefused(f"The URL is longer than {MAX_URL} characters.")
    try:
        parts = urlsplit(url)
        plain = url.isascii() and url.isprintable() and " " not in url and parts.port != 0
    except ValueError:
        plain = False
    if not plain or parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise FetchRefused("Give a URL that starts with http:// or https:// and holds no user or password.")
    return parts.netloc
