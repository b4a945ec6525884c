"""Outbound connections with a deadline, because a timeout of each read lets a server send a byte now and then without end."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore


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

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(super().connect_tcp(host, port, timeout, local_address, socket_options), self._at)
