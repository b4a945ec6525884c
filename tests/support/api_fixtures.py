"""The API is asked as agents ask it: from outside of any tenant's context, so that a view must open its own.

A conftest imports these fixtures; `hash_embedder` then holds for all of its tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.clients import make_api
from tools.catalogue.tools import create_tool
from tools.models import Tool


@pytest.fixture(autouse=True)
def hash_embedder(settings: Any) -> None:
    """Search needs a vector; what it means is of no concern here."""
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.HashEmbedder"


@pytest.fixture
def owner(db: None, make_tenant: Callable[..., Tenant]) -> Tenant:
    """A tenant that is not the current one."""
    return make_tenant()


@pytest.fixture
def agent(owner: Tenant) -> APIClient:
    """A client with a key of every scope."""
    return make_api(owner)


@pytest.fixture
def tool_of(owner: Tenant) -> Callable[..., Tool]:
    def make(tool_id: str = "send_mail", **fields: Any) -> Tool:
        given = {"name": tool_id, "description": "Sends an electronic letter to people.", **fields}
        with tenant_context(owner.pk):
            return create_tool(actor="test", tool_id=tool_id, **given)

    return make
