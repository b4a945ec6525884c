"""A pipeline over real commits, with a provider of the test's choice. The tests of concurrency use it too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from embeddings import providers, slots
from portal.tenancy.models import Tenant
from tests.embeddings.pipeline import Pipeline


@pytest.fixture
def use(settings: Any) -> Iterator[Callable[..., Any]]:
    """Chooses a fresh provider of tests/providers.py by the name of its class, and returns it."""

    def choose(name: str, **options: Any) -> Any:
        for option, value in options.items():
            setattr(settings, option, value)
        settings.EMBEDDING_PROVIDER = name if name == "disabled" else f"tests.providers.{name}"
        providers._provider.cache_clear()
        slots.clear_cache()
        return providers.get_provider()

    yield choose
    providers._provider.cache_clear()
    slots.clear_cache()


@pytest.fixture
def embedder(use: Callable[..., Any]) -> Any:
    """The provider of tests that do not care which: quick, and every text has a vector of its own."""
    return use("HashEmbedder", EMBEDDING_MODEL="model-1")


@pytest.fixture
def pipeline(committed: Tenant, admin_database: psycopg.Connection[Any], embedder: Any) -> Pipeline:
    return Pipeline(committed.pk, admin_database)
