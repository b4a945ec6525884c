"""S4: a remembered answer comes sooner, and may not tell one tenant what another one has asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any
from uuid import UUID

import pytest

from embeddings import providers
from portal.tenancy.models import Scope, Sensitivity, Tenant
from portal.tenancy.rights import Rights
from tests.support.clients import make_api
from tests.support.servers.embedding_server import EmbeddingServer, embedding_server
from tools.search.query import SearchQuery
from tools.search.question import remembered
from tools.search.service import search


@pytest.fixture
def server(settings: Any) -> Iterator[EmbeddingServer]:
    """A provider that counts what it is asked: a question that it is not asked was remembered."""
    with embedding_server() as running:
        settings.EMBEDDING_PROVIDER, settings.EMBEDDING_URL = "local-http", running.address
        providers._provider.cache_clear()
        remembered.clear()
        yield running
    providers._provider.cache_clear()
    remembered.clear()


def rights(tenant_id: UUID, sensitivity: str = Sensitivity.RESTRICTED) -> Rights:
    return Rights(tenant_id, "test", frozenset({Scope.SEARCH_READ}), sensitivity)


def test_a_question_that_another_tenant_has_asked_is_embedded_again_in_any_order_S4(
    db: None, make_tenant: Callable[..., Tenant], server: EmbeddingServer
) -> None:
    mine, theirs = make_tenant().pk, make_tenant().pk
    asked = [(mine, "pay"), (theirs, "pay"), (mine, "refund"), (theirs, "refund")]
    for order in list(permutations(asked))[::6]:
        remembered.clear()
        server.asked.clear()
        for first in order:
            search(rights(first[0]), SearchQuery(first[1]))
        assert len(server.asked) == 4, order
        for again in order:
            search(rights(again[0]), SearchQuery(again[1]))
        assert len(server.asked) == 4, f"{order}: a tenant's own question is remembered"


def test_a_question_of_a_caller_with_other_rights_is_embedded_again_S4(
    db: None, make_tenant: Callable[..., Tenant], server: EmbeddingServer
) -> None:
    tenant = make_tenant().pk
    for sensitivity in (Sensitivity.RESTRICTED, Sensitivity.PUBLIC, Sensitivity.RESTRICTED):
        search(rights(tenant, sensitivity), SearchQuery("pay"))
    assert len(server.asked) == 2


def test_no_cache_between_the_portal_and_its_caller_keeps_an_answer_S4(
    db: None, make_tenant: Callable[..., Tenant], server: EmbeddingServer
) -> None:
    answer = make_api(make_tenant()).get("/api/v1/tools/search", {"query": "pay"})
    assert answer["Cache-Control"] == "private, no-cache"
    assert "embed;dur=" in answer["Server-Timing"]
