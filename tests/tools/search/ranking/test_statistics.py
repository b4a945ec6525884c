"""What the statistics of calls do to a search: ranking (SRC-3), filters (SRC-2), quarantine, and what a result shows.

How to see it fail: with quality and recency 0 for the unknown, a tool that failed once outranks one that was never called; without
`hidden` in 0020_kind_tool.sql a quarantined tool is found wherever nothing is filtered.
"""

from __future__ import annotations

import json
import math
import random
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as some
from rest_framework.test import APIClient

from metrics.models import ToolStatistics
from metrics.scores import quality, recency
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.api import assert_problem
from tests.support.search import ask, found, reader
from tests.tools.search.test_filters import MODES
from tools.catalogue.tools import create_tool
from tools.models import Tool
from tools.search.query import Candidate, SearchAnswer
from tools.search.ranking import Weights, hits, rerank

MakeTool = Callable[..., Tool]
Asked = Callable[..., SearchAnswer]
QUESTION = "gadgets"
WEIGHTS = Weights(0.5, 0.35, 0.15)


def candidate(score: float = 1.0, weight: float = 1.0, **statistics: Any) -> Candidate:
    return Candidate(uuid.uuid4(), score, "both", 0.5, 1.0, 1, 1, weight, **statistics)


def measured(calls: int = 10, quality: float = 0.5, days: float | None = 0.0) -> dict[str, Any]:
    return {"calls": calls, "quality": quality, "days_since_success": days}


# --- The formula ------------------------------------------------------------------------------------------------------
def test_the_score_is_what_the_formula_says_SRC_3() -> None:
    best = candidate(0.8)
    other = candidate(0.6, 1.5, **measured(quality=0.9, days=7.0))
    scores = {one.candidate.tool_id: one.score for one in rerank([best, other], WEIGHTS)}
    assert scores[best.tool_id] == pytest.approx(0.5 * 1 + 0.35 * 0.5 + 0.15 * 0.5)
    assert scores[other.tool_id] == pytest.approx(1.5 * (0.5 * 0.75 + 0.35 * 0.9 + 0.15 * 0.5))


def test_what_was_never_called_has_the_priors_SRC_3() -> None:
    assert (quality(0, None), quality(0, 0.9), quality(3, None), quality(3, 0.9)) == (0.5, 0.5, 0.5, 0.9)
    assert (recency(0, None), recency(3, None), recency(3, 0.0), recency(3, 7.0), recency(3, 14.0)) == (
        0.5,
        0,
        1,
        0.5,
        0.25,
    )
    assert recency(3, -1.0) == 1, "a success of the future, by another clock, is one of now"


NUMBERS = some.floats(-1, 1, allow_nan=False)
CANDIDATES = some.lists(
    some.builds(
        candidate,
        NUMBERS,
        some.floats(0.1, 3),
        calls=some.integers(0, 3),
        quality=some.none() | some.floats(0, 1),
        days_since_success=some.none() | some.floats(0, 100),
    ),
    max_size=30,
)


@given(CANDIDATES)
@example([candidate(5e-324), candidate(-1.0)])
def test_the_contributions_add_up_to_the_score_and_the_best_is_first_SRC_3(
    candidates: list[Candidate],
) -> None:
    ranked = rerank(candidates, WEIGHTS)
    shown = hits(ranked, {one.tool_id: {} for one in candidates}, WEIGHTS)
    assert [hit.rank for hit in shown] == list(range(1, len(candidates) + 1))
    for hit in shown:
        assert sum(hit.contributions.values()) == pytest.approx(hit.score, rel=1e-9, abs=1e-9)
        assert math.isfinite(hit.score)
    scores = [hit.score for hit in shown]
    assert scores == sorted(scores, reverse=True)
    if candidates:
        assert max(one.relevance for one in ranked) == 1


@given(some.lists(NUMBERS | some.sampled_from([0.3, 0.3000000000000001, 1e-12, 0.0]), max_size=40))
def test_without_statistics_the_order_is_that_of_the_fused_scores_SRC_3(fused: list[float]) -> None:
    candidates = [candidate(score) for score in fused]
    expected = sorted(candidates, key=lambda one: (-one.score, str(one.tool_id)))
    assert [one.candidate for one in rerank(candidates, WEIGHTS)] == expected


