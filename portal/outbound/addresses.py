"""Which URLs and addresses the portal may connect to: public ones, and those that the installation names (SEC-2).

A name is resolved once, when its socket is opened, so that the address that was checked is the one connected to.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Container, Sequence
from urllib.parse import urlsplit

from portal.outbound.errors import UNREACHABLE, InvalidTarget

MAX_URL = 2048
PORTS = {80, 443}
# The only part of IPv6 that is allocated. What lies beside it is internal, or is IPv4 in another form (mapped, compatible,
# translated, NAT64), which no public server needs.
_ALLOCATED = ipaddress.ip_network("2000::/3")
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # the metadata service on every machine of Azure
        "192.0.0.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "2001::/23",  # Teredo and the like
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
    )
)


class AddressNotAllowed(Exception):
    """The address is not public, or does not exist: the difference would map a private network."""


def validate_url(url: str) -> None:
    """Raises InvalidTarget for a URL that is not plain http or https, or that holds a user or password."""
    if len(url) > MAX_URL:
        raise InvalidTarget(f"The URL is longer than {MAX_URL} characters.")
    try:
        parts = urlsplit(url)
        plain = url.isascii() and url.isprintable() and " " not in url and parts.port != 0
    except ValueError:
        plain = False
    if not plain or parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise InvalidTarget("Give a URL that starts with http:// or https:// and holds no user or password.")


def resolve_allowed_address(host: str, port: int, *, allowed: Container[str]) -> str:
    """The address to connect to. `allowed` holds `host:port` (`[host]:port` of IPv6) that need not be public.

    Raises AddressNotAllowed.
    """
    if _is_named(host, port, allowed):
        return host
    if port not in PORTS:
        raise AddressNotAllowed
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, ValueError):
        raise AddressNotAllowed from None
    # All of them: a name with public and internal addresses is an attempt to be connected to the internal one some day.
    if not found or not all(_is_public(address) for address in found):
        raise AddressNotAllowed
    # The resolver puts first what this machine can reach best.
    return found[0]


def _is_named(host: str, port: int, allowed: Container[str]) -> bool:
    return f"[{host}]:{port}" in allowed or f"{host}:{port}" in allowed


def why_unreachable(url: str, causes: Sequence[BaseException], *, allowed: Container[str]) -> str:
    """The sentence about a URL to which no connection was opened. Of a server that the installation names the cause is no
    secret; of all others it would map a private network."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return UNREACHABLE
    if not _is_named(host, port, allowed):
        return UNREACHABLE
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return f"The name {host} is not known here."
        if isinstance(cause, ConnectionRefusedError):
            return f"{host} refused the connection: nothing listens at its port {port}."
        if isinstance(cause, TimeoutError):
            return f"{host} did not accept a connection at its port {port} in time."
    reasons = [cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror]
    return f"No connection to port {port} of {host} could be opened{f': {reasons[0]}' if reasons else ''}."


def _is_public(text: str) -> bool:
    if "%" in text:
        return False  # a zone: the address means something on one of this machine's networks only
    address = ipaddress.ip_address(text)
    if address.version == 6 and address not in _ALLOCATED:
        return False
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in network for network in _NOT_PUBLIC)
    )
