"""Folders for embedded services of a test's own. They are servers apart from the suite's: these tests stop and kill."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from portal.embedded import Services, start
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


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder."""
    with short_folder() as path:
        yield path


@pytest.fixture(scope="session")
def made() -> Iterator[Path]:
    """A folder whose services were made once, to be copied."""
    with short_folder() as path:
        start(path, postgres_settings=QUICK, keep=True).stop()
        yield path


@pytest.fixture
def used(folder: Path, made: Path) -> Path:
    """A folder whose services ran before: a copy of one, because making a cluster takes seconds."""
    copy_services(made, folder)
    return folder


@pytest.fixture
def project(folder: Path, made: Path) -> Path:
    """A project's folder whose services, in `.portal/`, ran before."""
    state = folder / ".portal"
    state.mkdir(mode=0o700)
    copy_services(made, state)
    return folder


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