@given(some.lists(NUMBERS, min_size=2, max_size=20), some.floats(0.1, 3), some.floats(0.1, 3), some.randoms())
def test_more_weight_or_quality_never_moves_a_tool_down_SRC_3(
    fused: list[float], low: float, high: float, draw: random.Random
) -> None:
    others = [candidate(score) for score in fused]
    low, high = sorted((low, high))
    score = draw.choice(fused)
    for lesser, greater in (
        (candidate(score, low), candidate(score, high)),
        (candidate(score, **measured(quality=low / 3)), candidate(score, **measured(quality=high / 3))),
        (candidate(score, **measured(days=30 * high)), candidate(score, **measured(days=30 * low))),
    ):
        places = [
            next(n for n, one in enumerate(rerank([*others, mine], WEIGHTS)) if one.candidate is mine)
            for mine in (lesser, greater)
        ]
        assert places[1] <= places[0] or fused.count(score) > 0  # equal ones are told apart by id
        scores = [
            next(one.score for one in rerank([*others, mine], WEIGHTS) if one.candidate is mine)
            for mine in (lesser, greater)
        ]
        assert scores[1] >= scores[0]


# --- In a search ------------------------------------------------------------------------------------------------------
@pytest.fixture(params=MODES.values(), ids=MODES.keys())
def mode(request: pytest.FixtureRequest, settings: Any) -> None:
    settings.SEARCH_SEMANTIC, settings.SEARCH_EXACT_LIMIT, settings.SEARCH_FILTERED_LIMIT = request.param


@pytest.fixture
def make(ready_tool: MakeTool) -> MakeTool:
    """Makes a gadget, with these statistics where there are any."""

    def made(tool_id: str, cosine: float = 0.5, **statistics: Any) -> Tool:
        tool = ready_tool(tool_id, QUESTION, cosine, description="A gadget.")
        if statistics:
            ToolStatistics.objects.create(tool_id=tool.pk, **statistics)
        return tool

    return made


def ago(**time: float) -> Any:
    return timezone.now() - timedelta(**time)


def test_a_tool_that_works_well_stands_before_one_that_does_not_SRC_3(make: MakeTool, asked: Asked) -> None:
    make("unknown")
    make("good", calls=20, successes=20, quality=0.9, last_succeeded_at=ago(minutes=90))
    make("bad", calls=20, successes=2, quality=0.1, last_succeeded_at=ago(days=30, minutes=30))
    answer = asked(QUESTION)
    assert found(answer) == ["good", "unknown", "bad"]
    good, unknown, bad = (hit.components for hit in answer.hits)
    assert (good["quality"], unknown["quality"], bad["quality"]) == (0.9, 0.5, 0.1)
    assert good["recency"] == pytest.approx(2 ** (-1 / 24 / 7))
    assert (unknown["recency"], bad["recency"]) == (0.5, pytest.approx(2 ** (-30 / 7)))
    for hit in answer.hits:
        assert hit.components["similarity"] == pytest.approx(0.5, abs=1e-5), (
            "the raw cosine, whatever the rank"
        )


def test_an_answer_stays_the_same_within_the_hour_SRC_3(make: MakeTool, api: APIClient) -> None:
    make("good", calls=20, successes=20, quality=0.9, last_succeeded_at=ago(hours=2, minutes=30))
    etags = {api.get(f"/api/v1/tools/search?query={QUESTION}")["ETag"] for _ in range(3)}
    assert len(etags) == 1


def test_a_result_shows_the_figures_that_are_known_and_no_others_SRC_3(
    make: MakeTool, api: APIClient
) -> None:
    make("measured", calls=8, successes=6, average_latency_ms=120.5)
    make("unmeasured", calls=0)
    make("unknown")
    answer = api.get(f"/api/v1/tools/search?query={QUESTION}").json()["results"]
    shown = {
        one["tool"]["tool_id"]: (one["tool"]["average_latency_ms"], one["tool"]["success_rate"])
        for one in answer
    }
    assert shown == {"measured": (120.5, 0.7), "unmeasured": (None, None), "unknown": (None, None)}
    for one in answer:
        assert sum(one["contributions"].values()) == pytest.approx(one["score"], abs=1e-5)
        assert {"similarity", "relevance", "quality", "recency", "semantic_weight"} <= set(one["components"])


