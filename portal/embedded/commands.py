"""`make up`, `make down` and `make reset`: what a person does with a whole portal in one folder."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO
from urllib.parse import urlencode

from portal.embedded.account import PortalAccount, portal_account, portal_home, programs
from portal.embedded.credentials import write_private
from portal.embedded.errors import ServiceError
from portal.embedded.keeper import USERS_LOCK, Project, running
from portal.embedded.layout import Layout, make_state, try_lock
from portal.embedded.process import POLL_SECONDS, bind_error
from portal.embedded.spawn import die_with_parent
from portal.embedded.supervisor import Supervisor, say
from portal.processes import PREPARE, PROCESSES

UP_LOCK = "up.lock"
DATABASES = ("DATABASE_URL", "DATABASE_WORKER_URL", "DATABASE_ADMIN_URL")
REDIS = ("REDIS_URL", "BROKER_URL", "CACHE_URL")  # the first stands for the other two (portal/env.py)
ANSWER_SECONDS = 60
DOWN_SECONDS = 20
RESET_SECONDS = 30.0
REVIVE_SECONDS = 2
FIRST_QUESTION = "what time is it in Tokyo"  # the demo catalogue answers it


class Ended(Exception):
    """A signal asked `make up` to stop."""


class Signals:
    """Notes that a signal asked for the end, and raises Ended at once unless `patient`.

    The watching loop is patient: an exception in the middle of a start would lose sight of a process.
    """

    def __init__(self) -> None:
        self.asked = False
        self.patient = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Under nohup the hang-up is ignored, and stays so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if not self.patient:
            raise Ended


def up(root: Path) -> None:
    """Bring everything up, say where it answers, and stay until a signal ends it. ServiceError: one sentence."""
    host, port = os.environ.get("HOST") or "127.0.0.1", _port()
    state = root / ".portal"
    make_state(state)
    held = try_lock(state / UP_LOCK)
    if held is None:
        pid = (state / UP_LOCK).read_text(encoding="utf-8").strip()
        raise ServiceError(
            f"Tool Portal already runs in this folder (process {pid}); `make down` stops it.", exit_code=2
        )
    with held:
        held.truncate(0)
        held.write(str(os.getpid()))
        held.flush()
        if error := bind_error(host, port):
            raise ServiceError(
                f"Port {port} of {host} cannot be used ({error.strerror}); choose another: make up PORT={port + 1}"
            )
        account = portal_account(root)
        if account and port < _lowest_port():
            raise ServiceError(
                f"Port {port} can be used by root alone, and the web runs as another account: put a proxy there, and choose "
                "another port, such as: make up PORT=8000",
                exit_code=2,
            )
        if os.environ.get("MAKELEVEL"):
            # A killed `make` must not leave a portal behind without its supervisor.
            die_with_parent(signal.SIGTERM)
        signals = Signals()
        with contextlib.suppress(Ended), _services(root) as project, _socket_folder(account) as folder:
            _run(root, project, signals, host, port, folder, account)
        say("Stopped.")


def down(root: Path) -> None:
    """End the `make up` of this folder and return when it has ended."""
    path = root / ".portal" / UP_LOCK
    asked, deadline = 0, time.monotonic() + DOWN_SECONDS
    while path.exists():
        free = try_lock(path)
        if free is not None:
            free.close()
            break
        pid = int(path.read_text(encoding="utf-8") or 0)  # empty for a moment while it starts
        if pid and pid != asked:
            os.kill(pid, signal.SIGTERM)
            asked = pid
        if time.monotonic() > deadline:
            raise ServiceError(
                f"Process {pid} did not end within {DOWN_SECONDS} s; end it with: kill -9 {pid}"
            )
        time.sleep(POLL_SECONDS)
    say("Stopped." if asked else "Tool Portal does not run in this folder.")


def reset(root: Path, *, confirmed: bool) -> None:
    """Delete the database, the broker's data, all secrets and logs of this folder, after a confirmation."""
    state = root / ".portal"
    if not state.exists():
        say("There is nothing to delete.")
        return
    make_state(state)
    with contextlib.ExitStack() as stack:
        for name in (UP_LOCK, USERS_LOCK):
            held = _free(state / name)
            if held is None:
                raise ServiceError(
                    "Tool Portal runs in this folder; stop it first with: make down", exit_code=2
                )
            stack.enter_context(held)
            held.truncate(0)  # A pid of an earlier `make up` must not be taken for the holder's.
        if not confirmed:
            if not sys.stdin.isatty():
                raise ServiceError(
                    "There is no terminal to ask at; confirm with: make reset YES=1", exit_code=2
                )
            if input(f"Delete the database and all data of {root}? Type yes: ").strip().lower() != "yes":
                say("Nothing was deleted.")
                return
        Layout.of(state, programs().account).remove()
        shutil.rmtree(portal_home(root), ignore_errors=True)
        for path in state.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.suffix != ".lock":
                path.unlink()
    say("Deleted. `make up` starts anew.")


def _free(path: Path) -> IO[str] | None:
    """The lock, for which it waits a while: servers that were told to stop may have much to write down."""
    deadline = time.monotonic() + RESET_SECONDS
    while (held := try_lock(path)) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return held


