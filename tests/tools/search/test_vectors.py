"""Which tools an answer may hold, whatever their vectors (SRC-1, SRC-5, case 36).

Proven: tools without a vector are found by their words, their scores are numbers, and the missing vector lifts none of
them to the top, whichever way the database looks; inactive, hidden and retired tools appear in no answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from portal.tenancy.models import Tenant
from tests.support.clients import make_api
from tests.support.search import found, place, reader, toward
from tools.catalogue.tools import update_tool
from tools.models import Tool, ToolEmbedding
from tools.search.query import SearchAnswer
from tools.search.service import SearchUnavailable

MakeTool = Callable[..., Tool]
Asked = Callable[..., SearchAnswer]

QUESTION = "deliver a letter"
WORDS = "Delivers letters."
UNREADY = ("pending", "failed", "blank", "disabled")
EXACT, SIGNS = 10_000, 0  # of SEARCH_EXACT_LIMIT


@pytest.fixture
def waiting(make_tool: MakeTool, ready_tool: MakeTool) -> None:
    """Ready tools near and far, with the words and without, and one with the words in every other state."""
    ready_tool("near", QUESTION, 0.9, name="alpha", description=WORDS)
    ready_tool("far", QUESTION, 0.2, name="alpha", description=WORDS)
    ready_tool("near_without_words", QUESTION, 0.7, name="alpha", description="Beta gamma.")
    ready_tool("opposite", QUESTION, -0.3, name="alpha", description="Beta gamma.")
    for status in UNREADY:
        tool = make_tool(tool_id=status, name="alpha", description=WORDS)
        ToolEmbedding.objects.filter(entity=tool).update(status=status)
        silent = make_tool(tool_id=f"{status}_without_words", name="alpha", description="Beta gamma.")
        ToolEmbedding.objects.filter(entity=silent).update(status=status)


@pytest.mark.parametrize("limit", [EXACT, SIGNS], ids=["exact", "signs"])
@pytest.mark.parametrize("fusion", ["score", "rrf"])
def test_case_36_a_tool_without_a_vector_is_found_by_its_words_and_not_on_top_for_that_SRC_5(
    waiting: None, asked: Asked, settings: Any, fusion: str, limit: int
) -> None:
    settings.SEARCH_FUSION, settings.SEARCH_EXACT_LIMIT = fusion, limit
    answer = asked(QUESTION)
    ranked = found(answer)
    assert sorted(ranked) == sorted(["near", "far", "near_without_words", "opposite", *UNREADY])
    assert ranked[0] == "near"
    hits = {hit.tool["tool_id"]: hit for hit in answer.hits}
    for status in UNREADY:
        assert hits[status].match_type == "keyword"
        assert hits[status].tool["embedding_status"] == status
        assert hits[status].components["similarity"] is None
        assert hits[status].components["semantic_rank"] is None
    assert all(math.isfinite(hit.score) for hit in answer.hits)
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert [hit.rank for hit in answer.hits] == list(range(1, 9))


def test_case_36_the_pages_of_both_plans_are_the_same_SRC_1(
    waiting: None, asked: Asked, settings: Any
) -> None:
    pages = []
    for settings.SEARCH_EXACT_LIMIT in (EXACT, SIGNS):
        pages += [[(hit.tool["tool_id"], round(hit.score, 9)) for hit in asked(QUESTION).hits]]
    assert pages[0] == pages[1]


def test_case_36_a_vector_left_over_from_an_older_text_does_not_count_SRC_1(
    ready_tool: MakeTool, asked: Asked
) -> None:
    tool = ready_tool("edited", QUESTION, 0.9, name="alpha", description="Beta gamma.")
    assert found(asked(QUESTION)) == ["edited"]
    update_tool(pk=tool.pk, expected_version=1, changes={"description": "Delta."}, actor="test")
    assert ToolEmbedding.objects.get(entity=tool).status == "pending"
    assert found(asked(QUESTION)) == []
    assert found(asked("delta")) == ["edited"]


def test_case_36_where_no_tool_has_a_vector_the_words_decide_alone_SRC_5(
    make_tool: MakeTool, asked: Asked, settings: Any
) -> None:
    make_tool(tool_id="both", name="letter", description=WORDS)
    make_tool(tool_id="one", name="alpha", description="Delivers parcels.")
    for settings.SEARCH_FUSION in ("score", "rrf"):
        answer = asked(QUESTION)
        assert found(answer) == ["both", "one"]
        assert (answer.mode, answer.degraded) == ("keyword", ("vectors_missing",))
        assert all(math.isfinite(hit.score) and hit.score > 0 for hit in answer.hits)


def test_vectors_are_missing_only_where_no_tool_that_was_searched_has_one_SRC_5(
    make_tool: MakeTool, ready_tool: MakeTool, asked: Asked
) -> None:
    def said(question: str, **filters: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        answer = asked(question, **filters)
        return answer.mode, answer.degraded

    assert said(QUESTION) == ("hybrid", ())  # nothing is there that could miss anything
    make_tool(tool_id="waiting", name="letter", description=WORDS, category="new")
    assert said(QUESTION) == said("unheard words") == ("keyword", ("vectors_missing",))
    ready_tool("ready", QUESTION, 0.9, name="alpha", description="Beta gamma.", category="old")
    assert said(QUESTION) == ("hybrid", ())
    assert said(QUESTION, category=("old",)) == ("semantic", ())
    assert said(QUESTION, category=("new",)) == ("keyword", ("vectors_missing",))
    assert said("unheard words", category=("nothing has this",)) == ("hybrid", ())


def test_case_36_the_answer_is_json_as_the_standard_has_it_SRC_1(waiting: None, tenant: Tenant) -> None:
    content = make_api(tenant).post("/api/v1/tools/search", {"query": QUESTION}, format="json").content

    def refuse(name: str) -> None:
        raise AssertionError(name)

    results = json.loads(content, parse_constant=refuse)["results"]
    assert len(results) == 8
    assert all(isinstance(result["score"], float) for result in results)


HIDDEN: dict[str, dict[str, Any]] = {
    "inactive": {"active": False},
    "private": {"visibility": "private"},
    "unlisted": {"visibility": "unlisted"},
    "retired": {"lifecycle": "retired"},
}


@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN.keys())
def test_a_tool_that_is_hidden_is_in_no_answer_and_comes_back_with_its_state_SRC_1(
    hidden: dict[str, Any], ready_tool: MakeTool, asked: Asked, tenant: Tenant, settings: Any
) -> None:
    ready_tool("shown", QUESTION, 0.3, description=WORDS, lifecycle="deprecated")
    tool = ready_tool("hidden", QUESTION, 0.9, description=WORDS)
    ways = [
        (semantic, limit, filters)
        for semantic in (True, False)
        for limit in (EXACT, SIGNS)
        for filters in ({}, {"names": ("hidden", "shown")}, {"namespace": ("public",)})
    ]

    def answers() -> set[frozenset[str]]:
        seen = set()
        for settings.SEARCH_SEMANTIC, settings.SEARCH_EXACT_LIMIT, filters in ways:
            seen.add(frozenset(found(asked(QUESTION, rights=reader(tenant.pk), **filters))))
        return seen

    assert answers() == {frozenset({"shown", "hidden"})}
    update_tool(pk=tool.pk, expected_version=1, changes=hidden, actor="test")
    assert answers() == {frozenset({"shown"})}
    shown = {"active": True, "visibility": "public", "lifecycle": "active"}
    update_tool(pk=tool.pk, expected_version=2, changes={name: shown[name] for name in hidden}, actor="test")
    place(tool, toward(QUESTION, 0.9, "hidden"))
    assert answers() == {frozenset({"shown", "hidden"})}


def test_a_hidden_tool_does_not_take_the_place_of_another_SRC_1(
    ready_tool: MakeTool, asked: Asked, tenant: Tenant, settings: Any
) -> None:
    for number in range(8):
        visibility = "public" if number % 2 else "private"
        ready_tool(f"t{number}", QUESTION, 0.9 - number / 10, description=WORDS, visibility=visibility)
    for settings.SEARCH_EXACT_LIMIT in (EXACT, SIGNS):
        assert found(asked(QUESTION, top_k=3, rights=reader(tenant.pk))) == ["t1", "t3", "t5"]


def test_a_question_that_the_database_refuses_spoils_no_later_one_SRC_5(
    ready_tool: MakeTool, asked: Asked, settings: Any
) -> None:
    ready_tool("near", QUESTION, 0.9)
    settings.SEARCH_EXACT_LIMIT = 10**12
    with pytest.raises(SearchUnavailable):
        asked(QUESTION)
    settings.SEARCH_EXACT_LIMIT = EXACT
    assert found(asked(QUESTION)) == ["near"]
