"""Searches are logged, and written when a test says so."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from metrics.search_log import search_log


@pytest.fixture(autouse=True)
def hash_embedder(settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.HashEmbedder"


@pytest.fixture(autouse=True)
def logged(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SEARCH_LOG = "full"
    monkeypatch.setattr(search_log, "_thread", threading.main_thread())  # none is started
    search_log._entries.clear()
