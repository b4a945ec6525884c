"""R9: a backfill of 10,000 tools, of which its runner and two workers are killed at twenty random points, ends as one of
which nobody is killed; and a second one finds nothing to do."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from embeddings.text import source_hash
from portal.jobs import services as jobs
from portal.jobs.models import Job
from portal.tenancy.context import tenant_context
from tests.support.counts import scaled, share_of_full_count
from tests.support.database import login
from tests.support.embeddings.providers import hash_vector
from tests.support.faults.portal import ForkServer, Portal, alive, batched, calls
from tests.support.waiting import wait_until
from tools.catalogue import embedding_text
from tools.catalogue.embedding_jobs import BACKFILL
from tools.models import Tool

TOOLS, KILLS, BATCH = 10_000, 20, 32
COMMANDS = ("job_worker", "embed_worker", "embed_worker")
# A kill that finds a row claimed costs it an attempt, and here nothing but kills happens.
SETTINGS = {
    "EMBEDDING_BATCH_SIZE": str(BATCH),
    "EMBEDDING_MAX_ATTEMPTS": "100",
    "JOB_LOST_SECONDS": "2",
    "JOB_POLL": "0.2",
}


@contextmanager
def as_web(portal: Portal) -> Iterator[None]:
    with login("DATABASE_URL", url=portal.servers.urls["DATABASE_URL"]), tenant_context(portal.tenant_id):
        yield


def the_job(portal: Portal, pk: UUID) -> Job:
    """The job as it is now; a lost one is resumed, as an operator would."""
    with as_web(portal):
        job = jobs.find(pk)
        return jobs.resume(pk) if job.effective_state == "lost" else job


def start(portal: Portal) -> UUID:
    with as_web(portal):
        return UUID(str(jobs.start(BACKFILL, {}, by="the test").pk))


def over(portal: Portal, pk: UUID) -> Job | None:
    job = the_job(portal, pk)
    return None if job.is_active else job


def waiting(portal: Portal) -> int:
    [row] = portal.rows("SELECT count(*) AS n FROM embeddings_embeddingtask WHERE status <> 'failed'")
    return int(row["n"])


def ready(portal: Portal) -> int:
    [row] = portal.rows("SELECT count(*) AS n FROM tools_toolembedding WHERE status = 'ready'")
    return int(row["n"])


def kill_at(
    points: list[int], portal: Portal, fork_server: ForkServer, processes: list[int], job: UUID
) -> None:
    """Kills one of the processes each time that so many tools are ready; the job is resumed when it is lost."""
    for point in points:
        wait_until(
            lambda point=point: the_job(portal, job) and ready(portal) >= point,
            seconds=120, what=f"{point} tools are ready",
        )  # fmt: skip
        victim = random.randrange(len(processes))
        os.kill(processes[victim], signal.SIGKILL)
        processes[victim] = fork_server.fork(COMMANDS[victim])


def check_every_vector(portal: Portal) -> None:
    """What an unkilled run leaves is known: of each tool the vector that the provider has for its text."""
    with as_web(portal):
        texts = {
            tool.pk: embedding_text.source_text(tool) for tool in Tool.objects.select_related("endpoint")
        }
    for some in batched(list(texts), 2000):
        rows = portal.rows(
            "SELECT entity_id, status, source_hash, vector_hash, vector::text AS vector FROM tools_toolembedding "
            "WHERE entity_id = ANY(%s)",
            list(some),
        )
        assert len(rows) == len(some)
        for row in rows:
            text = texts[row["entity_id"]]
            assert (row["status"], row["source_hash"], row["vector_hash"]) == (
                "ready", source_hash(text), source_hash(text),
            )  # fmt: skip
        given = np.array([row["vector"].strip("[]").split(",") for row in rows], dtype=np.float32)
        wanted = np.stack([hash_vector(texts[row["entity_id"]]) for row in rows])
        np.testing.assert_allclose(given, wanted, atol=1e-6)
    assert waiting(portal) == 0


def written(portal: Portal) -> list[dict[str, Any]]:
    """Changes with every write of a row, whatever it writes."""
    return portal.rows(
        "SELECT 'embeddings' AS what, count(*), md5(string_agg(xmin::text || ctid::text, ',' ORDER BY id)) FROM tools_toolembedding "
        "UNION ALL SELECT 'tasks', count(*), md5(string_agg(xmin::text || ctid::text, ',' ORDER BY id)) FROM embeddings_embeddingtask "
        "ORDER BY what"
    )


def most_memory(pid: int) -> int:
    """The most megabytes that the process has had."""
    [line] = [
        line
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        if "VmHWM" in line
    ]
    return int(line.split()[1]) // 1024


@share_of_full_count(pytest.mark.alone)
def test_a_backfill_killed_at_twenty_points_ends_as_if_never_killed_and_a_second_one_writes_nothing_R9(
    portal: Portal, tmp_path: Path, seen: Callable[..., None], share: float
) -> None:
    log = tmp_path / "calls"
    tools = portal.fill(*(f"Text {number}." for number in range(scaled(TOOLS * share))), enqueue=False)
    kills = max(4, int(KILLS * share))
    # Half of them before the edit, and half of them after it.
    before_it, after_it = range(len(tools) * 4 // 10), range(len(tools) * 5 // 10, len(tools) * 9 // 10)
    points = [sorted(random.sample(instants, kills // 2)) for instants in (before_it, after_it)]
    with portal.fork_server(**SETTINGS, TEST_EMBEDDER_LOG=str(log)) as fork_server:
        began = time.monotonic()
        job = start(portal)
        processes = [fork_server.fork(command) for command in COMMANDS]
        kill_at(points[0], portal, fork_server, processes, job)

        # An edit comes before all that the backfill has queued: its worker stores no more than what it holds, and a batch.
        wait_until(
            lambda: the_job(portal, job) and waiting(portal) > 500 * share,
            seconds=60,
            what="the backfill has queued a lot",
        )
        edited = time.monotonic()
        portal.edit(tools[-1], "Edited meanwhile.", 1)
        [saved] = portal.rows("SELECT clock_timestamp() AS at")
        wait_until(
            lambda: portal.rows(
                "SELECT FROM tools_toolembedding WHERE entity_id = %s AND status = 'ready'", tools[-1]
            ),
            seconds=30, what="the edit is ready",
        )  # fmt: skip
        edited = time.monotonic() - edited
        [overtook] = portal.rows(
            "SELECT count(*) AS n FROM tools_toolembedding AS other, tools_toolembedding AS own "
            "WHERE own.entity_id = %s AND other.embedded_at BETWEEN %s AND own.embedded_at",
            tools[-1], saved["at"],
        )  # fmt: skip
        assert overtook["n"] <= 2 * BATCH * COMMANDS.count("embed_worker")
        if share == 1:
            assert edited <= 5
            # A tenth may have ended by now.
            assert waiting(portal) > 0
            assert the_job(portal, job).is_active

        kill_at(points[1], portal, fork_server, processes, job)
        ended = wait_until(lambda: over(portal, job), seconds=max(180, scaled(180)), what="the job is over")
        took = time.monotonic() - began
        assert (ended.effective_state, ended.total, ended.failed) == ("succeeded", len(tools), 0)
        assert ended.done + ended.skipped == len(tools)
        # What the reconciler of a worker that came back had enqueued before is skipped by the job, and may be under way still.
        wait_until(lambda: waiting(portal) == 0, seconds=60, what="the queue is empty")
        check_every_vector(portal)
        given = calls(log)

        before = written(portal)
        again = start(portal)
        second = wait_until(
            lambda: over(portal, again), seconds=max(120, scaled(120)), what="the second job is over"
        )
        assert (second.effective_state, second.done, second.skipped) == ("succeeded", 0, len(tools))
        assert written(portal) == before
        assert calls(log) == given
        assert all(alive(pid) for pid in processes)
        memory = [most_memory(pid) for pid in processes]
    assert max(memory) <= 200
    seen(
        tools=len(tools),
        kills=kills,
        seconds=f"{took:.0f}",
        given_twice=f"{len(given) / len(set(given)) - 1:.1%}",
        edit_ready_after_seconds=f"{edited:.1f}",
        stored_before_the_edit=overtook["n"],
        runner_and_workers_most_mb=memory,
    )
