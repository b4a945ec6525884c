"""Folders for embedded services of a test's own. They are servers apart from the suite's: these tests stop and kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.embedded import start
from tests.support.embedded import QUICK, copy_services, short_folder


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
