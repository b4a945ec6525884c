"""R3: what a dead worker held is done by another once its lease ends; what a live one holds is left alone, however long its
call; and one that sleeps past its lease comes too late. Sixty seconds of lease are a few here."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.faults.portal import Portal, alive, calls, frozen
from tests.support.waiting import wait_until

BATCH = 32
SLOW = {"EMBEDDING_PROVIDER": "tests.support.embeddings.providers.SlowEmbedder"}


def running(portal: Portal) -> int:
    [row] = portal.rows("SELECT count(*) AS n FROM embeddings_embeddingtask WHERE status = 'running'")
    return int(row["n"])


def a_worker_dies_with_a_batch(portal: Portal, log: Path, lease: float) -> float:
    """One worker is killed with 32 claimed rows in hand, and another finishes; returns the seconds from death to end."""
    environment = {"EMBEDDING_LEASE": str(lease), "TEST_EMBEDDER_LOG": str(log)}
    tools = portal.fill(*(f"Text {number}." for number in range(BATCH + 8)))
    with portal.fork_server(**environment, **SLOW, TEST_EMBEDDER_SECONDS="60") as slow:
        victim = slow.fork()
        wait_until(lambda: len(calls(log)) == BATCH, seconds=20, what="a batch is in its hands")
        with portal.fork_server(**environment) as quick:
            survivor = quick.fork()
            wait_until(lambda: running(portal) == BATCH, seconds=20, what="the rest is done")
            os.kill(victim, signal.SIGKILL)
            died = time.monotonic()
            wait_until(portal.settled, seconds=lease + 15, what="every tool is ready")
            took = time.monotonic() - died
            assert alive(survivor)
    # The dead worker's calls are the only ones that were made again.
    given = calls(log)
    assert sorted(given) == sorted([*set(given), *given[:BATCH]])
    assert len(set(given)) == len(tools)
    return took


@pytest.mark.parametrize(
    "lease", [pytest.param(2, id="short"), pytest.param(6, id="full", marks=pytest.mark.slow)]
)
def test_a_dead_workers_batch_is_done_by_another_after_its_lease_R3(
    portal: Portal, tmp_path: Path, seen: Callable[..., None], lease: float
) -> None:
    took = a_worker_dies_with_a_batch(portal, tmp_path / "calls", lease)
    seen(lease=lease, seconds_from_death_to_all_done=f"{took:.1f}")


@pytest.mark.slow
def test_the_gate_notices_a_lease_that_does_not_end_R3(portal: Portal, tmp_path: Path) -> None:
    def lease_of_an_hour() -> None:
        # The wait of a dead worker's work is for the lease that the test believes in.
        portal.owner.execute(
            "CREATE FUNCTION an_hour() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF NEW.status = 'running' THEN NEW.next_attempt_at = now() + interval '1 hour'; END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER an_hour BEFORE UPDATE ON embeddings_embeddingtask FOR EACH ROW EXECUTE FUNCTION an_hour()"
        )

    lease_of_an_hour()
    try:
        with pytest.raises(AssertionError, match="every tool is ready"):
            a_worker_dies_with_a_batch(portal, tmp_path / "calls", lease=1)
    finally:
        portal.owner.execute("DROP FUNCTION an_hour CASCADE")


def a_call_of_three_leases(portal: Portal, log: Path, **environment: str) -> None:
    tools = portal.fill(*(f"Text {number}." for number in range(BATCH)))
    slow = {**SLOW, "TEST_EMBEDDER_SECONDS": "4.5", "EMBEDDING_LEASE": "1.5", "TEST_EMBEDDER_LOG": str(log)}
    with portal.fork_server(**slow, **environment) as fork_server:
        fork_server.fork()
        fork_server.fork()
        wait_until(
            lambda: portal.settled() or len(calls(log)) > len(tools), seconds=30, what="every tool is ready"
        )
    assert len(calls(log)) == len(tools)


def test_a_live_call_of_three_leases_is_never_taken_over_R3(portal: Portal, tmp_path: Path) -> None:
    a_call_of_three_leases(portal, tmp_path / "calls")


@pytest.mark.slow
def test_the_gate_notices_a_worker_without_heartbeat_R3(portal: Portal, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        a_call_of_three_leases(portal, tmp_path / "calls", TEST_MUTANT="no_heartbeat")


def test_a_worker_frozen_past_its_lease_comes_too_late_R3(portal: Portal) -> None:
    tools = portal.add("One.", *(f"Text {number}." for number in range(7)))
    environment = {**SLOW, "TEST_EMBEDDER_SECONDS": "1", "EMBEDDING_LEASE": "1.5"}
    with portal.fork_server(**environment) as fork_server:
        first = fork_server.fork()
        wait_until(lambda: running(portal) == len(tools), seconds=20, what="the first worker has claimed")
        with frozen(first):
            portal.edit(tools[0], "Two.", 1)
            fork_server.fork()
            wait_until(portal.settled, seconds=45, what="the second worker has done all")
            before = portal.rows("SELECT xmin::text, * FROM tools_toolembedding ORDER BY entity_id")
        time.sleep(3)  # it ends its call, and speaks
        assert portal.rows("SELECT xmin::text, * FROM tools_toolembedding ORDER BY entity_id") == before
        assert alive(first)
    portal.check_nothing_lost_nor_stale({tools[0]: "Two."})
