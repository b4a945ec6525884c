"""PostgreSQL and Valkey as one set: started, addressed and stopped together.

`start()` makes a set that lives as long as the calling thread, in any folder: what tests and benches use. The set of
a project, which several commands share, is the keeper's.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from portal.embedded import credentials
from portal.embedded.account import SYSTEM_FOLDER, programs
from portal.embedded.errors import ServiceError
from portal.embedded.layout import THROWAWAY, Layout, make_state, try_lock
from portal.embedded.postgres import Postgres
from portal.embedded.process import is_running_in, read_pid
from portal.embedded.valkey import Valkey

LOCK_NAME = "services.lock"


@dataclass(slots=True)
class Services:
    """A running set. `urls` is what the portal's settings read, by the names of its environment variables."""

    postgres: Postgres
    valkey: Valkey
    urls: dict[str, str]
    _lock: IO[str]
    _throwaway: bool

    @property
    def pids(self) -> dict[str, int]:
        """The servers' pids by name."""
        return {"postgres": self.postgres.pid, "valkey": self.valkey.pid}

    def stop(self) -> None:
        """Stop Valkey, then PostgreSQL; a throwaway set's data is deleted."""
        self.valkey.stop()
        self.postgres.stop()
        if self._throwaway:
            self.postgres.layout.remove()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(
    directory: str | Path,
    *,
    postgres_settings: Mapping[str, str] | None = None,
    valkey_settings: Mapping[str, str] | None = None,
    keep: bool = False,
) -> Services:
    """Start a set of its own in `directory` (made when missing) and return once both servers answer.

    The servers end with the thread that called this, even when it is killed. Without `keep`, `stop()` deletes their
    data. Settings are the servers' own names and texts (`{"fsync": "off"}`) and win over ours. ServiceError says in
    one sentence what is wrong.
    """
    state = Path(directory).resolve()
    make_state(state)
    held = try_lock(state / LOCK_NAME)
    if held is None:
        raise ServiceError(f"The services in {state} already run.", exit_code=2)
    try:
        binaries = programs()
        if binaries.account:
            _sweep()
        layout = Layout.of(state, binaries.account)
        layout.make(throwaway=not keep)
        secret = credentials.load(layout)
        valkey = Valkey(layout, binaries, secret.valkey, secret.port, valkey_settings or {})
        postgres = Postgres(layout, binaries, secret.admin, postgres_settings or {})
        valkey.start()
        try:
            postgres.start()
            urls = {
                "DATABASE_URL": postgres.url(credentials.WEB_LOGIN, secret.web),
                "DATABASE_WORKER_URL": postgres.url(credentials.WORKER_LOGIN, secret.worker),
                "DATABASE_ADMIN_URL": postgres.url(),
                "REDIS_URL": valkey.url,
                "SECRET_KEY": secret.secret_key,
            }
            credentials.save(layout, urls)
        except BaseException:
            valkey.stop()
            postgres.stop()
            raise
    except BaseException:
        held.close()
        raise
    return Services(postgres, valkey, urls, held, _throwaway=not keep)


def _sweep() -> None:
    """Delete what killed test runs left in root's system folder; a home in use has its lock held or its server up."""
    for mark in SYSTEM_FOLDER.glob(f"*/{THROWAWAY}"):
        home = mark.parent
        try:
            state = Path(mark.read_text(encoding="utf-8"))
        except FileNotFoundError:  # swept by another start, or ended by its own
            continue
        held = try_lock(state / LOCK_NAME) if state.is_dir() else None
        if (held is None and state.is_dir()) or _has_server(home):
            continue
        shutil.rmtree(home, ignore_errors=True)
        if held is not None:
            held.close()


def _has_server(home: Path) -> bool:
    pid = read_pid(home / "postgres" / "postmaster.pid")
    return pid is not None and is_running_in(pid, home / "postgres", "postgres")
