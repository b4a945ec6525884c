"""SRC-4 through the whole search: when the model is called, how long a search waits for it, and what becomes of its order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.core.cache import cache  # noqa: TID251 - emptied before each test

from portal.resilience import circuit_breaker
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from portal.tenancy.rights import Rights
from tests.support.search import found, place, toward
from tests.support.servers.chat_server import ChatServer, chat_server
from tests.support.waiting import wait_until
from tools.catalogue.tools import create_tool
from tools.models import Tool
from tools.search.model_rerank import service
from tools.search.query import SearchAnswer, SearchQuery
from tools.search.service import search

NEED, FAR = "pay an invoice", "cancel an order"
Ask = Callable[..., SearchAnswer]


@pytest.fixture
def server(settings: Any, committed: Tenant) -> Iterator[ChatServer]:
    with chat_server() as running:
        settings.SEARCH_RERANK_URL, settings.SEARCH_RERANK_MODEL = running.url, "small"
        settings.SEARCH_RERANK_TIMEOUT, settings.SEARCH_RERANK_BUDGET = 5, 5000
        service.judges.cache_clear()
        cache.clear()
        yield running
    wait_until(lambda: not service._calls._under_way, "no call is under way")
    service.judges.cache_clear()
    circuit_breaker.close_all()


@pytest.fixture
def ask(committed: Tenant) -> Ask:
    """Five tools whose cosines to NEED lie within 0.10, and one further away."""
    with tenant_context(committed.pk):
        for name, cosine in (("a", 0.6), ("b", 0.58), ("c", 0.56), ("d", 0.54), ("e", 0.52), ("f", 0.3)):
            fields = {"tool_id": f"tool_{name}", "name": f"tool {name}", "description": f"What {name} does."}
            place(create_tool(actor="test", **fields), toward(NEED, cosine, name))

        fields = {"tool_id": "tool_far", "name": "far", "description": "Far from the others."}
        place(create_tool(actor="test", **fields), toward(FAR, 0.5, "far"))

    def one(text: str = NEED, **options: Any) -> SearchAnswer:
        return search(
            Rights.unrestricted(committed.pk, "test"), SearchQuery(text, **{"rerank": "auto", **options})
        )

    return one


def names(answer: SearchAnswer) -> str:
    return "".join(one.removeprefix("tool_") for one in found(answer) if one != "tool_far")


def test_the_model_orders_the_best_five_and_the_answer_says_so_SRC_4(server: ChatServer, ask: Ask) -> None:
    server.text = "3,1"
    answer = ask()
    assert names(answer) == "cabdef"
    assert (answer.reranking.kind, answer.reranking.outcome) == ("llm", "changed")
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    for hit in answer.hits:
        assert sum(hit.contributions.values()) == pytest.approx(hit.score)
    assert len(server.asked) == 1


def test_an_order_that_changes_nothing_is_told_as_confirmed_SRC_4(server: ChatServer, ask: Ask) -> None:
    server.text = "1,2,3,4,5"
    answer = ask()
    assert (names(answer), answer.reranking.outcome) == ("abcdef", "confirmed")


@pytest.mark.parametrize(
    ("options", "outcome", "calls"),
    [
        ({"rerank": "none"}, "not_asked", 0),
        ({"rerank": "auto"}, "confirmed", 1),
        ({"rerank": "auto", "intent": "browse"}, "not_needed", 0),
        ({"rerank": "llm", "intent": "browse"}, "confirmed", 1),  # asked for by name
        ({"rerank": "cross-encoder"}, "not_configured", 0),
        ({"rerank": "auto", "top_k": 1}, "not_needed", 0),
        ({"rerank": "auto", "text": "something else"}, "confirmed", 1),  # nothing is near, all alike
        ({"rerank": "auto", "text": FAR}, "not_needed", 0),  # one is nearer than the others
        ({"rerank": "llm", "text": FAR}, "confirmed", 1),
    ],
)
def test_the_model_is_called_under_the_rule_alone_SRC_4(
    server: ChatServer, ask: Ask, options: dict[str, Any], outcome: str, calls: int
) -> None:
    server.text = "1,2,3,4,5"
    assert ask(**options).reranking.outcome == outcome
    assert len(server.asked) == calls


def test_without_a_model_the_answer_says_so_SRC_4(ask: Ask) -> None:
    service.judges.cache_clear()
    assert ask().reranking.outcome == "not_configured"


def test_a_late_model_costs_its_budget_and_serves_the_next_time_without_a_second_call_SRC_4(
    server: ChatServer, ask: Ask, settings: Any
) -> None:
    settings.SEARCH_RERANK_BUDGET = 150
    server.text = "5,4"
    server.held.clear()
    began = time.monotonic()
    answer = ask()
    spent = time.monotonic() - began
    assert (names(answer), answer.reranking.outcome) == ("abcdef", "too_late")
    assert 150 <= answer.reranking.took_ms < 300  # a thread of a busy machine may wake late
    assert spent < 5  # a guard: without a budget the search would wait for the call's own time
    again = ask()  # while the call is under way: it is waited for, and not made twice
    assert (again.reranking.outcome, len(server.asked)) == ("too_late", 1)
    server.held.set()
    wait_until(lambda: not service._calls._under_way, "the call has ended")
    later = ask()
    assert (names(later), later.reranking.outcome, len(server.asked)) == ("edabcf", "changed", 1)


def test_a_remembered_order_is_not_that_of_another_text_or_another_caller_SRC_4_S4(
    server: ChatServer, ask: Ask, committed: Tenant
) -> None:
    server.text = "2,1"
    ask()
    ask()
    assert len(server.asked) == 1
    with tenant_context(committed.pk):
        Tool.objects.filter(tool_id="tool_b").update(description="Something else.")
    ask()
    assert len(server.asked) == 2
    search(
        replace(Rights.unrestricted(committed.pk, "test"), username="another"),
        SearchQuery(NEED, rerank="auto"),
    )
    assert len(server.asked) == 3


@pytest.mark.parametrize("text", ["none of them", "0", "42", "I would say 3"])
def test_an_answer_without_an_order_leaves_the_first_one_SRC_4(
    server: ChatServer, ask: Ask, text: str
) -> None:
    server.text = text
    answer = ask()
    assert (names(answer), answer.reranking.outcome) == ("abcdef", "failed")


def test_a_model_that_fails_again_and_again_is_left_alone_for_a_while_SRC_4(
    server: ChatServer, ask: Ask, settings: Any
) -> None:
    settings.EMBEDDING_CIRCUIT_ERRORS, settings.EMBEDDING_CIRCUIT_SECONDS = 3, 30
    server.status, server.reply = 500, b"{}"
    for number in range(6):
        assert ask(rerank="llm", text=f"{NEED} {number}").reranking.outcome == "failed"
    assert len(server.asked) == 3


def test_at_most_four_calls_of_a_process_are_under_way_and_the_fifth_search_does_not_wait_SRC_4(
    server: ChatServer, ask: Ask, settings: Any
) -> None:
    settings.SEARCH_RERANK_BUDGET = 20
    server.held.clear()
    outcomes = [ask(rerank="llm", text=f"{NEED} {number}").reranking.outcome for number in range(5)]
    assert outcomes == ["too_late"] * 4 + ["busy"]
    server.held.set()
