"""The keeper: a background process that holds a project's services for everyone who uses them.

Every user (`make up`, a management command) holds a shared lock on `.portal/users.lock`; the keeper waits for the
same lock alone. It gets it when the last user has gone, killed ones included, and then stops the servers and ends.
A user that comes meanwhile waits for that end and starts a new keeper. What the users do is their own business.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from portal.embedded.errors import ServiceError
from portal.embedded.layout import lock, make_state, try_lock
from portal.embedded.postgres import Postgres
from portal.embedded.process import POLL_SECONDS, Backoff, open_log
from portal.embedded.services import LOCK_NAME, Services, start
from portal.embedded.valkey import Valkey

USERS_LOCK = "users.lock"
START_LOCK = "start.lock"
START_SECONDS = 120
STOP_SECONDS = 15
CHECK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Project:
    """A user's hold on the services of the project whose state folder this is."""

    state: Path

    def revive(self) -> bool:
        """Start a keeper if none lives (the last one was killed); True if that was needed."""
        with lock(self.state / START_LOCK):
            if _is_held(self.state / LOCK_NAME):
                return False
            _start_keeper(self.state)
            return True

    def wait_for_end(self) -> None:
        """Return when the keeper has ended, or at once when others still use the services."""
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            with lock(self.state / START_LOCK):
                lives = _is_held(self.state / LOCK_NAME)
            # Only the keeper locks the users out, and only to stop.
            if not lives or (
                _is_held(self.state / USERS_LOCK) and not _is_held(self.state / USERS_LOCK, shared=True)
            ):
                return
            time.sleep(POLL_SECONDS)


@contextmanager
def running(root: Path) -> Iterator[Project]:
    """Services of the project at `root` run inside this block; `.portal/services.json` says where.

    The first user starts them, the last one stops them and returns when they have ended. ServiceError says in one
    sentence why they cannot run.
    """
    project = Project(root.resolve() / ".portal")
    make_state(project.state)
    user = lock(project.state / USERS_LOCK, shared=True)
    try:
        project.revive()
        yield project
    finally:
        user.close()
        project.wait_for_end()


def _is_held(path: Path, *, shared: bool = False) -> bool:
    """Would a lock of that kind have to wait? Probing takes it for a moment, so `services.lock` is probed under the
    start lock alone: a keeper that starts just then would find it taken.
    """
    held = try_lock(path, shared=shared)
    if held is None:
        return True
    held.close()
    return False


def _start_keeper(state: Path) -> None:
    """Start a keeper and return once it says that the services answer."""
    ours, theirs = os.pipe()
    log_file = state / "log" / "keeper.log"
    log_file.parent.mkdir(mode=0o700, exist_ok=True)
    with open_log(log_file) as log:
        subprocess.run(
            [sys.executable, "-m", "portal.embedded", "keep", str(state), str(theirs)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[theirs],
            check=False,
        )
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        ready, _, _ = select.select([answer], [], [], START_SECONDS)
        text = answer.read() if ready else b""
    if not text:
        raise ServiceError(f"The embedded services did not start; see {log_file}.")
    exit_code, sentence = json.loads(text)
    if exit_code:
        raise ServiceError(sentence, exit_code=exit_code)


def keep(state: Path, answer: int) -> None:
    """The keeper's life: start the servers, tell the one who asked, restart what crashes, stop after the last user."""
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: over.set())
    try:
        services = start(state, keep=True)
    except ServiceError as error:
        outcome, sentence = error.exit_code, str(error)
    else:
        outcome, sentence = 0, ""
    os.write(answer, json.dumps([outcome, sentence]).encode())
    os.close(answer)
    if outcome:
        raise SystemExit(outcome)
    with services:
        users: list[IO[str]] = []
        threading.Thread(target=_wait_to_be_alone, args=(state, users, over), daemon=True).start()
        _watch(services, over)


def _wait_to_be_alone(state: Path, users: list[IO[str]], over: threading.Event) -> None:
    users.append(lock(state / USERS_LOCK))
    over.set()


def _watch(services: Services, over: threading.Event) -> None:
    """Start a server again that ended by itself, later and later while it keeps ending."""
    servers: dict[str, tuple[Postgres | Valkey, Backoff]] = {
        "PostgreSQL": (services.postgres, Backoff()),
        "Valkey": (services.valkey, Backoff()),
    }
    while not over.wait(CHECK_SECONDS):
        for name, (server, backoff) in servers.items():
            if server.process is not None and server.process.poll() is None:
                continue
            seconds = backoff.next()
            print(f"{name} ended by itself; it is started again in {seconds} s.", flush=True)
            if over.wait(seconds):
                return
            try:
                server.restart()
            except ServiceError as error:
                print(error, flush=True)


def detach_and_keep(state: Path, answer: int) -> None:
    """The keeper's entry: the starter waits for this process, and the servers belong to a child that nobody owns."""
    if os.fork():
        os._exit(0)
    os.setsid()
    keep(state, answer)
