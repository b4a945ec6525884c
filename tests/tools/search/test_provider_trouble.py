"""SRC-5, R11: a search waits 0.8 s for its question's vector at most, and for a provider in trouble once in 30 s."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings

from embeddings import providers
from portal.resilience import circuit_breaker
from portal.tenancy.models import Tenant
from portal.tenancy.rights import Rights
from tests.support.servers.embedding_server import EmbeddingServer, embedding_server
from tools.search.query import SearchAnswer, SearchQuery
from tools.search.question import remembered
from tools.search.service import search

Ask = Callable[[], SearchAnswer]


@pytest.fixture
def server(settings: Any) -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        settings.EMBEDDING_PROVIDER, settings.EMBEDDING_URL = "local-http", running.address
        settings.EMBEDDING_TIMEOUT, settings.EMBEDDING_CIRCUIT_SECONDS = 30, 30
        providers._provider.cache_clear()
        remembered.clear()
        yield running
    providers._provider.cache_clear()
    remembered.clear()


@pytest.fixture
def ask(committed: Tenant) -> Ask:
    number = 0

    def one() -> SearchAnswer:
        nonlocal number
        number += 1  # each question is new, so that no vector of it is remembered
        return search(Rights.unrestricted(committed.pk, "test"), SearchQuery(f"pay invoice {number}"))

    return one


def slow(answers: list[SearchAnswer]) -> int:
    return sum(answer.timings["embed"] >= 1000 * django_settings.EMBEDDING_QUERY_SLOW for answer in answers)


@pytest.mark.parametrize("fault", ["hangs", "1 of 3 hangs", "drip"])
def test_a_provider_that_hangs_costs_one_slow_search_in_30_seconds_R11(
    server: EmbeddingServer, ask: Ask, admin_database: psycopg.Connection[Any], fault: str
) -> None:
    server.fault = fault
    began = time.monotonic()
    answers = [ask() for _ in range(20)]
    assert time.monotonic() - began < 25  # a guard: without the budget one search would take 20 s or more
    assert (slow(answers), len(server.asked)) == (1, 1)
    assert {(answer.mode, answer.degraded) for answer in answers} == {("keyword", ("embedding_unavailable",))}
    [trouble] = circuit_breaker.open_circuits()
    assert trouble.purpose == "query"
    # Thirty seconds later one search tries, whatever the others do; what it finds counts for all.
    admin_database.execute("UPDATE embeddings_embeddingcircuit SET next_try = now()")
    server.fault = ""
    assert [ask().degraded for _ in range(3)] == [()] * 3
    assert circuit_breaker.open_circuits() == []


@pytest.mark.parametrize("fault", ["wrong count", "NaN", "zero vector", "HTML", "500"])
def test_a_provider_that_answers_rubbish_is_left_alone_after_five_searches_R11(
    server: EmbeddingServer, ask: Ask, settings: Any, fault: str
) -> None:
    server.fault = fault
    answers = [ask() for _ in range(12)]
    assert len(server.asked) == settings.EMBEDDING_CIRCUIT_ERRORS == 5
    assert {answer.mode for answer in answers} == {"keyword"}


def test_the_workers_circuit_is_another_one_R11(server: EmbeddingServer, ask: Ask) -> None:
    server.fault = "500"
    for _ in range(5):
        ask()
    assert circuit_breaker.seconds_until_trial("passage") == {}


def test_the_warm_up_of_a_web_process_does_not_wait_for_a_provider_that_hangs_R11(
    server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    import gc

    from portal.gunicorn import post_worker_init

    server.fault = "hangs"
    began = time.monotonic()
    post_worker_init(None)
    gc.unfreeze()
    assert time.monotonic() - began < 10  # the server answers after 20 s
    assert "starts without its embedding model" in caplog.text
