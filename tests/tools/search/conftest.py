"""Vectors are hashes unless a test asks for the real model, and a tool stands where a test places it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from portal.tenancy.models import Tenant
from tests.support.search import ask, place, toward
from tools.models import Tool
from tools.search.query import SearchAnswer


@pytest.fixture(autouse=True)
def hash_embedder(settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.HashEmbedder"


@pytest.fixture
def asked(tenant: Tenant) -> Callable[..., SearchAnswer]:
    """Asks in the current tenant."""
    return partial(ask, tenant.pk)


@pytest.fixture
def ready_tool(make_tool: Callable[..., Tool]) -> Callable[..., Tool]:
    """Makes a tool whose vector has that cosine to the question."""

    def make(tool_id: str, question: str, cosine: float, **fields: Any) -> Tool:
        tool = make_tool(tool_id=tool_id, **fields)
        place(tool, toward(question, cosine, tool_id))
        return tool

    return make
