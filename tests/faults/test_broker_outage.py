"""R6, case 46: the broker is not on the way of a save, nor of its embedding. It only makes it quick."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from uuid import UUID

import pytest
import redis

from portal.tenancy.context import tenant_context
from tests.support.counts import scaled, share_of_full_count
from tests.support.embeddings.pipeline import Pipeline
from tests.support.faults.portal import Portal, frozen
from tests.support.waiting import wait_until
from tools.catalogue.tools import create_tool

SAVES, TOOLS, HITS = 200, 50, 10
Outage = Callable[[Portal], AbstractContextManager[Any]]


def broker(portal: Portal) -> redis.Redis:
    return redis.Redis.from_url(portal.servers.urls["REDIS_URL"], socket_timeout=5)


@contextmanager
def killed(portal: Portal) -> Iterator[None]:
    portal.servers.valkey.stop()
    try:
        yield
    finally:
        portal.servers.valkey.start()


@contextmanager
def stopped(portal: Portal) -> Iterator[None]:
    with frozen(portal.servers.pids["valkey"]):
        yield


@contextmanager
def full(portal: Portal) -> Iterator[None]:
    """Whatever would take memory is refused."""
    with broker(portal) as client:
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                client.lpush("anything", "more")
            yield
        finally:
            client.config_set("maxmemory", 0)


@contextmanager
def closed_to_us(portal: Portal) -> Iterator[None]:
    """Its password is another one, also for those who are connected."""
    password = portal.servers.valkey.password
    with broker(portal) as client:
        client.config_set("requirepass", "another one")
        client.client_kill_filter(_type="normal", skipme=True)
        try:
            with broker(portal) as late, pytest.raises(redis.exceptions.AuthenticationError):
                late.ping()
            yield
        finally:
            client.config_set("requirepass", password)


def save_all(portal: Portal, versions: dict[UUID, int], saves: int) -> tuple[dict[UUID, str], list[float]]:
    """Saves through the API; each is answered with 200 and within R6's second and a half (`Portal.edit`)."""
    texts: dict[UUID, str] = {}
    took = []
    while len(took) < saves:
        for pk in list(versions):
            texts[pk] = f"Text {time.monotonic_ns()} without a broker."
            began = time.monotonic()
            versions[pk] = portal.edit(pk, texts[pk], versions[pk])
            took.append(time.monotonic() - began)
    return texts, sorted(took)


def percentile(values: list[float], of: float) -> float:
    return values[min(len(values) - 1, int(len(values) * of))]


@share_of_full_count()
def test_a_broker_that_is_killed_frozen_full_or_closed_costs_no_save_and_no_embedding_R6(
    portal: Portal, seen: Callable[..., None], share: float
) -> None:
    outages: list[Outage] = [lambda portal: nullcontext(), killed, stopped, full, closed_to_us]
    versions = dict.fromkeys(
        portal.fill(*(f"First text {number}." for number in range(max(2 * HITS, int(TOOLS * share))))), 1
    )
    with portal.celery(EMBEDDING_POLL="3"):
        portal.wait_until_all_ready(60)
        for outage in outages:
            with outage(portal):
                texts, took = save_all(portal, versions, scaled(SAVES * share))
                assert len(portal.search("text without a broker")) == HITS
                wait_until(portal.settled, seconds=30, what="every tool is ready")
            portal.check_nothing_lost_nor_stale(texts)
            lags = sorted(
                row["lag"]
                for row in portal.rows(
                    "SELECT extract(epoch FROM e.embedded_at - t.updated_at)::float AS lag "
                    "FROM tools_tool t JOIN tools_toolembedding e ON e.entity_id = t.id"
                )
            )
            assert percentile(lags, 0.95) <= 15
            seen(
                broker=getattr(outage, "__name__", "").replace("<lambda>", "healthy"),
                saves=len(took),
                p50_ms=f"{percentile(took, 0.5) * 1000:.0f}",
                p99_ms=f"{percentile(took, 0.99) * 1000:.0f}",
                most_ms=f"{took[-1] * 1000:.0f}",
                lag_p95_seconds=f"{percentile(lags, 0.95):.1f}",
            )


def test_a_write_that_rolls_back_sends_no_notification_and_leaves_no_row_R6(
    pipeline: Pipeline, settings: Any
) -> None:
    class RolledBack(Exception):
        pass

    with redis.Redis.from_url(settings.CELERY_BROKER_URL) as client:
        sent = client.llen("embeddings")
        with pytest.raises(RolledBack), tenant_context(pipeline.tenant_id):
            create_tool(actor="test", tool_id="gone", name="gone", description="Gone.")
            raise RolledBack
        time.sleep(1)  # it is sent by a thread of its own
        assert client.llen("embeddings") == sent
        for table in ("tools_tool", "tools_toolembedding", "embeddings_embeddingtask"):
            assert pipeline.all(f"SELECT 1 FROM {table}") == []
        # The same write notifies when it is committed, so that the silence above means something.
        pipeline.add("Stays.")
        wait_until(lambda: client.llen("embeddings") > sent, seconds=10, what="the notification is sent")


def test_a_worker_that_starts_while_the_broker_is_down_works_R6(portal: Portal) -> None:
    portal.add("Waits.")
    with killed(portal), portal.celery():
        portal.wait_until_all_ready(30)


def test_a_notification_wakes_a_worker_whose_poll_is_a_minute_away_R8(portal: Portal) -> None:
    [pk] = portal.add("First.")
    with portal.celery(EMBEDDING_POLL="60"):
        portal.wait_until_all_ready(30)
        time.sleep(1)  # now it waits for its next poll
        version, waits = 1, []
        for number in range(5):
            begun = time.monotonic()
            version = portal.edit(pk, f"Text {number}.", version)
            portal.wait_until_all_ready(10)
            waits.append(time.monotonic() - begun)
        assert sorted(waits)[2] < 0.5, waits


@pytest.mark.slow
def test_without_the_broker_that_worker_sleeps_on_and_wakes_again_once_it_is_back_R8(portal: Portal) -> None:
    [pk] = portal.add("First.")
    with portal.celery(EMBEDDING_POLL="60"):
        portal.wait_until_all_ready(30)
        time.sleep(1)  # now it waits for its next poll
        version = 1
        with killed(portal):  # the mutant: notifications reach nobody
            version = portal.edit(pk, "Nobody hears of this.", version)
            time.sleep(2)
            assert portal.statuses() == {"pending"}

        # The broker is back, and so are notifications, once the worker has found it again.
        for number in range(40):
            version = portal.edit(pk, f"Heard again {number}.", version)
            time.sleep(0.5)
            if portal.statuses() == {"ready"}:
                break
        portal.wait_until_all_ready(5)


@pytest.mark.alone  # its end takes 1.3 to 2.3 s, beside other tests up to 4
def test_a_celery_worker_told_to_end_gives_its_claim_back_uncounted_R2(portal: Portal) -> None:
    portal.add("One.")
    slow = {
        "EMBEDDING_PROVIDER": "tests.support.embeddings.providers.SlowEmbedder",
        "TEST_EMBEDDER_SECONDS": "20",
    }
    with portal.celery(**slow) as worker:
        deadline = time.monotonic() + 30
        while not portal.rows("SELECT 1 FROM embeddings_embeddingtask WHERE status = 'running'"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        told = time.monotonic()
        worker.terminate()
        worker.wait(10)
        assert time.monotonic() - told < 3
    [task] = portal.rows("SELECT status, attempts FROM embeddings_embeddingtask")
    assert (task["status"], task["attempts"]) == ("pending", 0)
