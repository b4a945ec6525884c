"""Fetches a document by URL, without letting a stranger's URL reach inside: the address is checked when the socket is
opened, not when the URL is read, and a redirect is an answer like any other that is not 200 (SEC-2).
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpcore
from django.conf import settings

CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0
WHOLE_SECONDS = 60.0
PORTS = {80, 443}


class FetchRefused(Exception):
    """The document could not be fetched; the message is for the operator."""


# One sentence for a forbidden, a closed and a filtered address: the difference would map somebody's network.
_UNREACHABLE = "The address cannot be reached. Only public addresses over http or https are allowed."


class _GuardedBackend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        if f"{host}:{port}" in settings.IMPORT_ALLOWED_HOSTS:
            return super().connect_tcp(host, port, timeout, local_address, socket_options)
        if port not in PORTS:
            raise FetchRefused(_UNREACHABLE)
        try:
            found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
        except (OSError, UnicodeError):
            raise FetchRefused(_UNREACHABLE) from None
        if not found or not all(_public(address) for address in found):
            raise FetchRefused(_UNREACHABLE)
        return super().connect_tcp(sorted(found)[0], port, timeout, local_address, socket_options)


def _public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        # An IPv4 address in IPv6 dress (mapped, 6to4, Teredo, NAT64) is judged by neither name.
        if address.ipv4_mapped or address.sixtofour or address.teredo or address in _NAT64:
            return False
    return address.is_global and not address.is_multicast and address not in _PROTOCOL_ASSIGNMENTS


_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PROTOCOL_ASSIGNMENTS = ipaddress.ip_network("192.0.0.0/24")


def document(url: str) -> bytes:
    """The body of a GET, at most DOCUMENT_MAX_BYTES. Raises FetchRefused."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.password:
        raise FetchRefused("Give a URL that starts with http:// or https:// and holds no user or password.")
    timeouts = {
        "connect": CONNECT_SECONDS,
        "read": READ_SECONDS,
        "write": READ_SECONDS,
        "pool": CONNECT_SECONDS,
    }
    headers = {
        "Host": parts.netloc,
        "Accept": "application/json, application/yaml, */*;q=0.5",
        "User-Agent": "tool-portal",
    }
    deadline = time.monotonic() + WHOLE_SECONDS
    try:
        with (
            httpcore.ConnectionPool(network_backend=_GuardedBackend(), retries=0) as pool,
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
                if time.monotonic() > deadline:
                    raise FetchRefused(f"The document took more than {WHOLE_SECONDS:.0f} s to arrive.")
            return bytes(body)
    except (
        httpcore.NetworkError,
        httpcore.TimeoutException,
        httpcore.ProtocolError,
        httpcore.UnsupportedProtocol,
    ):
        raise FetchRefused(_UNREACHABLE) from None
