"""The report of searches (SRC-9): its figures are those of a plain count in Python, for the command, the API and one tenant alone."""

from __future__ import annotations

import io
import json
import random
import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from metrics.search_log import write
from metrics.search_report import search_report
from metrics.selections import select
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.api import assert_problem
from tests.support.clients import make_api
from tests.support.searches import entry


@pytest.fixture
def searches(tenant: Tenant, make_tenant: Callable[..., Tenant]) -> list[tuple[Any, int | None]]:
    """Sixty searches of the last days, each with the rank of its selection; beside older ones and another tenant's."""
    draw = random.Random(9)
    made: list[tuple[Any, int | None]] = []
    for number in range(60):
        similarity = None if number % 10 == 0 else draw.uniform(0.1, 0.9)
        one = entry(
            tenant.pk, query=f"question {number % 7}", results=[uuid.uuid4() for _ in range(number % 6)], took_ms=draw.uniform(5, 50),
            timings={"embed": draw.uniform(1, 5)}, best_similarity=similarity, mode="keyword" if similarity is None else "hybrid",
            degraded=["embedding_unavailable"] if similarity is None else [], reranked=number % 4 == 0,
            asked_at=time.monotonic() - number * 3600,
        )  # fmt: skip
        write([one])
        rank = draw.randrange(len(one.results)) + 1 if one.results and number % 2 else None
        if rank:
            select(UUID(one.search_id), one.results[rank - 1])
        made.append((one, rank))
    write([entry(tenant.pk, query="too old", best_similarity=0.1, asked_at=time.monotonic() - 8 * 86_400)])
    other = make_tenant()
    write([entry(other.pk, query="of another tenant", best_similarity=0.1)])
    return made


def test_the_figures_are_those_of_a_plain_count_SRC_9(searches: list[tuple[Any, int | None]]) -> None:
    report = search_report()
    entries, ranks = [one for one, _ in searches], [rank for _, rank in searches if rank]
    assert (report.days, report.searches, report.selections) == (7, 60, len(ranks))
    assert report.acceptance_rate == round(len(ranks) / 60, 4)
    assert report.mean_reciprocal_rank == round(statistics.mean(1 / rank for rank in ranks), 4)
    assert report.reranked_share == 0.25
    assert (report.keyword_only_share, report.degraded_share) == (0.1, 0.1)
    assert report.without_results == 10
    weak = [one for one in entries if one.best_similarity is not None and one.best_similarity < 0.35]
    assert report.without_good_answer == len(weak)
    assert sum(one.times for one in report.questions) == len(weak)
    for question in report.questions:
        same = [one.best_similarity for one in weak if one.query == question.query]
        assert (question.times, question.best_similarity) == (len(same), max(same))
    times = [one.times for one in report.questions]
    assert times == sorted(times, reverse=True)
    took = statistics.quantiles([one.took_ms for one in entries], n=100, method="inclusive")
    assert report.latency_ms["total"] == pytest.approx(
        {"p50": took[49], "p95": took[94], "p99": took[98]}, abs=0.01
    )
    assert set(report.latency_ms) == {"total", "embed"}


def test_the_window_is_as_long_as_it_is_asked_for_SRC_9(searches: list[Any]) -> None:
    assert search_report(days=1).searches == 24
    assert search_report(days=30).searches == 61


def test_without_searches_there_is_nothing_to_divide_by_SRC_9(tenant: Tenant) -> None:
    report = search_report()
    assert (report.searches, report.acceptance_rate, report.mean_reciprocal_rank) == (0, None, None)
    assert (report.latency_ms, report.questions) == ({}, ())


def test_the_command_shows_the_same_as_text_and_json_SRC_9(committed: Tenant) -> None:
    def run(*options: str) -> str:
        call_command("search_report", "--tenant", committed.slug, *options, stdout=(said := io.StringIO()))
        return said.getvalue()

    assert "No search was logged" in run()
    write([entry(committed.pk, query="who is it", best_similarity=0.2)])
    with tenant_context(committed.pk):
        expected = search_report(days=3).as_dict()
    assert json.loads(run("--json", "--days", "3")) == json.loads(json.dumps(expected, default=_as_django))
    text = run()
    assert "1 searches" not in text
    assert "1 search in the last 7 days, 0 with a selection" in text
    assert "1 times" not in text
    assert "who is it" in text
    with pytest.raises(CommandError):
        run("--days", "0")


def _as_django(value: Any) -> str:
    shown: str = value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return shown


def test_the_api_shows_it_to_operators_who_see_every_tool_SRC_9(
    api: APIClient, tenant: Tenant, searches: list[Any]
) -> None:
    answer = api.get("/api/v1/searches/report?days=1").json()
    assert (answer["searches"], answer["days"]) == (24, 1)
    assert set(answer) == set(search_report().as_dict())
    assert_problem(api.get("/api/v1/searches/report?days=0"), 400, "validation_error")
    assert_problem(api.get("/api/v1/searches/report?since=1"), 400)
    assert_problem(make_api(tenant, "search:read", "tools:read").get("/api/v1/searches/report"), 403)
    assert_problem(make_api(tenant, max_sensitivity="internal").get("/api/v1/searches/report"), 403)
