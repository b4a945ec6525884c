"""R4: a text that harms whoever embeds it is parked after its six attempts, and takes nobody along; what nobody can do does
not stand in the way of what can be done."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from tests.support.counts import scaled, share_of_full_count
from tests.support.faults.portal import Portal, alive, calls
from tests.support.waiting import wait_until

ATTEMPTS = 6
QUICK = {
    "EMBEDDING_PROVIDER": "tests.support.embeddings.providers.KillerEmbedder",
    "EMBEDDING_LEASE": "1",
    "EMBEDDING_RETRY_MAX": "0.5",
    "EMBEDDING_MAX_ATTEMPTS": str(ATTEMPTS),
}
WORKERS = 2


def work(portal: Portal, log: Path, texts: list[str], harmful: int) -> tuple[float, int]:
    """Workers are replaced as they die, until all is done; returns when the harmless texts were, and how many died."""
    portal.clear()
    log.unlink(missing_ok=True)
    portal.fill(*texts)
    harmless_took, deaths = 0.0, 0
    with portal.fork_server(**QUICK, TEST_EMBEDDER_LOG=str(log)) as fork_server:
        workers = [fork_server.fork() for _ in range(WORKERS)]
        began = time.monotonic()
        while True:
            statuses = {
                row["status"]: row["n"]
                for row in portal.rows(
                    "SELECT status, count(*) AS n FROM tools_toolembedding GROUP BY status"
                )
            }
            if not harmless_took and statuses.get("ready") == len(texts) - harmful:
                harmless_took = time.monotonic() - began
            if "pending" not in statuses:
                return harmless_took, deaths
            assert time.monotonic() - began < max(120, scaled(120)), statuses
            for place, worker in enumerate(workers):
                if not alive(worker):
                    deaths += 1
                    workers[place] = fork_server.fork()
            time.sleep(0.02)


@share_of_full_count()
def test_nine_harmful_texts_are_parked_after_six_attempts_and_their_neighbours_are_ready_R4(
    portal: Portal, tmp_path: Path, seen: Callable[..., None], share: float
) -> None:
    log = tmp_path / "calls"
    good = [f"Harmless text {number}." for number in range(scaled(600 * share))]
    bad = [f"A {harm} text {number}." for harm in ("deadly", "hungry", "garbled") for number in range(3)]
    alone, _ = work(portal, log, good, 0)
    texts = [*good, *bad]
    random.shuffle(texts)
    beside, deaths = work(portal, log, texts, len(bad))

    assert portal.rows("SELECT count(*) AS n FROM tools_toolembedding WHERE status = 'ready'") == [
        {"n": len(good)}
    ]
    failed = portal.rows(
        "SELECT tool.description, e.source_hash, e.error, task.status, task.attempts FROM tools_toolembedding e "
        "JOIN tools_tool tool ON tool.id = e.entity_id JOIN embeddings_embeddingtask task ON task.entity_id = e.entity_id "
        "WHERE e.status = 'failed'"
    )
    assert sorted(row["description"] for row in failed) == sorted(bad)
    given = calls(log)
    for row in failed:
        if "deadly" in row["description"]:
            assert given.count(row["source_hash"]) == ATTEMPTS
            assert row["error"] == f"The worker ended during each of {ATTEMPTS} attempts."
        else:
            assert "did not return a usable vector" in row["error"]
            assert row["attempts"] == ATTEMPTS
    assert {row["status"] for row in failed} == {"failed"}
    # Two of them may die in one batch, once.
    assert 3 * (ATTEMPTS - 1) < deaths <= 3 * ATTEMPTS
    seen(
        harmless=len(good),
        deaths=deaths,
        seconds_for_the_harmless_alone=f"{alone:.1f}",
        and_beside_nine_harmful=f"{beside:.1f}",
    )


# --- What nobody can do -----------------------------------------------------------------------------------------------


def one_behind_ten_thousand(portal: Portal, seconds: float, **environment: str) -> None:
    """A dead worker's task is due behind 10,000 dead workers' tasks of a type that no process here knows."""
    [pk] = portal.fill("Can be done.")
    portal.owner.execute(
        """
        INSERT INTO embeddings_embeddingtask (id, tenant_id, entity_type, entity_id, model, source_hash, status, priority,
            attempts, last_error, claim_id, next_attempt_at)
        SELECT gen_random_uuid(), tenant_id, 'of a newer version', gen_random_uuid(), model, 'x', 'running', priority,
            1, '', gen_random_uuid(), now() - interval '1 hour'
        FROM embeddings_embeddingtask, generate_series(1, 10000)
        """
    )
    portal.owner.execute(
        "UPDATE embeddings_embeddingtask SET status = 'running', claim_id = gen_random_uuid(), attempts = 1, "
        "next_attempt_at = now() - interval '1 s' WHERE entity_id = %s",
        [pk],
    )
    with portal.fork_server(**environment) as fork_server:
        fork_server.fork()
        wait_until(lambda: portal.statuses() == {"ready"}, seconds=seconds, what="the one is done")


def test_a_dead_workers_task_behind_ten_thousand_that_nobody_can_do_is_done_R4(portal: Portal) -> None:
    one_behind_ten_thousand(portal, 60)


@pytest.mark.slow
def test_the_gate_notices_a_claim_of_tasks_that_nobody_can_do_R4(portal: Portal) -> None:
    with pytest.raises(AssertionError, match="the one is done"):
        one_behind_ten_thousand(portal, 5, TEST_MUTANT="of_any_type")


@pytest.mark.slow
def test_the_reconciler_comes_past_pages_of_what_it_cannot_repair_R4(portal: Portal) -> None:
    tools = sorted(portal.fill(*(f"Text {number}." for number in range(2001))))
    last: UUID = tools[-1]
    portal.owner.execute("UPDATE tools_tool SET active = false WHERE id <> %s", [last])
    portal.owner.execute("TRUNCATE embeddings_embeddingtask")
    with portal.fork_server() as fork_server:
        fork_server.fork()  # a worker begins with a reconciliation
        wait_until(
            lambda: portal.rows("SELECT FROM tools_toolembedding WHERE entity_id = %s AND status = 'ready'", last),
            seconds=60, what="the last one is repaired",
        )  # fmt: skip
    assert portal.rows("SELECT count(*) AS n FROM tools_toolembedding WHERE status = 'pending'") == [
        {"n": 2000}
    ]
