"""Which addresses an import may connect to: public ones, and those that the installation names (SEC-2).

A name is judged when its socket is opened and resolved once, so that what was judged is what is connected to.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Container

PORTS = {80, 443}
# Of IPv6 only this part is given out. What lies beside it leads inside, or is IPv4 in another dress (mapped, compatible,
# translated, NAT64), which nobody writes who means a public server.
_GIVEN_OUT = ipaddress.ip_network("2000::/3")
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # the cloud's own service on every machine of Azure
        "192.0.0.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "2001::/23",  # Teredo and the like
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
    )
)


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
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, ValueError):
        raise Forbidden from None
    # All of them: a name that leads both outside and inside is made to be tried until it leads inside.
    if not found or not all(_public(address) for address in found):
        raise Forbidden
    # The resolver puts first what this machine can reach best.
    return found[0]


def _public(text: str) -> bool:
    if "%" in text:
        return False  # a zone: the address means something on one of this machine's networks only
    address = ipaddress.ip_address(text)
    if address.version == 6 and address not in _GIVEN_OUT:
        return False
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in network for network in _NOT_PUBLIC)
    )
