"""Folders for embedded services of a test's own, apart from the suite's."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from portal.embedded import Services
from portal.embedded.account import programs
from portal.embedded.layout import Layout

QUICK = {"fsync": "off"}


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder with a short path; what root's services left in the system folder goes with it."""
    path = Path(tempfile.mkdtemp(prefix="embedded-"))
    try:
        yield path
    finally:
        for state in (path, path / ".portal"):
            Layout.of(state, programs().account).remove()
        shutil.rmtree(path, ignore_errors=True)


def copy_services(source: Path, target: Path) -> None:
    account = programs().account
    old, new = Layout.of(source, account), Layout.of(target, account)
    shutil.copy2(old.state / "services.json", new.state)
    new.make()
    for name in ("postgres", "valkey"):
        subprocess.run(["cp", "-a", "-T", old.home / name, new.home / name], check=True)


def query(services: Services, statement: str) -> list[tuple[object, ...]]:
    """Rows of a statement that the superuser runs and commits."""
    with psycopg.connect(services.urls["DATABASE_ADMIN_URL"], autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []
