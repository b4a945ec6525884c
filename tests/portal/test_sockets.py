"""The suite's own guard against the network: pytest-socket, by `--allow-hosts` in pyproject.toml.

It covers Python's sockets of this process. The product's processes that tests start are not covered, nor is what C libraries
connect to (libpq, the resolver): their addresses are given by the tests.
"""

from __future__ import annotations

import socket

import pytest
from pytest_socket import SocketConnectBlockedError


@pytest.mark.parametrize(
    ("family", "address"),
    [(socket.AF_INET, "192.0.2.1"), (socket.AF_INET, "10.0.0.1"), (socket.AF_INET6, "2001:db8::1")],
)
def test_a_socket_to_an_address_outside_the_loopback_is_refused(family: int, address: str) -> None:
    # Connecting a UDP socket sends nothing, so that this test would disturb nobody where the guard is missing.
    with (
        socket.socket(family, socket.SOCK_DGRAM) as outside,
        pytest.warns(UserWarning, match=address),
        pytest.raises(SocketConnectBlockedError),
    ):
        outside.connect((address, 9))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_a_socket_to_the_loopback_is_connected(address: str) -> None:
    with (
        socket.create_server((address, 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert client.getpeername() == server.getsockname()
