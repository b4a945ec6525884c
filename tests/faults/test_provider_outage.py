"""R5: while the provider is down nothing is spent, and hardly anybody asks it; when it is back, work goes on. Thirty seconds
between two tries are three here, and half an hour of outage is fifteen seconds; in the quick suite one second and four."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.faults.portal import Portal
from tests.support.servers.embedding_server import EmbeddingServer, embedding_server
from tests.support.waiting import wait_until

WORKERS = 4
TOOLS = 400


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


@contextmanager
def workers(portal: Portal, server: EmbeddingServer, **environment: str) -> Iterator[None]:
    provider = {"EMBEDDING_PROVIDER": "openai-compatible", "EMBEDDING_URL": server.url("openai-compatible")}
    settings = {**provider, **environment}
    with portal.fork_server(**settings) as fork_server:
        for _ in range(WORKERS):
            fork_server.fork()
        yield


def attempts(portal: Portal) -> dict[tuple[str, int], int]:
    """How many tasks there are of each status and number of attempts."""
    rows = portal.rows("SELECT status, attempts, count(*) AS n FROM embeddings_embeddingtask GROUP BY 1, 2")
    return {(row["status"], row["attempts"]): row["n"] for row in rows}


def outage(
    portal: Portal, server: EmbeddingServer, pause: float, seconds: float, **environment: str
) -> tuple[int, float]:
    """The provider is down for so many seconds, with so long a pause between two tries; returns how often it was asked once
    that was known, and the seconds that passed."""
    with workers(portal, server, EMBEDDING_CIRCUIT_SECONDS=str(pause), **environment):
        server.fault = "503"
        portal.fill(*(f"Text {number}." for number in range(TOOLS)))
        wait_until(
            lambda: portal.rows("SELECT FROM embeddings_embeddingcircuit WHERE next_try IS NOT NULL"),
            seconds=30, what="the circuit is open",
        )  # fmt: skip
        time.sleep(1)  # whoever was calling has heard
        known, began = len(server.times), time.monotonic()
        time.sleep(seconds)
        asked, took = len(server.times) - known, time.monotonic() - began
        # A try that is under way this moment gives its claim back.
        wait_until(lambda: attempts(portal) == {("pending", 0): TOOLS}, seconds=5, what="no attempt is spent")
        assert portal.statuses() == {"pending"}
        assert 1 <= asked <= took / pause + 1
        server.fault = ""
        wait_until(portal.settled, seconds=60, what="every tool is ready")
    return asked, took


def rate_of(server: EmbeddingServer) -> float:
    """Texts a second of the last TOOLS texts."""
    sizes = [(at, len(body["input"])) for at, (_, _, body) in zip(server.times, server.asked, strict=True)]
    wanted, texts = TOOLS, 0
    last = sizes[-1][0]
    for at, size in reversed(sizes):
        texts += size
        if texts >= wanted:
            return texts / (last - at)
    raise AssertionError("fewer texts than tools")


@pytest.mark.parametrize(
    ("pause", "seconds"),
    [pytest.param(1, 4, id="short"), pytest.param(3, 15, id="full", marks=pytest.mark.slow)],
)
def test_an_outage_costs_no_attempt_and_one_try_a_pause_over_all_processes_R5(
    portal: Portal, server: EmbeddingServer, seen: Callable[..., None], pause: float, seconds: float
) -> None:
    with workers(portal, server):
        portal.fill(*(f"Text {number}." for number in range(TOOLS)))
        wait_until(portal.settled, seconds=60, what="every tool is ready")
    usual = rate_of(server)
    portal.clear()
    asked, took = outage(portal, server, pause, seconds)
    after = rate_of(server)
    seen(
        tries=asked,
        in_seconds=f"{took:.0f}",
        pause=pause,
        texts_a_second_before=f"{usual:.0f}",
        texts_a_second_after=f"{after:.0f}",
    )


@pytest.mark.slow
def test_the_gate_notices_processes_that_try_each_for_itself_R5(
    portal: Portal, server: EmbeddingServer
) -> None:
    with pytest.raises(AssertionError):
        outage(portal, server, 3, 15, TEST_MUTANT="everybody_tries")


@pytest.mark.slow
def test_nobody_asks_before_the_provider_said_to_R5(
    portal: Portal, server: EmbeddingServer, seen: Callable[..., None]
) -> None:
    server.fault, server.retry_after = "429", "5"
    with workers(portal, server, EMBEDDING_CIRCUIT_SECONDS="1"):
        portal.fill(*(f"Text {number}." for number in range(TOOLS)))
        wait_until(lambda: server.times, seconds=30, what="the provider is asked")
        time.sleep(2)  # whoever was calling has heard
        told = server.times[-1]
        known = len(server.times)
        server.fault = ""
        wait_until(portal.settled, seconds=60, what="every tool is ready")
    waited = server.times[known] - told
    assert waited > 4
    seen(retry_after=5, asked_again_after_seconds=f"{waited:.1f}")
