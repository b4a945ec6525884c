"""Documents are read in real children, whose start is shared: most of the time of a small document is Python's imports.

Each process of the run has one server (reader_server.py) that forks them. The tests of the children themselves, in
tests/tools/imports/fetching/, start them as the product does, and so does every process that a test starts.
"""

from __future__ import annotations

import atexit
import json
import socket
import subprocess
import sys
import tempfile
from functools import cache
from typing import IO, Any

from tests.support.processes import ROOT
from tests.support.waits import wait_for
from tools.imports.fetching import sandbox

PIPE, TimeoutExpired = subprocess.PIPE, subprocess.TimeoutExpired


@cache
def _server() -> socket.socket:
    """The server's socket. It ends with this process, even if that is killed, since nobody else has this end."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.imports.reader_server", str(there.fileno())],
            cwd=ROOT, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[there.fileno()],
        )  # fmt: skip

    def end() -> None:
        here.close()
        process.wait()

    atexit.register(end)
    return here


def run(
    command: list[str],
    *,
    input: bytes,  # noqa: A002 - its name in subprocess
    stdout: IO[bytes],
    timeout: float,
    **_: Any,
) -> subprocess.CompletedProcess[bytes]:
    """In the place of `subprocess.run` in the sandbox."""
    wait_for("the parser", timeout)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(input)
        given.seek(0)
        with there:
            ends = [given.fileno(), stdout.fileno(), errors.fileno(), there.fileno()]
            socket.send_fds(_server(), [json.dumps(command[3:]).encode()], ends)
        here.settimeout(timeout)
        try:
            code = int(here.recv(16))
        except TimeoutError:
            raise TimeoutExpired(command, timeout) from None
        errors.seek(0)
        return subprocess.CompletedProcess(command, code, None, errors.read())


def install() -> None:
    """For the rest of this process."""
    sandbox.subprocess = sys.modules[__name__]  # type: ignore[assignment]
