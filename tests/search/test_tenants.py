"""The candidate function passes row-level security by, so it must keep tenants apart itself.

Proven: without a tenant it is an error; with one, no other tenant's tool, word or vector is in an answer or moves it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.search import ask, candidates, found, place, toward
from tools.catalogue.tools import create_tool
from tools.models import Tool

QUESTION = "deliver a letter"


@pytest.mark.parametrize("vector", [None, toward(QUESTION, 1, 0)], ids=["words", "vectors"])
def test_the_candidates_without_a_tenant_are_an_error_SRC_1(vector: Any, db: None) -> None:
    for told in (None, "", "nobody"):
        if told is not None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('portal.tenant', %s, true)", [told])
        with (
            pytest.raises(DatabaseError, match=r"portal\.tenant|invalid input syntax for type uuid"),
            transaction.atomic(),
        ):
            candidates(QUESTION, vector)


def test_the_postings_without_a_tenant_are_an_error_SRC_1(db: None) -> None:
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM tools_posting")


def test_no_tool_of_another_tenant_is_in_an_answer_or_moves_it_SRC_1(
    db: None, make_tenant: Callable[..., Tenant], settings: Any
) -> None:
    mine, theirs = make_tenant(), make_tenant()

    def make(tenant: Tenant, tool_id: str, cosine: float) -> Tool:
        with tenant_context(tenant.pk):
            tool = create_tool(actor="test", tool_id=tool_id, name="letter", description="Delivers letters.")
            place(tool, toward(QUESTION, cosine, tool_id))
        return tool

    make(mine, "mine", 0.3)
    ways = [(limit, semantic) for limit in (10_000, 0) for semantic in (True, False)]

    def answers() -> list[Any]:
        given = []
        for settings.SEARCH_EXACT_LIMIT, settings.SEARCH_SEMANTIC in ways:
            for filters in ({}, {"names": ("mine", "theirs_1")}, {"namespace": ("public",)}):
                answer = ask(mine.pk, QUESTION, **filters)
                given.append([(hit.tool["tool_id"], hit.score, hit.components) for hit in answer.hits])
        return given

    before = answers()
    assert {tuple(one[0] for one in answer) for answer in before} == {("mine",)}
    for number in range(20):
        make(theirs, f"theirs_{number}", 0.9)
    assert answers() == before
    assert len(found(ask(theirs.pk, QUESTION))) == 20
