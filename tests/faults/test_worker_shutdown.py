"""EMB-4, R2: real workers that are not there, or are told to end; killed, frozen and harmed ones have files of their own."""

from __future__ import annotations

from pathlib import Path

from tests.support.faults.portal import Portal
from tests.support.waiting import wait_until


def test_with_no_worker_saves_and_search_answer_and_all_is_ready_once_one_comes_EMB_4(portal: Portal) -> None:
    [pk] = portal.add("Before anything.")
    version = portal.edit(pk, "Writes quixotic letters.", 1)
    assert portal.search("quixotic letters") == [str(pk)]
    assert portal.statuses() == {"pending"}
    with portal.embed_worker():
        portal.wait_until_all_ready(20)
    portal.edit(pk, "Writes sober letters.", version)
    with portal.embed_worker():
        portal.wait_until_all_ready(20)
    portal.check_nothing_lost_nor_stale({pk: "Writes sober letters."})


def stop_during_a_call(portal: Portal, log: Path, call_seconds: str) -> None:
    """SIGTERM to `embed_worker` while its provider works; it ends with 0, and soon."""
    portal.add("One.")
    slow = {
        "EMBEDDING_PROVIDER": "tests.support.embeddings.providers.SlowEmbedder", "TEST_EMBEDDER_SECONDS": call_seconds,
        "TEST_EMBEDDER_LOG": str(log), "EMBEDDING_LEASE": "60",
    }  # fmt: skip
    with portal.embed_worker(**slow) as worker:
        wait_until(log.exists, seconds=20, what="the call has begun")
        worker.terminate()
        assert worker.wait(5) == 0


def test_a_worker_told_to_end_finishes_a_short_call_EMB_4(portal: Portal, tmp_path: Path) -> None:
    stop_during_a_call(portal, tmp_path / "calls", "0.2")
    assert portal.statuses() == {"ready"}


def test_a_worker_told_to_end_during_a_long_call_gives_its_claim_back_uncounted_R2(
    portal: Portal, tmp_path: Path
) -> None:
    stop_during_a_call(portal, tmp_path / "calls", "10")
    [task] = portal.rows("SELECT status, attempts, claim_id FROM embeddings_embeddingtask")
    assert (task["status"], task["attempts"], task["claim_id"]) == ("pending", 0, None)
