"""Runs the portal's processes side by side: prefixed logs, restarts, and an orderly end. Not the database's: see keeper.

One loop over the processes' pipes and the clock. `step()` does what is due and waits for at most a moment; `stop()`
ends the processes in the order in which they were given.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from portal.embedded.account import PortalAccount
from portal.embedded.credentials import generated
from portal.embedded.process import Backoff, kill_group, spawn
from portal.processes import Process, environment_of

COLOURS = ("36", "35", "32", "33", "34", "31")  # of the prefixes, on a terminal only
STEP_SECONDS = 0.2
# What each stage of the end may take before it is killed; with the servers' own the whole stays under ten seconds.
STOP_SECONDS = 2.0


@dataclass(slots=True)
class Child:
    """A process that should run. `process` is None while it waits until `due` to be started."""

    spec: Process
    prefix: str
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    due: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)
    rest: bytes = b""


class Supervisor:
    """Keeps `processes` running in the project at `root`, as `account` (None: the caller's), each with `environment`, its
    database role, and what the embedded services wrote for that role."""

    def __init__(
        self,
        root: Path,
        processes: Sequence[Process],
        environment: Mapping[str, str],
        account: PortalAccount | None = None,
    ) -> None:
        width = max(len(process.name) for process in processes)
        self.root = root
        self.environment = environment
        self.account = account
        self.children = [
            Child(process, _prefix(process.name.ljust(width), colour))
            for process, colour in zip(processes, COLOURS, strict=False)
        ]
        self.stopping = False
        self._selector = selectors.DefaultSelector()

    def step(self) -> None:
        """Start what is due, pass on what was written, notice what ended."""
        now = time.monotonic()
        for child in self.children:
            if child.process is None and child.due <= now and not self.stopping:
                self._start(child)
        for key, _ in self._selector.select(STEP_SECONDS):
            self._read(key.data)
        for child in self.children:
            if child.process is not None and child.process.poll() is not None:
                self._ended(child, child.process)

    def stop(self) -> None:
        """End the processes stage by stage: TERM, a bounded wait in which their last words are passed on, KILL."""
        self.stopping = True
        for _, group in itertools.groupby(self.children, key=lambda child: child.spec.stage):
            stage = list(group)
            deadline = time.monotonic() + STOP_SECONDS
            for child in stage:
                if child.process is not None:
                    child.process.terminate()
                    child.process.send_signal(signal.SIGCONT)
            while any(child.process for child in stage):
                if time.monotonic() > deadline:
                    for child in stage:
                        if child.process is not None:
                            kill_group(child.process.pid)
                self.step()

    def kill(self) -> None:
        """End everything at once."""
        self.stopping = True
        for child in self.children:
            if child.process is not None:
                kill_group(child.process.pid)

    def _start(self, child: Child) -> None:
        interpreter = [sys.executable if word == "python" else word for word in child.spec.command[:1]]
        child.process = spawn(
            [*interpreter, *child.spec.command[1:]],
            cwd=self.root,
            # Read at each start, since the services may have been started anew; the account cannot read the file itself.
            environment=environment_of(child.spec, {**generated(self.root / ".portal"), **self.environment}),
            output=subprocess.PIPE,
            death_signal=signal.SIGTERM,
            account=self.account.account if self.account else None,
            real_account=self.account.commands if self.account else None,
        )
        child.started = time.monotonic()
        if pipe := child.process.stdout:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, child)

    def _read(self, child: Child) -> bool:
        """Print the whole lines that the child has written; False when there is nothing (more) to read."""
        pipe = child.process.stdout if child.process else None
        written = pipe.read(65_536) if pipe and not pipe.closed else None
        if pipe and written == b"":
            self._close(pipe)
        if not written:
            return False
        *lines, child.rest = (child.rest + written).split(b"\n")
        for line in lines:
            say(line.decode(errors="replace"), child.prefix)
        return True

    def _close(self, pipe: IO[bytes]) -> None:
        if not pipe.closed:
            self._selector.unregister(pipe)
            pipe.close()

    def _ended(self, child: Child, process: subprocess.Popen[bytes]) -> None:
        while self._read(child):
            pass
        if child.rest:
            say(child.rest.decode(errors="replace"), child.prefix)
            child.rest = b""
        if process.stdout:
            self._close(process.stdout)
        kill_group(process.pid)  # what a killed parent left behind: a pool's children
        child.process = None
        if self.stopping:
            return
        code = process.returncode
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        seconds = child.backoff.next()
        child.due = time.monotonic() + seconds
        when = f"in {seconds} s" if seconds else "now"
        say(
            f"{child.spec.name} ended {how} after {time.monotonic() - child.started:.0f} s; it is started again {when}."
        )


def say(text: str, prefix: str = "") -> None:
    """One line for the person at the terminal; a closed terminal is no reason to end."""
    with contextlib.suppress(BrokenPipeError):
        print(f"{prefix}{text}", flush=True)


def _prefix(name: str, colour: str) -> str:
    return f"\033[{colour}m{name} |\033[0m " if sys.stdout.isatty() else f"{name} | "
