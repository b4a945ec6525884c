"""The HTTP client for servers of others. A call ends at a deadline, follows no redirect, uses no proxy and reads a bounded
body. `GuardedBackend` is for URLs that users give; an address of the installation's own settings needs `DeadlineBackend` only.
"""

from __future__ import annotations

import ssl
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpcore

from portal.outbound.addresses import AddressNotAllowed, resolve_allowed_address
from portal.outbound.deadline import DeadlineBackend
from portal.outbound.errors import UNREACHABLE, FetchError

CONNECT_SECONDS = 5.0


class BodyTooLarge(Exception):
    """The body has more bytes than the caller takes."""


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