def test_the_statistics_come_with_the_candidates_in_one_statement_SRC_3(
    make: MakeTool, asked: Asked, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        make(f"t{number}", calls=1)
    asked(QUESTION)
    with django_assert_max_num_queries(8) as queries:
        asked(QUESTION)
    assert sum("metrics_toolstatistics" in query["sql"] for query in queries.captured_queries) == 1


def test_another_tenants_statistics_count_for_nothing_SRC_3(
    make: MakeTool, asked: Asked, make_tenant: Callable[..., Any]
) -> None:
    tool = make("mine")
    with tenant_context(make_tenant().pk):
        ToolStatistics.objects.create(tool_id=tool.pk, calls=9, quality=0.0, quarantined_until=ago(days=-1))
    [hit] = asked(QUESTION).hits
    assert (hit.components["quality"], hit.tool["success_rate"]) == (0.5, None)


# --- Quarantine -------------------------------------------------------------------------------------------------------
def test_a_quarantined_tool_is_not_served_until_its_time_is_over_QLT_6(
    make: MakeTool, mode: None, asked: Asked
) -> None:
    make("out", quarantined_until=ago(days=-1))
    make("over", quarantined_until=ago(minutes=1))
    make("free")
    for filters in (
        {},
        {"namespace": ("public",)},
        {"names": ("out", "over", "free")},
        {"lifecycle": ("active",)},
    ):
        assert set(found(asked(QUESTION, **filters))) == {"over", "free"}, filters
    tenant = Tool.objects.get(tool_id="free").tenant_id
    assert set(found(asked(QUESTION, rights=reader(tenant, max_sensitivity="internal")))) == {"over", "free"}
    ToolStatistics.objects.update(quarantined_until=None)
    assert "out" in found(asked(QUESTION))


def test_quarantine_takes_no_place_of_another_tool_QLT_6(
    make: MakeTool, mode: None, asked: Asked, settings: Any
) -> None:
    settings.SEARCH_CANDIDATES = 50
    for number in range(120):
        make(f"out_{number}", 0.9 - number / 1000, quarantined_until=ago(days=-1))
    for number in range(5):
        make(f"in_{number}", 0.3)
    assert set(found(asked(QUESTION, top_k=5))) == {f"in_{number}" for number in range(5)}


def test_statistics_are_looked_up_by_indexes_alone_QLT_6_SRC_11(
    committed: Tenant, admin_database: psycopg.Connection[Any]
) -> None:
    fields = [field.column for field in Tool._meta.concrete_fields if not field.generated]
    with tenant_context(committed.pk):
        pattern = create_tool(actor="test", tool_id="t0", name="t0", description="x")
    copied = ", ".join(name for name in fields if name not in {"id", "tool_id"})
    admin_database.execute(
        f"INSERT INTO tools_tool (id, tool_id, {copied}) SELECT gen_random_uuid(), 't' || n, {copied} FROM tools_tool, "
        "generate_series(1, 5000) AS n WHERE id = %s",
        [pattern.pk],
    )
    admin_database.execute(
        "INSERT INTO metrics_toolstatistics (id, tenant_id, tool_id, quarantined_until) SELECT gen_random_uuid(), tenant_id, id, "
        "CASE WHEN tool_id LIKE 't77%' THEN now() + interval '1 day' END FROM tools_tool"
    )
    admin_database.execute("VACUUM ANALYZE tools_tool, metrics_toolstatistics")

    def plan(statement: str) -> str:
        return str(admin_database.execute(f"EXPLAIN {statement}").fetchall())

    found = f"tenant_id = '{committed.pk}' AND quarantined_until > now()"
    assert "tool_statistics_quarantined" in plan(f"SELECT tool_id FROM metrics_toolstatistics WHERE {found}")
    with admin_database.transaction():
        admin_database.execute("SELECT set_config('portal.tenant', %s, true)", [str(committed.pk)])
        row = admin_database.execute("SELECT hidden FROM search_kind_tool('{}', '{}', 0)").fetchone()
        assert row is not None
        hidden = plan(f"SELECT entity.id FROM tools_tool AS entity WHERE {row[0]}")
    assert "tools_tool_hidden" in hidden
    assert "Seq Scan" not in hidden
    with CaptureQueriesContext(connection) as asked:
        ask(committed.pk, QUESTION)
    [statement] = [query["sql"] for query in asked if "metrics_toolstatistics" in query["sql"]]
    with tenant_context(committed.pk), connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}")
        whole = str(cursor.fetchall())
    assert "tool_statistics_once" in whole
    assert "Seq Scan" not in whole


