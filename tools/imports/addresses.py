"""Which addresses an import may connect to: public ones, and those that the installation names (SEC-2).

A name is judged when its socket is opened and resolved once, so that what was judged is what is connected to.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Container

PORTS = {80, 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PROTOCOL_ASSIGNMENTS = ipaddress.ip_network("192.0.0.0/24")


class Forbidden(Exception):
    """The address is not public, or does not exist: the difference would map somebody's network."""


def judged(host: str, port: int, *, allowed: Container[str]) -> str:
    """The address to connect to. `allowed` holds `host:port` (`[host]:port` of IPv6) that need not be public.

    Raises Forbidden.
    """
    if f"[{host}]:{port}" in allowed or f"{host}:{port}" in allowed:
        return host
    if port not in PORTS:
        raise Forbidden
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, ValueError):
        raise Forbidden from None
    # All of them: a name that leads both outside and inside is made to be tried until it leads inside.
    if not found or not all(_public(address) for address in found):
        raise Forbidden
    return min(found)


def _public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    # An IPv4 address in IPv6 dress (mapped, 6to4, Teredo, NAT64) is judged by neither name.
    if isinstance(address, ipaddress.IPv6Address) and (
        address.ipv4_mapped or address.sixtofour or address.teredo or address in _NAT64
    ):
        return False
    return address.is_global and not address.is_multicast and address not in _PROTOCOL_ASSIGNMENTS
