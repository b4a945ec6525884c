"""Most of these tests are about the children that read documents and ask servers."""

from __future__ import annotations

import pytest

from tests.support.imports import children


@pytest.fixture(autouse=True)
def with_started_children(started_children: None) -> None:
    """Each is started for itself."""


@pytest.fixture
def forked_children(with_started_children: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in all other folders, for tests of what is said between a child and a server."""
    children.fork(monkeypatch)