# --- Filters ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def four(make: MakeTool) -> None:
    make("good", calls=18, successes=17, average_latency_ms=100, quality=0.9)  # success rate 0.9
    make("bad", calls=18, successes=7, average_latency_ms=900, quality=0.2)  # 0.4
    make("unjudged", calls=18, successes=13)  # 0.7
    make("unknown")


UNMEASURED = {"unknown"}


@pytest.mark.parametrize(
    ("filters", "known", "by_default"),
    [
        ({"max_average_latency_ms": 100.0}, {"good"}, {"unjudged", "unknown"}),
        ({"max_average_latency_ms": 99.9}, set(), {"unjudged", "unknown"}),
        ({"min_success_rate": 0.7}, {"good", "unjudged"}, {"unknown"}),
        ({"min_quality": 0.9}, {"good"}, {"unjudged", "unknown"}),
        ({"min_quality": 0.2}, {"good", "bad"}, {"unjudged", "unknown"}),
        ({"min_quality": 0.1, "max_average_latency_ms": 500.0}, {"good"}, {"unjudged", "unknown"}),
        ({"min_quality": 0.5, "min_success_rate": 0.8}, {"good"}, {"unknown"}),
        ({}, {"good", "bad", "unjudged"}, {"unknown"}),
    ],
)
def test_a_bound_of_statistics_lets_pass_what_keeps_it_and_what_is_not_known_SRC_2(
    filters: dict[str, float], known: set[str], by_default: set[str], four: None, mode: None, asked: Asked
) -> None:
    assert set(found(asked(QUESTION, **filters))) == known | by_default
    assert set(found(asked(QUESTION, measured=False, **filters))) == known | by_default
    assert set(found(asked(QUESTION, measured=True, **filters))) == known


def test_the_bounds_narrow_the_other_filters_SRC_2(four: None, mode: None, asked: Asked) -> None:
    assert found(asked(QUESTION, min_quality=0.5, names=("bad", "good"))) == ["good"]


def test_the_api_takes_the_bounds_and_refuses_what_is_none_SRC_2(four: None, api: APIClient) -> None:
    def names(**body: Any) -> set[str]:
        answer = api.post("/api/v1/tools/search", {"query": QUESTION, **body}, format="json").json()
        return {one["tool"]["tool_id"] for one in answer["results"]}

    assert names(min_quality=0.5, measured=True) == {"good"}
    assert names(filters={"min_success_rate": 0.8}) == {"good", "unknown"}
    by_get = api.get(f"/api/v1/tools/search?query={QUESTION}&measured=true&max_average_latency_ms=500").json()
    assert [one["tool"]["tool_id"] for one in by_get["results"]] == ["good"]
    assert by_get["metadata"]["filters_applied"] == {"max_average_latency_ms": 500.0, "measured": True}
    for wrong in (
        {"min_quality": 1.1},
        {"min_success_rate": -1},
        {"min_quality": "high"},
        {"measured": "perhaps"},
    ):
        assert_problem(api.post("/api/v1/tools/search", {"query": QUESTION, **wrong}, format="json"), 400)
    for number in ("NaN", "Infinity", "1e999"):
        body = json.dumps({"query": QUESTION, "max_average_latency_ms": 1}).replace(": 1}", f": {number}}}")
        refused = api.post("/api/v1/tools/search", body, content_type="application/json")
        assert refused.status_code == 400, number
        assert api.get(f"/api/v1/tools/search?query=x&min_quality={number}").status_code == 400