@contextlib.contextmanager
def _socket_folder(account: PortalAccount | None) -> Iterator[Path]:
    """Where the web's socket stands, which the proxy asks. Nobody else may enter, and the path is short, as a socket's has to be."""
    if account:
        yield account.home
        return
    with tempfile.TemporaryDirectory(prefix="tool-portal-") as folder:
        yield Path(folder)


def _run(
    root: Path,
    project: Project | None,
    signals: Signals,
    host: str,
    port: int,
    folder: Path,
    account: PortalAccount | None,
) -> None:
    """The life of `make up` once the servers run."""
    environment = {
        **os.environ,
        "HOST": host,
        "PORT": str(port),
        "WEB_SOCKET": str(folder / "web.sock"),
        "PYTHONUNBUFFERED": "1",
        # Where root runs the workers itself, a line has said so; Celery would say it in ten lines at each start.
        "PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS") or "ignore:You're running the worker",
    }
    started = time.monotonic()
    first_run = root / ".portal" / "first-run.json"
    known = _read(first_run)
    command = [sys.executable, *PREPARE.command[1:]]
    made = subprocess.run(command, cwd=root, env={**environment, "PORTAL_DB_ROLE": "admin"}, check=False)
    if made.returncode:
        raise SystemExit(made.returncode)  # It has said why.
    if account:
        environment |= {"HOME": str(account.home), "BEAT_FILE": str(account.home / "beat-schedule")}
    supervisor = Supervisor(root, PROCESSES, environment, account)
    log = _tail(root / ".portal" / "log" / "keeper.log")
    announced, revived = False, time.monotonic()
    signals.patient = True
    try:
        while not signals.asked:
            supervisor.step()
            if not announced and (_answers(host, port) or time.monotonic() - started > ANSWER_SECONDS):
                announced = True
                _announce(first_run, host, port, known)
            if project and time.monotonic() - revived > REVIVE_SECONDS:
                revived = time.monotonic()
                for line in next(log):
                    say(line, "services | ")
                if project.revive():
                    say("The keeper of the embedded services was gone; it was started again.")
        say("Stopping.")
        signals.patient = False  # A second Ctrl-C waits for nothing.
        supervisor.stop()
    finally:
        supervisor.kill()


@contextlib.contextmanager
def _services(root: Path) -> Iterator[Project | None]:
    """The embedded services, or nothing of ours where the environment names real servers."""
    common, *apart = REDIS
    redis = apart if any(map(os.environ.get, apart)) and not os.environ.get(common) else [common]
    named = [name for name in (*DATABASES, *redis) if os.environ.get(name)]
    if named:
        if missing := [name for name in (*DATABASES, *redis) if name not in named]:
            raise ServiceError(f"{named[0]} is set, so set {', '.join(missing)} as well.", exit_code=2)
        yield None
        return
    with running(root) as project:
        yield project


def _port() -> int:
    text = os.environ.get("PORT") or "8000"
    if not text.isdigit() or not 0 < int(text) < 65_536:
        raise ServiceError(f"PORT must be a number from 1 to 65535, not {text!r}.", exit_code=2)
    return int(text)


def _lowest_port() -> int:
    """The first port that an account other than root may listen on."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 1024


def _answers(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=1)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _read(path: Path) -> dict[str, str]:
    """What first-run.json holds; nothing where there is none, or a damaged one."""
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return run if isinstance(run, dict) else {}


def _announce(path: Path, host: str, port: int, known: dict[str, str]) -> None:
    """Say where the portal answers and how to use it; first-run.json gets the URL of this run.

    Password and key are printed once, when they are not those that were `known` before this start: a terminal's lines are kept
    in logs and in screenshots.
    """
    url = f"http://{host}:{port}"
    run = _read(path)
    if not run:
        say(f"\n  Tool Portal runs at {url}\n")
        return
    if run.get("url") != url:
        run["url"] = url
        write_private(path, json.dumps(run, indent=1) + "\n")
    file = f"{path.parent.name}/{path.name}"
    if run["api_key"] == known.get("api_key"):
        say(
            f"\n  Tool Portal runs at {url}\n"
            f"  Sign in as {run['username']}. The first password and the API key stand in {file}. Ctrl-C stops everything.\n"
        )
        return
    search = (
        f"{url}/api/v1/tools/search?{urlencode({'query': run.get('question', FIRST_QUESTION), 'top_k': 3})}"
    )
    header = f"Authorization: Bearer {run['api_key']}"
    say(
        f"\n  Tool Portal runs at {url}\n"
        f"  Sign in as {run['username']} with the password {run['password']}\n"
        f"  API key: {run['api_key']}\n"
        f"  Find a tool: curl -s -H {shlex.quote(header)} {shlex.quote(search)}\n"
        f"  These secrets are not printed again; they stand in {file}. Ctrl-C stops everything.\n"
    )


def _tail(path: Path) -> Iterator[list[str]]:
    """Each time: the lines written since the last time."""
    with path.open(encoding="utf-8", errors="replace") if path.exists() else contextlib.nullcontext() as file:
        if file:
            file.seek(0, os.SEEK_END)
        while True:
            yield file.read().splitlines() if file else []
