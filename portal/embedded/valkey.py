"""One Valkey server of our own: the broker (database 0) and the cache (database 1) of an embedded portal.

It listens on a free loopback port and wants a password. A port and not a socket, because every Redis client and
Celery take the same `redis://` URL, as they do for a real server. What is queued survives a clean stop; the portal's
durable state is in PostgreSQL.

A server has one limit of memory and one policy for all its databases. `volatile-lru` evicts only keys that expire, those
first that were not used for the longest time:

- Every key of the cache expires, and the broker's queues and its list of unacknowledged messages do not. So the cache gives
  way to the broker and never the reverse. The broker's only key that expires is a lock, without which a message may be
  delivered twice, which it may be anyway.
- Where nothing is left to evict, a full server refuses writes. A broker that evicted would lose messages in silence.
- `volatile-ttl` would evict the counters of API keys' rates, which live for a minute, before anything else; `allkeys-lru`
  would evict queues.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from portal.embedded.account import Programs
from portal.embedded.errors import ServiceError
from portal.embedded.layout import Layout
from portal.embedded.process import POLL_SECONDS, bind_error, end, end_pid, open_log, read_pid, spawn

READY_SECONDS = 10
START_TRIES = 5  # a port that was free can be taken before the server binds it
SETTINGS = {
    "bind": "127.0.0.1",
    "maxmemory": "512mb",
    "maxmemory-policy": "volatile-lru",
    "save": "300 1",
    "stop-writes-on-bgsave-error": "no",
    "tcp-backlog": "128",
}
STOP = [(signal.SIGTERM, 1.0)]


@dataclass(slots=True)
class Valkey:
    """The server in `layout`; `port` 0 means any free one."""

    layout: Layout
    programs: Programs
    password: str
    port: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The server's pid."""
        if self.process is None:
            raise ServiceError("Valkey does not run.")
        return self.process.pid

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it on its port, or on a free one where that is taken; return once it answers to its password."""
        self._end_leftover()
        for _ in range(START_TRIES):
            if not self.port or bind_error("127.0.0.1", self.port):
                self.port = _free_port()
            if self._launch():
                return
        self._give_up()

    def stop(self) -> None:
        if self.process is not None:
            end(self.process, ladder=STOP)
            self.process = None

    def restart(self) -> None:
        """Stop it and start it again on the same port, which its clients know."""
        self.stop()
        self._end_leftover()
        if not self._launch():
            self._give_up()

    def _give_up(self) -> NoReturn:
        lines = (self.layout.logs / "valkey.log").read_text(encoding="utf-8", errors="replace").splitlines()
        raise ServiceError(f"Valkey did not start: {lines[-1] if lines else 'it gave no reason.'}")

    def _launch(self) -> bool:
        with open_log(self.layout.logs / "valkey.log") as log:
            self.process = spawn(
                [self.programs.valkey_server, self._configure()],
                cwd=self.layout.valkey,
                environment={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                output=log,
                death_signal=signal.SIGTERM,
                account=self.layout.account,
            )
        deadline = time.monotonic() + READY_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            if self._answers():
                return True
            time.sleep(POLL_SECONDS)
        self.stop()
        return False

    def _configure(self) -> str:
        """Write the configuration, which holds the password: on the command line all users could read it."""
        values = {
            **SETTINGS,
            **self.settings,
            "port": str(self.port),
            "requirepass": self.password,
            "dir": str(self.layout.valkey),
            "pidfile": str(self.layout.valkey / "valkey.pid"),
        }
        path = self.layout.valkey_configuration
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(
            "".join(f"{name} {_quoted(name, value)}\n" for name, value in values.items()), encoding="utf-8"
        )
        if self.layout.account:
            os.chown(path, *self.layout.account)
        return str(path)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2:
                    received = connection.recv(64)
                    if not received:
                        return False
                    answer += received
        except OSError:
            return False
        return answer == b"+OK\r\n+PONG\r\n"

    def _end_leftover(self) -> None:
        """End a server that a killed owner left running in our folder."""
        if pid := read_pid(self.layout.valkey / "valkey.pid"):
            end_pid(pid, self.layout.valkey, "valkey-server", ladder=[*STOP, (signal.SIGKILL, 2.0)])


def _quoted(name: str, value: str) -> str:
    # `save` and `bind` take several words; a folder's name may hold a blank.
    return f'"{value}"' if name in {"dir", "pidfile", "requirepass"} else value


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
