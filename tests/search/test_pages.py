"""The HNSW index against the exact comparison, in a catalogue of 3,060 tools in topics, beside one of 3,000
without any and smaller ones in the same index (case 34, R12 in small).

Proven: where the index is used (by its own count of scans) the first ten are the exact ones; whatever a filter leaves, a
page is full; and the plan follows the sizes as docs/search.md says. The questions share no word with any tool, so an
answer is the order by vectors alone, which numpy knows too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg
import pytest
from django.db import connection

from portal.tenancy.context import tenant_context
from tests.support.database import real_commits, without_vector_index
from tests.support.embeddings.providers import hash_vector
from tests.support.search import ask, found, toward
from tools.models import Source, Tool, ToolEmbedding

CROWDED = "weather forecast"  # what 2,000 tools are near to
TOPICS = [f"what about {letter * 5}" for letter in "bcdfghjklmnpqrstvwxz"]  # of 50 tools each
QUESTIONS = [CROWDED, *TOPICS[:11]]
CROWD, RARE, SMALL = 3000, 60, 200


@dataclass
class World:
    """A tenant and its vectors by tool_id."""

    tenant_id: uuid.UUID
    vectors: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def fill(self, prefix: str, vectors: list[np.ndarray], **fields: Any) -> None:
        with tenant_context(self.tenant_id):
            if slug := fields.pop("source", None):
                fields["source"] = Source.objects.create(slug=slug, kind="manual")
            tools = Tool.objects.bulk_create(
                (
                    Tool(tool_id=f"{prefix}{n}", name=f"{prefix}{n}", description="A tool.", **fields)
                    for n in range(len(vectors))
                ),
                batch_size=500,
            )
            ToolEmbedding.objects.bulk_create(
                (
                    ToolEmbedding(
                        entity=tool,
                        status="ready",
                        source_hash="0" * 64,
                        vector_hash="0" * 64,
                        vector=vector,
                        model="m",
                    )
                    for tool, vector in zip(tools, vectors, strict=True)
                ),
                batch_size=500,
            )
        self.vectors |= {tool.tool_id: vector for tool, vector in zip(tools, vectors, strict=True)}

    def nearest(self, question: str, among: Callable[[str], bool], count: int) -> list[str]:
        """What an exact comparison gives."""
        aim = hash_vector(question)
        names = [name for name in self.vectors if among(name)]
        return sorted(names, key=lambda name: -float(self.vectors[name] @ aim))[:count]


@dataclass
class Worlds:
    large: World
    small: World
    tiny: World
    fading: World
    hashes: World
    owner: psycopg.Connection[Any]

    @contextmanager
    def scans(self, *, indexed: bool) -> Iterator[None]:
        """The block does, or does not, read the HNSW index."""
        before = self._scanned()
        yield
        assert (self._scanned() > before) == indexed

    def _scanned(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
        row = self.owner.execute(
            "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'tools_toolembedding_hnsw_0'"
        ).fetchone()
        assert row is not None
        return int(row[0])


def world(owner: psycopg.Connection[Any]) -> World:
    made = World(uuid.uuid4())
    owner.execute(
        "INSERT INTO tenancy_tenant (id, slug, name, created_at) VALUES (%s, %s, 'x', now())",
        [made.tenant_id, f"w-{made.tenant_id.hex[:12]}"],
    )
    return made


@pytest.fixture(scope="module")
def worlds(django_db_blocker: Any, admin_database: psycopg.Connection[Any]) -> Iterator[Worlds]:
    with real_commits(django_db_blocker, admin_database):
        made = Worlds(*(world(admin_database) for _ in range(5)), admin_database)
        with without_vector_index(admin_database):
            crowd = [toward(CROWDED, 0.3 + n / 5000, f"crowd {n}") for n in range(CROWD - 50 * len(TOPICS))]
            crowd += [toward(topic, 0.3 + n / 100, f"{topic} {n}") for topic in TOPICS for n in range(50)]
            rare = [toward(CROWDED, 0.1 + n / 1000, f"rare {n}") for n in range(RARE)]
            made.large.fill("crowd_", crowd, source="crowd")
            made.large.fill("alone_", rare[:1], category="alone", tags=["ten"], routing_domain="rare")
            made.large.fill("ten_", rare[1:10], tags=["ten"], source="ten", routing_domain="rare")
            made.large.fill("sixty_", rare[10:], routing_domain="rare")
            # Clusters of other content, the smaller ones far from everything the large tenant has.
            made.small.fill("small_", [toward("cluster", 0.6 + n / 1000, f"small {n}") for n in range(SMALL)])
            made.fading.fill(
                "fading_", [toward("fading", 0.6 + n / 1000, f"fading {n}") for n in range(SMALL)]
            )
            made.hashes.fill("hash_", [hash_vector(f"hash {n}") for n in range(CROWD)])
            made.tiny.fill("tiny_", [toward(CROWDED, -0.5 + n / 100, f"tiny {n}") for n in range(5)])
        admin_database.execute("VACUUM (ANALYZE) tools_tool, tools_toolembedding, tools_posting")
        yield made


@pytest.fixture
def by_index(worlds: Worlds) -> Iterator[None]:
    """The planner may not sort the table, which it prefers while the table is as small as a test's."""
    settings = ("enable_seqscan", "enable_bitmapscan", "enable_sort")
    with connection.cursor() as cursor:
        for setting in settings:
            cursor.execute(f"SET {setting} = off")
        yield
        for setting in settings:
            cursor.execute(f"RESET {setting}")


def recall(given: list[str], exact: list[str]) -> float:
    return len(set(given) & set(exact)) / len(exact)


