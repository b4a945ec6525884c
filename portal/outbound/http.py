"""The HTTP client for servers of others. A call ends at a deadline, because a timeout of each read lets a server send a byte now
and then without end; it follows no redirect, uses no proxy and reads a bounded body. `GuardedBackend` is for URLs that users
give; an address of the installation's own settings needs `DeadlineBackend` only.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpcore

from portal.outbound.addresses import AddressNotAllowed, resolve_allowed_address
from portal.outbound.errors import UNREACHABLE, FetchError

CONNECT_SECONDS = 5.0


class BodyTooLarge(Exception):
    """The body has more bytes than the caller takes."""


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, at: float) -> None:
        self._stream, self._at = stream, at

    def _within(self, timeout: float | None) -> float:
        left = self._at - time.monotonic()
        return max(0.001, min(left, timeout or left))

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        # Data that has arrived would be read however late it is, so the time is looked at first.
        if time.monotonic() >= self._at:
            raise httpcore.ReadTimeout
        return self._stream.read(max_bytes, self._within(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._within(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, self._within(timeout)), self._at)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class DeadlineBackend(httpcore.SyncBackend):
    """Opens sockets whose streams end at `at`, a time of time.monotonic(); only the resolver of names has its own time."""

    def __init__(self, at: float) -> None:
        self._at = at

    def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> httpcore.NetworkStream:
        return _Stream(super().connect_tcp(host, port, *args, **options), self._at)


class GuardedBackend(DeadlineBackend):
    """Opens sockets to public addresses and to `allowed` (`host:port`) only; `reached` says whether one was opened."""

    def __init__(self, at: float, allowed: Container[str]) -> None:
        super().__init__(at)
        self._allowed = allowed
        self.reached = False

    def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> httpcore.NetworkStream:
        try:
            address = resolve_allowed_address(host, port, allowed=self._allowed)
        except AddressNotAllowed:
            raise FetchError(UNREACHABLE) from None
        stream = super().connect_tcp(address, port, *args, **options)
        self.reached = True
        return stream


@contextmanager
def open_response(
    method: str,
    url: str,
    *,
    backend: DeadlineBackend,
    headers: Mapping[str, str],
    read_seconds: float,
    connect_seconds: float = CONNECT_SECONDS,
    content: bytes | None = None,
) -> Iterator[httpcore.Response]:
    """Sends one request over a new connection and yields the response before its body is read. `read_seconds` bounds
    each read and write, the backend's deadline the whole call. Raises httpcore's errors, and what the backend raises.

    No connection is reused: the server could close it just then, which would look like a fault of the request.
    """
    sent = {"Host": urlsplit(url).netloc, "User-Agent": "tool-portal", **headers}
    timeouts = {
        "connect": connect_seconds,
        "read": read_seconds,
        "write": read_seconds,
        "pool": connect_seconds,
    }
    with (
        httpcore.ConnectionPool(ssl_context=_trust(), network_backend=backend, retries=0) as pool,
        pool.stream(
            method, url, headers=list(sent.items()), content=content, extensions={"timeout": timeouts}
        ) as response,
    ):
        yield response


def read_body(response: httpcore.Response, max_bytes: int) -> bytes:
    """The whole body. Raises BodyTooLarge as soon as it has more than `max_bytes`, and httpcore's errors."""
    body = bytearray()
    stream: Iterable[bytes] = response.iter_stream()
    for chunk in stream:
        body += chunk
        if len(body) > max_bytes:
            raise BodyTooLarge
    return bytes(body)


@cache
def _trust() -> ssl.SSLContext:
    """The system's certificate authorities and certifi's; loaded once, since that takes 20 ms."""
    return httpcore.default_ssl_context()
