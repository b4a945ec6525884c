"""EMB-4, R1 to R4: real workers that are stopped, frozen, killed at any moment, or killed by what they embed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from tests.conftest import scaled
from tests.faults.conftest import Portal, frozen, wait_until


@contextmanager
def nursery(portal: Portal, **env: str) -> Iterator[subprocess.Popen[str]]:
    with portal.process(
        "tests/faults/nursery.py",
        role="worker",
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def born(process: subprocess.Popen[str]) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_nothing_is_lost_nor_stale_while_workers_are_killed_every_half_second_R1(portal: Portal) -> None:
    versions: dict[UUID, int] = dict.fromkeys(
        portal.add(*(f"First text {number}." for number in range(60))), 1
    )
    acknowledged: dict[UUID, str] = {}
    tools = list(versions)
    kills = 0
    stop = threading.Event()
    # A kill that finds a row claimed costs it an attempt, and here nothing but kills happens.
    with nursery(portal, EMBEDDING_MAX_ATTEMPTS="100", EMBEDDING_BATCH_SIZE="8") as mother:
        workers = [born(mother), born(mother)]

        def kill() -> None:
            nonlocal kills
            while not stop.wait(0.5):
                victim = random.randrange(len(workers))
                os.kill(workers[victim], signal.SIGKILL)
                kills += 1
                workers[victim] = born(mother)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            begun, edits = time.monotonic(), scaled(500)
            for number in range(edits):
                pk = random.choice(tools)
                text = f"Text {number} of {pk}."
                versions[pk] = portal.edit(pk, text, versions[pk])
                acknowledged[pk] = text
                # Spread over enough time for a good number of deaths.
                time.sleep(max(0.0, begun + (number + 1) * 0.025 - time.monotonic()))
        finally:
            stop.set()
            killer.join()
        portal.wait_until_all_ready(30)
    assert kills >= edits * 0.025 / 0.5 * 0.8
    portal.check_nothing_lost_nor_stale(acknowledged)


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


def test_a_text_that_kills_its_workers_is_parked_after_its_attempts_and_takes_no_other_along_R4(
    portal: Portal, tmp_path: Path
) -> None:
    log = tmp_path / "calls"
    good = portal.add(*(f"Harmless text {number}." for number in range(20)))
    [deadly] = portal.add("A deadly text.")
    deaths = 0
    with nursery(
        portal, EMBEDDING_PROVIDER="tests.providers.KillerEmbedder", EMBEDDING_MAX_ATTEMPTS="3", EMBEDDING_LEASE="0.4",
        TEST_EMBEDDER_LOG=str(log),
    ) as mother:  # fmt: skip
        worker = born(mother)
        deadline = time.monotonic() + 30
        while portal.statuses() != {"ready", "failed"}:
            assert time.monotonic() < deadline
            if not alive(worker):
                deaths += 1
                worker = born(mother)
            time.sleep(0.02)
    assert deaths == 3
    [row] = portal.rows("SELECT status, error FROM tools_toolembedding WHERE entity_id = %s", deadly)
    assert (row["status"], row["error"]) == ("failed", "The worker ended during each of 3 attempts.")
    [hash_] = portal.rows("SELECT source_hash FROM tools_toolembedding WHERE entity_id = %s", deadly)
    assert log.read_text().split().count(hash_["source_hash"]) == 3
    assert len(portal.rows("SELECT 1 FROM tools_toolembedding WHERE status = 'ready'")) == len(good)


def test_a_call_three_times_as_long_as_the_lease_is_made_once_R3(portal: Portal, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    portal.add("One.", "Two.", "Three.")
    slow = {
        "EMBEDDING_PROVIDER": "tests.providers.SlowEmbedder", "TEST_EMBEDDER_SECONDS": "3", "EMBEDDING_LEASE": "1",
        "TEST_EMBEDDER_LOG": str(log),
    }  # fmt: skip
    with nursery(portal, **slow) as mother:
        born(mother)
        born(mother)
        portal.wait_until_all_ready(20)
    assert len(log.read_text().split()) == 3


def test_a_frozen_worker_loses_its_claim_and_its_late_write_is_refused_R3(portal: Portal) -> None:
    [pk] = portal.add("One.")
    slow = {
        "EMBEDDING_PROVIDER": "tests.providers.SlowEmbedder",
        "TEST_EMBEDDER_SECONDS": "0.5",
        "EMBEDDING_LEASE": "1",
    }
    with nursery(portal, **slow) as mother:
        first = born(mother)
        wait_until(
            lambda: portal.rows("SELECT 1 FROM embeddings_embeddingtask WHERE status = 'running'"),
            seconds=10, what="the first worker has claimed",
        )  # fmt: skip
        with frozen(first):
            portal.edit(pk, "Two.", 1)
            born(mother)
            portal.wait_until_all_ready(15)
            [before] = portal.rows("SELECT xmin::text, * FROM tools_toolembedding")
        time.sleep(1.0)
        assert portal.rows("SELECT xmin::text, * FROM tools_toolembedding") == [before]
        assert alive(first)
    portal.check_nothing_lost_nor_stale({pk: "Two."})


def stop_during_a_call(portal: Portal, log: Path, call_seconds: str) -> None:
    """SIGTERM to `embed_worker` while its provider works; it ends with 0, and soon."""
    portal.add("One.")
    slow = {
        "EMBEDDING_PROVIDER": "tests.providers.SlowEmbedder", "TEST_EMBEDDER_SECONDS": call_seconds,
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


def test_workers_go_on_after_the_database_restarted_R1(portal: Portal) -> None:
    with portal.embed_worker():
        [pk] = portal.add("Before.")
        portal.wait_until_all_ready(20)
        portal.owner.close()
        portal.servers.postgres.restart("immediate")
        portal.reconnect()
        portal.edit(pk, "After.", 1)
        portal.wait_until_all_ready(20)
    portal.check_nothing_lost_nor_stale({pk: "After."})
