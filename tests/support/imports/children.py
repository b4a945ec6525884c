"""Documents are read and MCP servers asked in real children, whose start is shared: Python's imports take a third of a second before
each document, and more than one before each server.

Each process of the run has one server for each of the two (child_server.py) that forks them. Tests that are about these children start
them as the product does (the fixture `started_children`), and so does every process that a test starts.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from types import SimpleNamespace
from typing import Any, Self

import pytest

from tests.support.processes import ROOT
from tests.support.waits import wait_for
from tools.imports.fetching import sandbox
from tools.imports.fetching.mcp import client

READER, SESSION = "tools.imports.fetching.sandbox", "tools.imports.fetching.mcp.session"


@cache
def _server(module: str) -> socket.socket:
    """The server's socket. It ends with this process, even if that is killed, since nobody else has this end."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.imports.child_server", module, str(there.fileno())],
            cwd=ROOT, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[there.fileno()],
        )  # fmt: skip

    def end() -> None:
        here.close()
        process.wait()

    atexit.register(end)
    return here


class Child:
    """A forked child, with what the product uses of `subprocess.Popen`. It begins once its input is complete."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], stdout: Any, **_: Any) -> None:
        self.command = command
        self.returncode: int | None = None
        _, _, self._module, *arguments = command
        self._wanted = json.dumps({"arguments": arguments, "environment": dict(env)}).encode()
        with ExitStack() as opened:
            self._given, self._errors, self._own = (
                opened.enter_context(tempfile.TemporaryFile()) for _ in range(3)
            )
            self._out = self._own if isinstance(stdout, int) else stdout
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._here, self._there = opened.enter_context(here), opened.enter_context(there)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def communicate(self, given: bytes, timeout: float) -> tuple[bytes, bytes]:
        try:
            wait_for("the parser" if self._module == READER else "an MCP server", timeout)
        except AssertionError:
            self.returncode = -signal.SIGKILL  # there is nothing to kill
            raise
        self._given.write(given)
        self._given.seek(0)
        with self._there:
            ends = [one.fileno() for one in (self._given, self._out, self._errors, self._there)]
            socket.send_fds(_server(self._module), [self._wanted], ends)
        self.pid = int(self._here.recv(16))
        self.wait(timeout)
        for one in (self._own, self._errors):
            one.seek(0)
        return self._own.read(), self._errors.read()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float) -> None:
        self._here.settimeout(timeout)
        try:
            self.returncode = int(self._here.recv(16))
        except TimeoutError:
            raise subprocess.TimeoutExpired(self.command, timeout) from None

    def __exit__(self, *_: object) -> None:
        self._opened.close()


def run(command: Sequence[str], *, input: bytes, timeout: float, **options: Any) -> Any:  # noqa: A002 - its name in subprocess
    with Child(command, **options) as child:
        _, errors = child.communicate(input, timeout)
    return subprocess.CompletedProcess(command, child.returncode or 0, None, errors)


FORKED = SimpleNamespace(**{**vars(subprocess), "run": run, "Popen": Child})


def install() -> None:
    """For the rest of this process."""
    for module in (sandbox, client):
        vars(module)["subprocess"] = FORKED


def fork(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sandbox, client):
        monkeypatch.setattr(module, "subprocess", FORKED)


def start(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the product does."""
    for module in (sandbox, client):
        monkeypatch.setattr(module, "subprocess", subprocess)
