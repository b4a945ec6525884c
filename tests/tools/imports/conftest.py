from __future__ import annotations

import subprocess

import pytest

from tests.support.imports.syncs import parse_here
from tools.imports.fetching import sandbox


@pytest.fixture
def parse_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are parsed in the test's own process, for tests that are not about the child and make many of them."""
    monkeypatch.setattr(sandbox, "parse", parse_here)


@pytest.fixture
def started_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are read by children that are started as the product starts them (tests/support/imports/readers.py)."""
    monkeypatch.setattr(sandbox, "subprocess", subprocess)
