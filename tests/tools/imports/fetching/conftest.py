"""These tests are about the children that read documents and ask servers."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def with_started_readers(started_readers: None) -> None:
    """Each is started for itself."""
