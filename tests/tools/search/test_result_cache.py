"""SRC-6: a remembered answer is the one that would be found now, whatever has changed, and for whomever it is.

How to see it fail: without a trigger that raises the version (the last test), or with a key that leaves the audience out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.core.cache import cache  # noqa: TID251 - emptied before each test
from django.db.models.functions import Now

from embeddings import slots
from metrics.models import ToolStatistics
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Sensitivity, Tenant
from portal.tenancy.rights import Rights
from tests.support.search import place, reader, toward
from tools.catalogue.tools import create_tool
from tools.models import Source, Tool, ToolEmbedding
from tools.search import result_cache, service
from tools.search.query import SearchAnswer, SearchFilters, SearchQuery
from tools.search.service import search

QUESTIONS = ("pay an invoice", "cancel an order")
QUERIES = (
    *(SearchQuery(text, 5) for text in QUESTIONS),
    SearchQuery(QUESTIONS[0], 5, SearchFilters(source=("a",))),
)


@pytest.fixture(autouse=True)
def remembering(settings: Any) -> Iterator[None]:
    settings.SEARCH_RESULT_CACHE, settings.SEARCH_SPELLING = 200, False
    cache.clear()
    result_cache.clear()
    yield
    result_cache.clear()


@pytest.fixture
def everybody(committed: Tenant) -> list[Rights]:
    tenant = committed.pk
    return [
        Rights.unrestricted(tenant, "test"),
        reader(tenant, "ann"),
        reader(tenant, "bob"),
        reader(tenant, max_sensitivity=Sensitivity.values[0]),
    ]


@pytest.fixture
def tools(committed: Tenant) -> list[Tool]:
    with tenant_context(committed.pk):
        source = Source.objects.create(slug="a", kind="openapi", title="A")
        made = []
        for number in range(12):
            fields = {"name": f"tool number {number}", "description": f"Does thing {number} with an invoice."}
            tool = create_tool(actor="test", tool_id=f"t{number}", **fields)
            place(tool, toward(QUESTIONS[number % 2], 0.9 - number / 20, number))
            made.append(tool)
        Tool.objects.filter(tool_id__in=["t1", "t2"]).update(source=source)
    return made


def shown(answer: SearchAnswer) -> list[Any]:
    return [(hit.rank, round(hit.score, 9), hit.components, hit.tool) for hit in answer.hits]


def fresh(rights: Rights, query: SearchQuery) -> SearchAnswer:
    return service._find(rights, slots.serving(), query)


CHANGES: dict[str, Callable[[Tool, random.Random], object]] = {
    "text": lambda tool, chance: Tool.objects.filter(pk=tool.pk).update(description=f"Cancels {chance.random()}."),
    "name": lambda tool, chance: Tool.objects.filter(pk=tool.pk).update(name=f"tool number {chance.randrange(9)}"),
    "active": lambda tool, chance: (
        Tool.objects.filter(pk=tool.pk).update(active=(on := chance.random() < 0.5)),
        ToolEmbedding.objects.filter(entity=tool).update(active=on),
    ),
    "visibility": lambda tool, chance: Tool.objects.filter(pk=tool.pk).update(
        visibility=chance.choice(["public", "private", "unlisted"]), owner=chance.choice(["ann", "bob", ""])
    ),
    "sensitivity": lambda tool, chance: Tool.objects.filter(pk=tool.pk).update(sensitivity=chance.choice(Sensitivity.values)),
    "lifecycle": lambda tool, chance: Tool.objects.filter(pk=tool.pk).update(lifecycle=chance.choice(["active", "deprecated", "retired"])),
    "weight": lambda tool, chance: Tool.objects.filter(pk=tool.pk).update(semantic_weight=chance.choice([0.5, 1, 2])),
    "vector": lambda tool, chance: place(tool, toward(chance.choice(QUESTIONS), 0.8, chance.random())),
    "status": lambda tool, chance: ToolEmbedding.objects.filter(entity=tool).update(status="pending"),
    "quarantine": lambda tool, chance: ToolStatistics.objects.update_or_create(
        tool_id=tool.pk, defaults={"quarantined_until": chance.choice(["2100-01-01T00:00Z", None])}
    ),
    "source": lambda tool, chance: Source.objects.update(slug=chance.choice("abc")),
    "deletion": lambda tool, chance: chance.random() < 0.2 and Tool.objects.filter(pk=tool.pk).delete(),
}  # fmt: skip


@pytest.mark.parametrize("steps", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_after_any_change_everybody_is_answered_as_without_a_memory_SRC_6(
    everybody: list[Rights], tools: list[Tool], committed: Tenant, steps: int
) -> None:
    chance = random.Random(steps)
    remembered = 0
    for _ in range(steps):
        name = chance.choice(list(CHANGES))
        with tenant_context(committed.pk):
            CHANGES[name](chance.choice(list(Tool.objects.order_by("tool_id"))), chance)
        for rights in everybody:
            for query in QUERIES:
                right = shown(fresh(rights, query))
                for _ in range(2):
                    answer = search(rights, query)
                    assert shown(answer) == right, name
                    remembered += answer.cached
    assert remembered > steps * len(everybody) * len(QUERIES) / 2  # or nothing was tried


def test_a_repeated_question_is_answered_from_memory_with_an_id_of_its_own_SRC_6_SRC_9(
    everybody: list[Rights], tools: list[Tool]
) -> None:
    first, second = (search(everybody[0], SearchQuery(QUESTIONS[0])) for _ in range(2))
    assert (first.cached, second.cached) == (False, True)
    assert first.search_id != second.search_id
    assert set(second.timings) == {"cache"}
    result_cache.clear()  # as another process, which has the shared memory alone
    assert search(everybody[0], SearchQuery(QUESTIONS[0])).cached


def test_what_one_may_see_is_not_remembered_for_another_SRC_6_S4(
    everybody: list[Rights], tools: list[Tool]
) -> None:
    for rights in everybody:
        assert not search(rights, SearchQuery(QUESTIONS[0])).cached


def test_the_end_of_a_quarantine_ends_what_is_remembered_SRC_6(
    everybody: list[Rights], tools: list[Tool], committed: Tenant
) -> None:
    with tenant_context(committed.pk):
        ToolStatistics.objects.create(tool_id=tools[0].pk, quarantined_until=Now() + timedelta(seconds=3))
    query = SearchQuery(QUESTIONS[0])
    until = time.monotonic() + 3
    assert tools[0].pk not in [hit.tool["id"] for hit in search(everybody[0], query).hits]
    assert search(everybody[0], query).cached
    time.sleep(max(0, until - time.monotonic()) + 0.2)
    assert search(everybody[0], query).hits[0].tool["id"] == tools[0].pk


def test_an_answer_that_lacks_something_is_not_remembered_SRC_6_SRC_5(
    everybody: list[Rights], tools: list[Tool], settings: Any
) -> None:
    settings.EMBEDDING_PROVIDER = "disabled"
    for _ in range(2):
        answer = search(everybody[0], SearchQuery(QUESTIONS[0]))
        assert (answer.degraded, answer.cached) == (("embedding_disabled",), False)


def test_a_cache_that_is_down_costs_no_search_SRC_6(
    everybody: list[Rights], tools: list[Tool], settings: Any
) -> None:
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    assert search(everybody[0], SearchQuery(QUESTIONS[0])).hits
    assert search(everybody[0], SearchQuery(QUESTIONS[0])).cached  # by this process


@pytest.fixture
def without_trigger(admin_database: psycopg.Connection[Any]) -> Iterator[None]:
    statement = "ALTER TABLE tools_tool {} TRIGGER tools_tool_catalogue_version_updated"
    admin_database.execute(statement.format("DISABLE"))
    yield
    admin_database.execute(statement.format("ENABLE"))


@pytest.mark.usefixtures("without_trigger")
def test_without_the_version_a_stale_answer_is_noticed(
    everybody: list[Rights], tools: list[Tool], committed: Tenant
) -> None:
    query = SearchQuery(QUESTIONS[0])
    search(everybody[0], query)
    with tenant_context(committed.pk):
        Tool.objects.filter(pk=tools[0].pk).update(name="another")
    assert shown(search(everybody[0], query)) != shown(fresh(everybody[0], query))
