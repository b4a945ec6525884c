"""The candidate function passes row-level security by, so it must keep tenants apart itself; and what a caller may not see, it does
not find, count or weigh.

Proven: without a tenant it is an error; with one, no other tenant's tool, word or vector is in an answer or moves it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import DatabaseError, connection, transaction

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from portal.tenancy.rights import SCOPES_OF_ROLE, Rights
from tests.support.clients import make_api, make_client
from tests.support.search import ask, candidates, found, place, reader, toward
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


@pytest.fixture
def private(ready_tool: Callable[..., Tool]) -> dict[str, Tool]:
    words = {"name": "alpha", "description": "Delivers letters."}
    return {
        tool_id: ready_tool(tool_id, QUESTION, 0.5, **words, **fields)
        for tool_id, fields in {
            "offered": {"sensitivity": "public"}, "mine": {"visibility": "private", "owner": "ann"},
            "theirs": {"visibility": "private", "owner": "bob"}, "nobodys": {"visibility": "private"},
            "by_its_id": {"visibility": "unlisted", "owner": "ann"},
            "my_past": {"visibility": "private", "owner": "ann", "lifecycle": "retired"},
            "my_secret": {"visibility": "private", "owner": "ann", "sensitivity": "restricted"},
        }.items()
    }  # fmt: skip


@pytest.fixture(params=[(2500, 10_000), (0, 10_000), (0, 0)], ids=["exact", "signs", "many pass"])
def limits(request: pytest.FixtureRequest, settings: Any) -> None:
    settings.SEARCH_EXACT_LIMIT, settings.SEARCH_FILTERED_LIMIT = request.param


@pytest.mark.parametrize("semantic", [True, False], ids=["meaning", "words"])
@pytest.mark.parametrize("filters", [{}, {"namespace": ("public",)}], ids=["all", "filtered"])
def test_private_tools_are_found_by_their_owner_and_by_who_may_edit_CAT_1(
    private: dict[str, Tool], limits: None, semantic: Any, filters: Any, tenant: Tenant, settings: Any
) -> None:
    settings.SEARCH_SEMANTIC = semantic

    def finds(rights: Rights) -> set[str]:
        return set(found(ask(tenant.pk, QUESTION, rights=rights, **filters)))

    of_all = {"offered", "mine", "theirs", "nobodys", "my_secret"}
    assert finds(reader(tenant.pk)) == {"offered"}
    assert finds(reader(tenant.pk, "ann")) == {"offered", "mine", "my_secret"}
    assert finds(reader(tenant.pk, "ann", max_sensitivity="internal")) == {"offered", "mine"}
    assert finds(reader(tenant.pk, "eve' OR true OR '")) == {"offered"}
    assert finds(Rights(tenant.pk, "op", SCOPES_OF_ROLE["operator"])) == of_all
    assert finds(Rights(tenant.pk, "op", SCOPES_OF_ROLE["operator"], "internal")) == of_all - {"my_secret"}
    assert finds(Rights(tenant.pk, "op", SCOPES_OF_ROLE["operator"], "public")) == {"offered"}
    assert finds(Rights.unrestricted(tenant.pk, "command")) == of_all


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_the_search_page_and_a_key_find_what_their_rights_let_them_CAT_1_API_3(
    private: dict[str, Tool], role: str, tenant: Tenant
) -> None:
    client = make_client(tenant, role)
    me = get_user_model().objects.get(pk=client.session["_auth_user_id"]).get_username()
    Tool.objects.filter(pk=private["mine"].pk).update(owner=me)
    html = client.get("/search/", {"q": QUESTION, "top_k": 50}).content.decode()
    on_page = {name for name, tool in private.items() if f"/tools/{tool.pk}/" in html}
    scopes = sorted(SCOPES_OF_ROLE[role])
    body = make_api(tenant, *scopes).post("/api/v1/tools/search", {"query": QUESTION}, format="json").json()
    by_key = {hit["tool"]["tool_id"] for hit in body["results"]}
    of_all = {"offered", "mine", "theirs", "nobodys", "my_secret"}
    assert (on_page, by_key) == (
        (of_all, of_all) if role == "operator" else ({"offered", "mine"}, {"offered"})
    )


def test_how_rare_a_word_is_does_not_tell_of_private_tools_SEC_4(
    ready_tool: Callable[..., Tool], tenant: Tenant
) -> None:
    def keyword(rights: Rights) -> float | None:
        [hit] = [
            one for one in ask(tenant.pk, QUESTION, rights=rights).hits if one.tool["tool_id"] == "offered"
        ]
        return hit.components["keyword"]

    ready_tool("offered", QUESTION, 0.5, name="alpha", description="Delivers letters.")
    alone = keyword(reader(tenant.pk, "ann"))
    for number in range(5):
        ready_tool(
            f"p{number}",
            QUESTION,
            0.5,
            name="alpha",
            description="Delivers letters.",
            visibility="private",
            owner="bob",
        )
    assert keyword(reader(tenant.pk, "ann")) == alone
    assert keyword(reader(tenant.pk, "bob")) != alone
