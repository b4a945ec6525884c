"""EMB-5, R5: one circuit of each provider for all processes, in the database."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from embeddings.providers import ProviderError
from portal.resilience import circuit_breaker
from tests.support.database import login
from tests.support.embeddings.mutants import mutant
from tests.support.embeddings.pipeline import Pipeline
from tests.support.processes import ROOT, process_environment
from tests.support.servers.embedding_server import EmbeddingServer, embedding_server

DOWN = ProviderError("nobody answers", provider_wide=True)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


def fail(times: int, error: ProviderError = DOWN) -> bool:
    with login("DATABASE_WORKER_URL"):
        return [circuit_breaker.record_failure("model-1", "passage", error) for _ in range(times)][-1]


def left() -> float | None:
    with login("DATABASE_WORKER_URL"):
        return circuit_breaker.seconds_until_trial("passage").get("model-1")


def open_it_and_try(pipeline: Pipeline) -> None:
    assert not fail(4)
    assert circuit_breaker.open_circuits() == []
    assert fail(1)
    with login("DATABASE_WORKER_URL"):
        assert not circuit_breaker.acquire_trial("model-1", "passage")
        pipeline.provider_is_tried_again()
        assert [circuit_breaker.acquire_trial("model-1", "passage") for _ in range(3)] == [True, False, False]
        # A failed try leaves it open without five more errors.
        assert circuit_breaker.record_failure("model-1", "passage", DOWN)
    [trouble] = circuit_breaker.open_circuits()
    assert (trouble.name, trouble.purpose, trouble.reason) == ("model-1", "passage", DOWN.public)
    assert trouble.since < trouble.next_try


def test_it_opens_at_the_fifth_error_and_one_caller_takes_each_try_EMB_5_R5(
    pipeline: Pipeline, settings: Any
) -> None:
    settings.EMBEDDING_CIRCUIT_SECONDS = 30
    open_it_and_try(pipeline)


@pytest.mark.parametrize(
    "bug",
    [
        (" AND next_try <= now()", ""),  # everybody tries
        ("c.errors + 1 >= %(limit)s", "c.errors + 1 >= %(limit)s - 1"),
        # A failed try is no fifth error.
        ("OR c.next_try IS NOT NULL OR c.errors + 1 >= %(limit)s", "OR c.errors + 1 = %(limit)s"),
    ],
    ids=["everybody tries", "opens too early", "a failed try closes"],
)
def test_that_scenario_notices_a_circuit_without_its_rules_R5(
    pipeline: Pipeline, settings: Any, bug: tuple[str, str]
) -> None:
    settings.EMBEDDING_CIRCUIT_SECONDS = 30
    with mutant(*bug), pytest.raises(AssertionError):
        open_it_and_try(pipeline)


def test_a_success_in_between_forgets_the_errors_EMB_5(pipeline: Pipeline) -> None:
    fail(4)
    with login("DATABASE_WORKER_URL"):
        circuit_breaker.record_success("model-1", "passage")
    assert not fail(4)


@pytest.mark.parametrize(
    ("error", "pause"),
    [
        (ProviderError("busy", provider_wide=True, retry_after=7), 7),
        (ProviderError("wrong key", provider_wide=True, lasting=True), 30),
    ],
)
def test_a_retry_after_or_a_refusal_opens_it_at_once_and_is_kept_to_a_second_EMB_5_R5(
    pipeline: Pipeline, settings: Any, error: ProviderError, pause: float
) -> None:
    settings.EMBEDDING_CIRCUIT_SECONDS = 30
    assert fail(1, error)
    assert left() == pytest.approx(pause, abs=1)


def test_a_late_error_does_not_shorten_what_the_provider_asked_for_R5(
    pipeline: Pipeline, settings: Any
) -> None:
    settings.EMBEDDING_CIRCUIT_SECONDS = 30
    fail(1, ProviderError("busy", provider_wide=True, retry_after=300))
    fail(1)  # a call that was under way
    assert left() == pytest.approx(300, abs=2)


def test_a_try_comes_before_any_task_and_its_success_lets_all_go_on_EMB_5(
    pipeline: Pipeline, embedder: Any
) -> None:
    pk = pipeline.add("Waits.")
    fail(5)
    assert pipeline.work().claimed == 0
    pipeline.provider_is_tried_again()
    pipeline.work()
    pipeline.check_ready(pk)
    assert [len(embedder.calls), circuit_breaker.open_circuits()] == [2, []]


@contextmanager
def workers(count: int, server: EmbeddingServer, **settings: str) -> Iterator[None]:
    """Real processes of the product, killed at the end."""
    environment = process_environment(
        {
            "EMBEDDING_PROVIDER": "local-http", "EMBEDDING_URL": server.address, "EMBEDDING_MODEL": "model-1",
            "EMBEDDING_POLL": "0.2", "EMBEDDING_BATCH_SIZE": "4", "EMBEDDING_RETRY_BASE": "0.2", **settings,
        }
    )  # fmt: skip
    command = [sys.executable, "manage.py", "embed_worker"]
    running = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait(10)


def wait_until(condition: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def asked_at(server: EmbeddingServer) -> list[float]:
    """When the server was asked; the list grows while workers run."""
    times: list[float] = []
    append = server.asked.append

    class Noted(list[Any]):
        def append(self, item: Any) -> None:
            times.append(time.monotonic())
            append(item)

    server.asked = Noted()
    return times


def test_two_workers_try_a_provider_that_is_down_once_in_a_pause_and_all_is_ready_after_it_R5(
    pipeline: Pipeline, server: EmbeddingServer
) -> None:
    pks = [pipeline.add(f"Text {number}.") for number in range(40)]
    server.fault = "503"
    times = asked_at(server)
    pause = 2.0
    with workers(2, server, EMBEDDING_CIRCUIT_SECONDS=str(pause)):
        wait_until(lambda: pipeline.circuit() is not None)
        time.sleep(0.5)  # what was under way when it opened
        opened = len(times)
        assert 5 <= opened <= 6
        time.sleep(3 * pause)
        tries = times[opened:]
        assert len(tries) >= 2
        # Without the shared circuit each worker would try for itself, within the same pause.
        assert all(later - earlier > pause * 0.9 for earlier, later in pairwise(tries))
        assert {(task["status"], task["attempts"]) for task in pipeline.tasks()} == {("pending", 0)}
        server.fault = ""
        wait_until(lambda: not pipeline.tasks())
    for pk in pks:
        pipeline.check_ready(pk)
    assert circuit_breaker.open_circuits() == []


def test_a_retry_after_is_kept_by_both_workers_R5(pipeline: Pipeline, server: EmbeddingServer) -> None:
    pipeline.add("Asked for.")
    server.fault, server.retry_after = "429", "4"
    times = asked_at(server)
    with workers(2, server, EMBEDDING_POLL="30"):
        wait_until(lambda: pipeline.circuit() is not None)
        server.fault = ""
        wait_until(lambda: not pipeline.tasks())
    # Their poll comes much later: they wake for the try.
    assert 4 - 1 <= times[1] - times[0] <= 4 + 10


@pytest.mark.slow  # longer than two processes take to start
def test_a_retry_after_outlives_a_restart_R5(pipeline: Pipeline, server: EmbeddingServer) -> None:
    pipeline.add("Asked for.")
    server.fault, server.retry_after = "429", "20"
    times = asked_at(server)
    with workers(1, server):
        wait_until(lambda: pipeline.circuit() is not None)
    server.fault = ""
    with workers(2, server):
        wait_until(lambda: not pipeline.tasks())
    assert times[1] - times[0] >= 20 - 1
