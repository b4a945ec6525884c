"""The comparison by signs against the exact one, in a catalogue of 3,060 tools in topics beside others of other content, and in a crowd
of alike tools (cases 34 and 73, R12 in small; tests/tools/search/test_crowds.py has it whole).

Proven: whatever a filter leaves, a page is full, and its first ten are the exact ones, before and after deletes; a small tenant
beside large ones loses nothing; fewer results are the first of more. The questions share no word with any tool, so an answer is the
order by vectors alone, which numpy knows too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg
import pytest

from portal.tenancy.context import tenant_context
from tests.support.database import real_commits
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
        crowd = [toward(CROWDED, 0.3 + n / 5000, f"crowd {n}") for n in range(CROWD - 50 * len(TOPICS))]
        crowd += [toward(topic, 0.3 + n / 100, f"{topic} {n}") for topic in TOPICS for n in range(50)]
        rare = [toward(CROWDED, 0.1 + n / 1000, f"rare {n}") for n in range(RARE)]
        made.large.fill("crowd_", crowd, source="crowd")
        made.large.fill("alone_", rare[:1], category="alone", tags=["ten"], routing_domain="rare")
        made.large.fill("ten_", rare[1:10], tags=["ten"], source="ten", routing_domain="rare")
        made.large.fill("sixty_", rare[10:], routing_domain="rare")
        # Clusters of other content, the smaller ones far from everything the large tenant has.
        made.small.fill("small_", [toward("cluster", 0.6 + n / 1000, f"small {n}") for n in range(SMALL)])
        made.fading.fill("fading_", [toward("fading", 0.6 + n / 1000, f"fading {n}") for n in range(SMALL)])
        made.hashes.fill("hash_", [hash_vector(f"hash {n}") for n in range(CROWD)])
        made.tiny.fill("tiny_", [toward(CROWDED, -0.5 + n / 100, f"tiny {n}") for n in range(5)])
        admin_database.execute("VACUUM (ANALYZE) tools_tool, tools_toolembedding, tools_posting")
        yield made


def recall(given: list[str], exact: list[str]) -> float:
    return len(set(given) & set(exact)) / len(exact)


@pytest.mark.parametrize("name", ["large", "hashes"])
def test_the_signs_give_the_ten_nearest_SRC_1(name: str, worlds: Worlds, settings: Any) -> None:
    one: World = getattr(worlds, name)
    settings.SEARCH_EXACT_LIMIT = 1000
    recalls = []
    for question in QUESTIONS:
        answer = ask(one.tenant_id, question, 10)
        assert answer.mode == "semantic"
        similarities = [hit.components["similarity"] for hit in answer.hits]
        assert similarities == sorted(similarities, reverse=True)
        recalls.append(recall(found(answer), one.nearest(question, lambda name: True, 10)))
    # Random vectors stand alike to everything, which no text's do.
    assert np.mean(recalls) >= (0.95 if name == "hashes" else 0.99), recalls


def test_the_exact_comparison_gives_the_ten_nearest_SRC_1(worlds: Worlds, settings: Any) -> None:
    settings.SEARCH_EXACT_LIMIT = 1_000_000
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
LIMITS = {"exact": (10_000, 10_000), "signs of the listed": (0, 10_000), "signs": (0, 0)}


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS.keys())
@pytest.mark.parametrize("filtered", FILTERS.values(), ids=FILTERS.keys())
def test_case_34_a_page_is_full_whatever_the_filter_leaves_SRC_2_R12(
    filtered: Any, limits: tuple[int, int], worlds: Worlds, settings: Any
) -> None:
    settings.SEARCH_EXACT_LIMIT, settings.SEARCH_FILTERED_LIMIT = limits
    filters, among, matching = filtered
    for question in QUESTIONS[:3]:
        for top_k in (10, 50):
            given = found(ask(worlds.large.tenant_id, question, top_k, **filters))
            exact = worlds.large.nearest(question, among, top_k)
            assert len(given) == len(set(given)) == min(top_k, matching)
            if limits[0]:
                assert given == exact
            elif exact:
                assert recall(given, exact) >= 0.98


@pytest.mark.parametrize(("name", "size"), [("small", SMALL), ("tiny", 5)])
def test_a_small_tenant_beside_a_large_one_has_a_full_page_by_signs_too_SRC_1_R12(
    name: str, size: int, worlds: Worlds, settings: Any
) -> None:
    settings.SEARCH_EXACT_LIMIT = 0
    one: World = getattr(worlds, name)
    for question in [*QUESTIONS, "cluster"]:
        given = found(ask(one.tenant_id, question, 10))
        assert given == one.nearest(question, lambda name: True, min(10, size))


def test_fewer_results_are_the_first_of_more_SRC_1(worlds: Worlds, settings: Any) -> None:
    with tenant_context(worlds.large.tenant_id):
        heavy = Tool.objects.filter(tool_id__in=worlds.large.nearest(CROWDED, lambda name: True, 60)[40:])
        heavy.update(semantic_weight=1.5)
    for settings.SEARCH_EXACT_LIMIT in (10_000, 0):
        for question in (CROWDED, TOPICS[3], "a tool of topics"):
            most = found(ask(worlds.large.tenant_id, question, 50))
            assert len(most) == 50
            for top_k in (1, 5, 20, 49):
                assert found(ask(worlds.large.tenant_id, question, top_k)) == most[:top_k]


def test_deleted_tools_leave_no_gap_in_the_page_SRC_1_R12(worlds: Worlds, settings: Any) -> None:
    settings.SEARCH_EXACT_LIMIT = 0
    one = worlds.fading
    gone = [name for name in one.vectors if int(name.removeprefix("fading_")) % 3 == 0]
    with tenant_context(one.tenant_id):
        Tool.objects.filter(tool_id__in=gone).delete()
    for vacuumed in (False, True):
        if vacuumed:
            worlds.owner.execute("VACUUM tools_toolembedding")
        for question in [*QUESTIONS, "fading"]:
            given = found(ask(one.tenant_id, question, 10))
            assert given == one.nearest(question, lambda name: name not in gone, 10)
