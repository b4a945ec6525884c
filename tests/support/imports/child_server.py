"""Forks children that are one module (`python -m MODULE`) from a process that has it imported. The arguments are the module and a socket.

Each message on the socket is a child's arguments and environment, with the ends of its input, output and errors. Its pid, and later its
exit code, are answered at the fourth end; it is killed where that is closed before. Ends with the socket.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from tools.imports.fetching import spec_validator


def serve(module: str, requests: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    importlib.import_module(module)
    if module.endswith("sandbox"):
        load_validators()
    gc.freeze()
    while True:
        message, ends, _, _ = socket.recv_fds(requests, 65_536, 4)
        if not message:
            return
        if os.fork() == 0:
            supervise(module, json.loads(message), ends)
        for end in ends:
            os.close(end)


def load_validators() -> None:
    """As each reader does for its document."""
    for version, validator in spec_validator._validators().items():
        key, value = ("swagger", "2.0") if version == "swagger" else ("openapi", f"{version}.0")
        list(validator({**spec_validator._MINIMAL, key: value}).iter_errors())


def supervise(module: str, wanted: dict[str, Any], ends: Sequence[int]) -> NoReturn:
    *standard, answer = ends
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number, end in enumerate(standard):
            os.dup2(end, number)
        os.closerange(3, max(ends) + 1)
        os.environ.clear()
        os.environ.update(wanted["environment"])
        os._exit(run(module, wanted["arguments"]))
    child = os.pidfd_open(pid)
    with suppress(BrokenPipeError):
        os.write(answer, str(pid).encode())
    if child not in select.select([child, answer], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        os.write(answer, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def run(module: str, arguments: Sequence[str]) -> int:
    """The module as the program."""
    del sys.modules[module]  # or else it would be warned of
    sys.argv[1:] = arguments
    code = 0
    try:
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - whatever ends a program
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
