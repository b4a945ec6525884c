"""One PostgreSQL cluster of our own: made, started, waited for, recovered, stopped.

It listens on a Unix socket in a closed folder and asks every login for its password (scram). Roles, schemas and
everything inside the database `portal` are the migrations' business.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import psycopg

from portal.embedded.account import Programs
from portal.embedded.errors import ServiceError
from portal.embedded.layout import SECRETS, Layout
from portal.embedded.process import end, end_pid, open_log, read_pid, spawn

SUPERUSER = "portal_admin"
DATABASE = "portal"
READY_SECONDS = 60  # crash recovery of a big cluster takes its time
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "maintenance_work_mem": "256MB",
    "max_connections": "100",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u ",
    "log_min_duration_statement": "2000",
    # The portal's own answers to a clash or a timeout are errors for the server too; only its failures are logged.
    "log_min_error_statement": "panic",
}
# Fast shutdown, then immediate (the next start recovers), each with its seconds.
FAST = [(signal.SIGINT, 3.0), (signal.SIGQUIT, 3.0)]
IMMEDIATE = [(signal.SIGQUIT, 4.0)]


@dataclass(slots=True)
class Postgres:
    """The cluster in `layout`; `settings` are added to ours, and win over them."""

    layout: Layout
    programs: Programs
    password: str
    settings: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The postmaster's pid."""
        if self.process is None:
            raise ServiceError("PostgreSQL does not run.")
        return self.process.pid

    @property
    def log(self) -> Path:
        return self.layout.logs / "postgres.log"

    def url(self, user: str = SUPERUSER, password: str | None = None, database: str = DATABASE) -> str:
        """The URL of a login; the socket's folder is its `host`."""
        folder = quote(str(self.layout.sockets), safe="")
        return f"postgresql://{user}:{quote(password or self.password, safe='')}@/{database}?host={folder}"

    def start(self) -> None:
        """Make the cluster if there is none, start it and return once the database takes connections."""
        data = self.layout.postgres
        self._end_leftover()
        if not (data / "PG_VERSION").exists():
            self._initdb()
        server = self.programs.postgres_bin / "postgres"
        command: list[str | Path] = [server, "-D", data, "-k", self.layout.sockets]
        for name, value in {**SETTINGS, **self._socket(), **self.settings}.items():
            command += ["-c", f"{name}={value}"]
        with open_log(self.log) as log:
            self.process = spawn(
                command,
                cwd=data,
                environment=_environment(),
                output=log,
                death_signal=signal.SIGINT,
                account=self.layout.account,
            )
        try:
            self._wait_until_ready(self.process)
        except BaseException:
            self.stop()
            raise

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it and its open sessions; `immediate` is a crash, and the next start recovers from it."""
        if self.process is not None:
            end(self.process, ladder=FAST if mode == "fast" else IMMEDIATE)
            self.process = None

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        self.stop(mode)
        self.start()

    def _socket(self) -> dict[str, str]:
        # Root's set: the folder lets in this account and the portal's, and a socket's mode knows no second account.
        return {"unix_socket_permissions": "0777"} if self.layout.account else {}

    def _initdb(self) -> None:
        """Make the cluster beside its final place, so that an interrupted initdb leaves nothing half made there."""
        scratch = self.layout.new_postgres
        shutil.rmtree(scratch, ignore_errors=True)
        self.layout.make_private(scratch)
        password_file = self.layout.home / "postgres.password"
        password_file.unlink(missing_ok=True)
        password_file.touch(mode=0o600)
        password_file.write_text(self.password, encoding="utf-8")
        account = self.layout.account
        if account:
            os.chown(password_file, *account)
        command: list[str | Path] = [
            self.programs.postgres_bin / "initdb",
            f"--pgdata={scratch}",
            f"--username={SUPERUSER}",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]
        if self.settings.get("fsync") == "off":
            command.append("--no-sync")
        try:
            made = subprocess.run(
                command,
                cwd=scratch,
                env=_environment(),
                capture_output=True,
                text=True,
                check=False,
                user=account[0] if account else None,
                group=account[1] if account else None,
                extra_groups=[] if account else None,
            )
        finally:
            password_file.unlink()
        if made.returncode != 0:
            reason = (made.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise ServiceError(f"PostgreSQL's data could not be made in {self.layout.postgres}: {reason}")
        scratch.rename(self.layout.postgres)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                with psycopg.connect(
                    self.url(database="postgres"), autocommit=True, connect_timeout=5
                ) as connection:
                    known = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE])
                    if known.rowcount == 0:
                        connection.execute(f"CREATE DATABASE {DATABASE}")
                    return
            except psycopg.OperationalError as error:
                # libpq gives no code for a refused connection, only the server's text.
                if "password authentication failed" in str(error):
                    raise ServiceError(
                        f"The database in {self.layout.postgres} was made with another password than the one in "
                        f"{self.layout.state / SECRETS}: bring that file back, or run `make reset`."
                    ) from None
            if process.poll() is not None:
                raise ServiceError(f"PostgreSQL did not start: {self._last_words()}")
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"PostgreSQL was not ready after {READY_SECONDS} s; its log is {self.log}."
                )
            time.sleep(0.02)

    def _last_words(self) -> str:
        """Why the server gave up, in its own words."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        for line in reversed(lines):
            for level in ("FATAL:", "PANIC:", "ERROR:"):
                if level in line:
                    return f"{line.split(level, 1)[1].strip()} (log: {self.log})."
        return f"see {self.log}."

    def _end_leftover(self) -> None:
        """End a server that a killed owner left running on our data, and forget a pid that is another process now.

        The caller holds the lock of the services, so no living owner can be meant.
        """
        pid_file = self.layout.postgres / "postmaster.pid"
        if pid := read_pid(pid_file):
            end_pid(pid, self.layout.postgres, "postgres", ladder=[*FAST, (signal.SIGKILL, 2.0)])
            pid_file.unlink(missing_ok=True)


def _environment() -> dict[str, str]:
    """Nothing of the caller's: a stray PGDATA or PGOPTIONS must not change what is started."""
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
