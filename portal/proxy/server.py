"""Accepts connections, bounds their number, and ends them in order when the web stops."""

from __future__ import annotations

import asyncio
import resource
import socket
from pathlib import Path

from portal.proxy.client import Client
from portal.proxy.turns import Turns

MAX_CONNECTIONS = 4096
BACKLOG = 1024


class Server:
    """Serves clients with the workers at a Unix socket. `body_bytes` is how long a body may be that no worker was asked about."""

    def __init__(self, workers: Path, body_bytes: int) -> None:
        self._workers, self._body_bytes = workers, body_bytes
        self._clients: dict[Client, asyncio.Task[None]] = {}
        self._waited_for: dict[Client, None] = {}  # the one that is waited for longest comes first
        self._turns = Turns()
        self._most = _raise_file_limit()
        self._servers: list[asyncio.Server] = []

    async def listen(self, listening: list[socket.socket]) -> None:
        for one in listening:
            self._servers.append(await asyncio.start_server(self._accept, sock=one, backlog=BACKLOG))

    async def close(self, seconds: float) -> None:
        """Takes no more connections, ends those between two requests, and waits so long for the answers under way."""
        for one in self._servers:
            one.close()
        for client in list(self._clients):
            client.is_last = True
            if client.is_idle:
                client.abort()
        if self._clients:
            await asyncio.wait(self._clients.values(), timeout=seconds)

    def abort(self) -> None:
        for client in self._clients:
            client.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(reader, writer, self._workers, self._body_bytes, self._turns, self._waited_for)
        if len(self._clients) >= self._most:
            # Whoever keeps us waiting longest makes room: silent connections do, before any that gets an answer.
            next(iter(self._waited_for), client).abort()
        self._clients[client] = asyncio.create_task(client.serve())
        self._clients[client].add_done_callback(lambda _: self._clients.pop(client))


def _raise_file_limit() -> int:
    """Allows this process as many open files as it may have; returns how many connections they suffice for: each may need a
    file for its body, another for its answer, and a connection to a worker, but few do at the same time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * MAX_CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, soft // 2)
