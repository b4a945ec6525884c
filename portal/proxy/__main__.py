"""The web: starts gunicorn's workers on a Unix socket of their own, then listens for clients. Ends with them, and they with it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.conf import settings

from portal.embedded.process import spawn
from portal.proxy.server import Server

GUNICORN = ("-m", "gunicorn", "portal.wsgi", "-c", "portal/gunicorn.py")
# What an answer under way has before the workers are told to stop; they finish what they have (graceful_timeout).
DRAIN_SECONDS = 1.0
STOP_SECONDS = 7.0
START_POLL_SECONDS = 0.05


def main() -> None:
    try:
        listening = bind(settings.HOST, settings.PORT)
    except OSError as error:
        sys.exit(f"Port {settings.PORT} of {settings.HOST} cannot be used: {error.strerror or error}.")
    with tempfile.TemporaryDirectory(prefix="portal-web-") as folder:  # closed to others
        path = Path(folder) / "workers.sock"
        workers = spawn(
            [sys.executable, *GUNICORN, "--bind", f"unix:{path}"],
            cwd=settings.BASE_DIR,
            environment=os.environ,
            output=sys.stdout.fileno(),
            death_signal=signal.SIGQUIT,
        )
        sys.exit(asyncio.run(run(listening, path, workers)))


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to every address of this host. They do not listen yet: nobody is let in before the workers are there."""
    bound = []
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in found:
        # With its protocol named, or asyncio would not turn Nagle's algorithm off, which costs an answer 40 ms.
        one = socket.socket(family, kind, protocol)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        bound.append(one)
    return bound


async def run(listening: list[socket.socket], path: Path, workers: subprocess.Popen[bytes]) -> int:
    """Serves until a signal or the end of the workers; returns the status to exit with."""
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    ended = asyncio.create_task(asyncio.to_thread(workers.wait))
    ended.add_done_callback(lambda _: asked.set())
    server = Server(path, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    while not asked.is_set() and not await _answers(path):
        with suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), START_POLL_SECONDS)
    if not asked.is_set():
        await server.listen(listening)
        await asked.wait()
    if ended.done():
        server.abort()
        return ended.result() or 1
    await server.close(DRAIN_SECONDS)
    workers.terminate()
    done, _ = await asyncio.wait([ended], timeout=STOP_SECONDS)
    if not done:
        workers.kill()
    await ended
    server.abort()
    return 0


async def _answers(path: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True


if __name__ == "__main__":
    main()
