from __future__ import annotations

import pytest

from tests.support.imports import children
from tests.support.imports.syncs import parse_here
from tools.imports.fetching import sandbox


@pytest.fixture
def parse_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are parsed in the test's own process, for tests that are not about the child and make many of them."""
    monkeypatch.setattr(sandbox, "parse", parse_here)


@pytest.fixture
def started_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children that read documents or ask MCP servers are started as the product starts them (tests/support/imports/children.py)."""
    children.start(monkeypatch)
