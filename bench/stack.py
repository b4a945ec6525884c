"""A throwaway portal for a measurement: its own servers, tenants and keys, and the product's own web and worker processes.

`DATABASE_URL` and its like in the environment name real servers instead; then the database named there is used as it is.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from portal.embedded import start
from portal.embedded.process import spawn
from portal.processes import PROCESSES

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {process.name: process for process in PROCESSES}
START_SECONDS = 60


@dataclass
class Stack:
    """A running portal. `environment` is what its processes see."""

    environment: dict[str, str]
    port: int
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def manage(self, *arguments: str) -> str:
        """Output of a command; a failing one raises with its own words."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=ROOT, env=self.environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"manage.py {' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.stdout

    def new_tenant(self, slug: str) -> str:
        """Makes a tenant; returns an API key of it."""
        self.manage("create_tenant", slug)
        made = self.manage("create_api_key", "bench", "--tenant", slug, "--scope", "admin", "--json")
        key: str = json.loads(made)["api_key"]
        return key

    def start(self, name: str, **environment: str) -> None:
        """Starts one of the product's processes (`embeddings`, …), and with `web` the proxy before it."""
        process = COMMANDS[name]
        role = {"PORTAL_DB_ROLE": process.role} if process.role else {}
        self.spawn(name, [sys.executable, *process.command[1:]], **role, **environment)
        if name == "web" and "proxy" not in self.processes:
            self.start("proxy", **environment)
        if name == "web":
            self.await_port(self.port)

    def start_second_web(self, name: str, **environment: str) -> int:
        """Starts another web with settings of its own, and its proxy, as `name` and `name-proxy`; returns its port."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        own = replace(self, port=port, processes={})
        own.start("web", PORT=str(port), WEB_SOCKET=f"{self.environment['WEB_SOCKET']}.{name}", **environment)
        self.processes |= {name: own.processes["web"], f"{name}-proxy": own.processes["proxy"]}
        return port

    def spawn(self, name: str, command: list[str], **environment: str) -> None:
        """Starts any process, which ends with us even if we are killed."""
        self.processes[name] = spawn(
            command,
            cwd=ROOT,
            environment={**self.environment, **environment},
            output=subprocess.DEVNULL,
            death_signal=signal.SIGTERM,
        )

    def stop(self, name: str) -> None:
        if name == "web":
            self.stop("proxy")
        process = self.processes.pop(name)
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def await_port(self, port: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with (
                closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection,
                suppress(OSError),
            ):
                connection.request("GET", "/livez")
                if connection.getresponse().status == 200:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"nothing answers on port {port}")

    def await_ready(self, tenant: str) -> None:
        """Waits until the workers have embedded everything of the tenant."""
        self.manage("backfill_embeddings", "--tenant", tenant, "--wait", "--no-progress")


class Client:
    """One keep-alive connection to a portal, as an agent's."""

    def __init__(self, port: int, key: str) -> None:
        self.port, self.key = port, key
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def __del__(self) -> None:
        self._connection.close()

    def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and decoded JSON."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **(headers or {})}
        try:
            self._connection.request(method, path, data, sent)
            response = self._connection.getresponse()
        except (http.client.HTTPException, OSError):
            # The server may have closed it meanwhile; a closed connection is opened again.
            self._connection.close()
            self._connection.request(method, path, data, sent)
            response = self._connection.getresponse()
        raw = response.read()
        return response.status, json.loads(raw) if raw else None


@contextmanager
def stack(*, is_migrated: bool = False, **environment: str) -> Iterator[Stack]:
    """A migrated portal without any process but its servers; all of it ends with the block. `is_migrated` says that the
    database which DATABASE_URL names is ready, as that of a test is."""
    with ExitStack() as cleanup:
        urls = {}
        folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="portal-bench-"))
        if "DATABASE_URL" not in os.environ:
            urls = cleanup.enter_context(start(folder)).urls
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        web = {"PORT": str(port), "WEB_SOCKET": f"{folder}/web.sock"}
        made = Stack({**os.environ, **urls, **web, **environment}, port)
        made.environment.pop("PORTAL_DB_ROLE", None)
        if not is_migrated:
            made.manage("create_logins")
            made.manage("migrate", "--verbosity", "0")
        try:
            yield made
        finally:
            while made.processes:
                made.stop("web" if "web" in made.processes else next(iter(made.processes)))
