"""Starting and ending processes by pid, and telling from /proc whether a pid is still ours.

What a process is for, and the ladder of signals that fits it, is said by the callers (postgres, valkey, supervisor).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

SPAWN = Path(__file__).with_name("spawn.py")
POLL_SECONDS = 0.02
LOG_LIMIT = 5_000_000  # bytes


def spawn(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    output: int | IO[bytes],
    death_signal: signal.Signals,
    account: tuple[int, int] | None = None,
    real_account: tuple[int, int] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own; it gets `death_signal` when the calling *thread* ends.

    `account` is the (uid, gid) to become, None for the caller's own. stdout and stderr go to `output`. With a
    `real_account`, `command` is a `python -m …`, and its process may start others as that account (spawn.py).
    """
    accounts = [str(number) for one in (account, real_account or account) for number in one or ("-", "-")]
    flags = [] if real_account else ["-I", "-S"]
    wrapper = [sys.executable, *flags, str(SPAWN), str(int(death_signal)), str(os.getpid()), *accounts]
    return subprocess.Popen(
        [*wrapper, *map(str, command)],
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


class Backoff:
    """How long to wait before a process that ended by itself is started again: longer each time it does so soon."""

    WAITS = (0, 1, 2, 5, 10, 30)  # seconds
    STEADY_SECONDS = 60.0  # one that ran this long since its last restart begins anew

    def __init__(self) -> None:
        self._ends = 0
        self._last = time.monotonic()

    def next(self) -> int:
        now = time.monotonic()
        if now - self._last > self.STEADY_SECONDS:
            self._ends = 0
        self._last = now
        wait = self.WAITS[min(self._ends, len(self.WAITS) - 1)]
        self._ends += 1
        return wait


def open_log(path: Path) -> IO[bytes]:
    """The log opened for appending, readable by its owner alone; one that has grown big is put aside first."""
    if path.exists() and path.stat().st_size > LOG_LIMIT:
        path.replace(path.with_suffix(".old.log"))
    return os.fdopen(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "ab")


def end(process: subprocess.Popen[bytes], *, ladder: Sequence[tuple[signal.Signals, float]]) -> None:
    """Send each signal in turn and wait its seconds for the end; the whole session gets SIGKILL in the end.

    Killing the session's group last takes along what a dead program left behind (a pool's children).
    """
    for number, seconds in ladder:
        if process.poll() is not None:
            break
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # A frozen process takes no signal but SIGKILL.
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    kill_group(process.pid)
    process.wait()


def kill_group(pid: int) -> None:
    """SIGKILL to what is left of the process group that `pid` led."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def read_pid(path: Path) -> int | None:
    """The pid in the first line of a server's file, or None where there is none."""
    try:
        return int(path.read_text(encoding="utf-8").splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None


def bind_error(host: str, port: int) -> OSError | None:
    """Why no server can listen there, or None where one can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def is_running_in(pid: int, folder: Path, program: str) -> bool:
    """Is `pid` alive, a `program` (its file name), and working in `folder`? A reused pid is none of these."""
    try:
        working = Path(f"/proc/{pid}/cwd").readlink()
        executable = Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return False
    # An upgraded package leaves the running program's file marked as deleted.
    return working == folder and executable.name.removesuffix(" (deleted)") == program


def end_pid(pid: int, folder: Path, program: str, *, ladder: Sequence[tuple[signal.Signals, float]]) -> None:
    """End a leftover that is not our child, checking before every signal that the pid still is what we think."""
    for number, seconds in ladder:
        if not is_running_in(pid, folder, program):
            return
        os.kill(pid, number)
        os.kill(pid, signal.SIGCONT)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and is_running_in(pid, folder, program):
            time.sleep(POLL_SECONDS)