@pytest.mark.parametrize("name", ["large", "hashes"])
def test_the_index_gives_the_ten_nearest_SRC_1(
    name: str, worlds: Worlds, by_index: None, settings: Any
) -> None:
    one: World = getattr(worlds, name)
    settings.SEARCH_EXACT_LIMIT = 1000
    recalls = []
    with worlds.scans(indexed=True):
        for question in QUESTIONS:
            answer = ask(one.tenant_id, question, 10)
            assert answer.mode == "semantic"
            similarities = [hit.components["similarity"] for hit in answer.hits]
            assert similarities == sorted(similarities, reverse=True)
            recalls.append(recall(found(answer), one.nearest(question, lambda name: True, 10)))
    assert np.mean(recalls) >= 0.95, recalls


def test_the_exact_comparison_gives_the_ten_nearest_and_leaves_the_index_alone_SRC_1(
    worlds: Worlds, settings: Any
) -> None:
    settings.SEARCH_EXACT_LIMIT = 1_000_000
    with worlds.scans(indexed=False):
        for question in QUESTIONS:
            exact = worlds.large.nearest(question, lambda name: True, 10)
            assert found(ask(worlds.large.tenant_id, question, 10)) == exact


FILTERS: dict[str, tuple[dict[str, tuple[str, ...]], Callable[[str], bool], int]] = {
    "one": ({"category": ("alone",)}, lambda name: name.startswith("alone_"), 1),
    "ten": ({"tags": ("ten",)}, lambda name: name.startswith(("alone_", "ten_")), 10),
    "sixty": ({"routing_domain": ("rare",)}, lambda name: not name.startswith("crowd_"), RARE),
    "all": ({"namespace": ("public",)}, lambda name: True, CROWD + RARE),
    "none": ({"source": ("nobody's",)}, lambda name: False, 0),
}


@pytest.mark.parametrize("limit", [10_000, 100, 0], ids=["exact", "exact behind the filter", "index"])
@pytest.mark.parametrize("filtered", FILTERS.values(), ids=FILTERS.keys())
def test_case_34_a_page_is_full_whatever_the_filter_leaves_SRC_2(
    filtered: Any, limit: int, worlds: Worlds, by_index: None, settings: Any
) -> None:
    settings.SEARCH_EXACT_LIMIT = limit
    filters, among, matching = filtered
    indexed = matching > limit
    with worlds.scans(indexed=indexed):
        for question in QUESTIONS[:3]:
            for top_k in (10, 50):
                given = found(ask(worlds.large.tenant_id, question, top_k, **filters))
                exact = worlds.large.nearest(question, among, top_k)
                assert len(given) == len(set(given)) == min(top_k, matching)
                if indexed and exact:
                    assert recall(given, exact) >= (0.95 if top_k == 10 or matching <= top_k else 0.9)
                else:
                    assert given == exact


def test_case_34_the_rare_api_is_found_among_the_crowd_with_the_planners_own_choice_SRC_2(
    worlds: Worlds, settings: Any
) -> None:
    for settings.SEARCH_EXACT_LIMIT in (10_000, 5, 0):
        given = found(ask(worlds.large.tenant_id, CROWDED, 10, source=("ten",)))
        assert sorted(given) == [f"ten_{number}" for number in range(9)]
        rare = found(ask(worlds.large.tenant_id, CROWDED, 10, routing_domain=("rare",)))
        assert len(rare) == 10
        assert not any(name.startswith("crowd_") for name in rare)


@pytest.mark.parametrize(("name", "size"), [("small", SMALL), ("tiny", 5)])
def test_a_small_tenant_beside_a_large_one_has_a_full_page_even_through_the_index_SRC_1(
    name: str, size: int, worlds: Worlds, by_index: None, settings: Any
) -> None:
    settings.SEARCH_EXACT_LIMIT = 0
    one: World = getattr(worlds, name)
    with worlds.scans(indexed=True):
        recalls = []
        for question in [*QUESTIONS, "cluster"]:
            given = found(ask(one.tenant_id, question, 10))
            assert len(given) == min(10, size)
            recalls.append(recall(given, one.nearest(question, lambda name: True, 10)))
    assert np.mean(recalls) >= 0.95, recalls


def test_the_plan_follows_the_size_and_the_tenants_part_of_the_index_SRC_1(
    worlds: Worlds, by_index: None, settings: Any
) -> None:
    large, small = worlds.large.tenant_id, worlds.small.tenant_id
    for tenant_id, limit, indexed in (
        (large, 3000, True),  # more than the limit
        (large, 4000, True),  # fewer, but more than a fourth of it, and nearly the whole index
        (large, 13_000, False),  # fewer than a fourth of the limit
        (small, 100, True),
        (small, 400, False),  # more than a fourth of the limit, but a small part of the index
        (small, 4000, False),
    ):
        settings.SEARCH_EXACT_LIMIT = limit
        with worlds.scans(indexed=indexed):
            ask(tenant_id, CROWDED)


def test_deleted_tools_leave_no_gap_in_the_page_SRC_1(worlds: Worlds, by_index: None, settings: Any) -> None:
    settings.SEARCH_EXACT_LIMIT = 0
    one = worlds.fading
    gone = [name for name in one.vectors if int(name.removeprefix("fading_")) % 3 == 0]
    with tenant_context(one.tenant_id):
        Tool.objects.filter(tool_id__in=gone).delete()
    for vacuumed in (False, True):
        if vacuumed:
            worlds.owner.execute("VACUUM tools_toolembedding")
        with worlds.scans(indexed=True):
            recalls = []
            for question in [*QUESTIONS, "fading"]:
                given = found(ask(one.tenant_id, question, 10))
                assert len(given) == 10
                recalls.append(recall(given, one.nearest(question, lambda name: name not in gone, 10)))
        assert np.mean(recalls) >= 0.95, recalls
