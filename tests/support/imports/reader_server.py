"""Forks readers of documents (tools/imports/fetching/sandbox.py) from one process that has the parsers imported.

Each message on the socket whose number is the argument holds the reader's arguments and the ends of its input, output and errors; its
exit code is answered at the fourth end, and the reader is killed where that is closed before. Ends with the socket.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from tools.imports.fetching import sandbox, spec_validator


def serve(requests: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    load_validators()
    gc.freeze()
    while True:
        message, ends, _, _ = socket.recv_fds(requests, 65_536, 4)
        if not message:
            return
        if os.fork() == 0:
            supervise(json.loads(message), ends)
        for end in ends:
            os.close(end)


def load_validators() -> None:
    """As each reader does for its document."""
    for version, validator in spec_validator._validators().items():
        key, value = ("swagger", "2.0") if version == "swagger" else ("openapi", f"{version}.0")
        list(validator({**spec_validator._MINIMAL, key: value}).iter_errors())


def supervise(arguments: Sequence[str], ends: Sequence[int]) -> NoReturn:
    *standard, answer = ends
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        for number, end in enumerate(standard):
            os.dup2(end, number)
        os.closerange(3, max(ends) + 1)
        os._exit(read(*arguments))
    reader = os.pidfd_open(pid)
    if reader not in select.select([reader, answer], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        os.write(answer, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def read(kind: str, name: str, limits: str) -> int:
    """As the module does where it is the program."""
    try:
        code = sandbox._child(kind, name, limits)
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - whatever ends a program
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
