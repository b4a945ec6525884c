"""R9, R18: real processes that are killed, stopped and asked to end, and what the portal says of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from portal.jobs import heartbeats, loop, services
from tests.support.database import login
from tests.support.embeddings.pipeline import Pipeline
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import ready_tools
from tests.support.waiting import wait_until

RUNNER = ("manage.py", "job_worker")
EMBEDDER = ("manage.py", "embed_worker")
Start = Callable[..., Any]


@pytest.mark.parametrize(
    "kills",
    [pytest.param((6,), id="once"), pytest.param((6, 12, 24), id="three times", marks=pytest.mark.slow)],
)
def test_killed_and_resumed_elsewhere_by_itself_it_ends_as_if_never_killed_EMB_8_R9_D18(
    harness: JobHarness, pipeline: Pipeline, processes: Start, settings: Any, kills: tuple[int, ...]
) -> None:
    """SIGKILL at points of the queueing; that it waits again is seen by the rule alone, as nobody sweeps."""
    settings.JOB_LOST_SECONDS = 3
    pks = ready_tools(pipeline, 30)
    harness.make("failed", *pks[:12])
    harness.make("disabled", *pks[12:24])
    pk = harness.start(batch_size=2, rate=20)
    for queued in kills:
        runner = processes(*RUNNER)
        wait_until(
            lambda queued=queued: harness.find(pk).cursor.get("queued", 0) >= queued, f"{queued} are queued"
        )
        runner.kill()
        runner.wait()
        assert harness.state(pk) == "running"  # nobody can know yet
        wait_until(lambda: harness.state(pk) == "queued", "it waits for another runner")
        job = harness.find(pk)
        assert not job.can_resume
        assert harness.tagged() == job.cursor["waiting"] == job.cursor["queued"]
    processes(*RUNNER)
    assert harness.work_until_over(pk) == "succeeded"
    assert harness.counts(pk) == (30, 24, 0, 6)
    for one in pks:
        pipeline.check_ready(one)


def test_a_runner_that_was_frozen_until_its_job_went_elsewhere_writes_nothing_more_R3(
    harness: JobHarness, pipeline: Pipeline, processes: Start, settings: Any
) -> None:
    settings.JOB_LOST_SECONDS = 3
    harness.make("failed", *ready_tools(pipeline, 12))
    pk = harness.start(batch_size=1, rate=10)
    frozen = processes(*RUNNER)
    wait_until(lambda: harness.find(pk).cursor.get("queued", 0) >= 2, "it is under way")
    frozen.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: harness.state(pk) == "queued", "it waits for another runner")
        harness.do(services.resume, pk)
        assert harness.finish(pk) == "succeeded"
        before = harness.find(pk)
    finally:
        frozen.send_signal(signal.SIGCONT)
    frozen.send_signal(signal.SIGTERM)
    frozen.wait(20)
    after = harness.find(pk)
    assert (after.state, after.finished_at, after.cursor) == (before.state, before.finished_at, before.cursor)
    assert harness.counts(pk) == (12, 12, 0, 0)


def test_told_to_end_it_gives_the_job_back_and_exits_well_R18(
    harness: JobHarness, pipeline: Pipeline, processes: Start
) -> None:
    harness.make("failed", *ready_tools(pipeline, 20))
    pk = harness.start(batch_size=1, rate=10)
    runner = processes(*RUNNER)
    wait_until(lambda: harness.find(pk).cursor.get("queued", 0) >= 2, "it is under way")
    runner.terminate()
    assert runner.wait(20) == 0
    job = harness.find(pk)
    assert (job.effective_state, job.claim_id) == ("queued", None)
    assert job.cursor["queued"] >= 2
    processes(*RUNNER)
    assert harness.work_until_over(pk) == "succeeded"
    assert harness.counts(pk) == (20, 20, 0, 0)


def test_told_to_end_in_a_batch_that_does_not_it_undoes_the_batch_and_gives_the_job_back_R18(
    harness: JobHarness, pipeline: Pipeline, processes: Start
) -> None:
    """The batch waits for a row that somebody holds; its process cannot, so the fence is drawn under it."""
    [pk] = ready_tools(pipeline, 1)
    harness.make("disabled", pk)
    with psycopg.connect(pipeline.owner.info.dsn, password=pipeline.owner.info.password) as other:
        other.execute("LOCK TABLE embeddings_embeddingtask IN ACCESS EXCLUSIVE MODE")
        job = harness.start()
        runner = processes(*RUNNER)
        wait_until(lambda: harness.state(job) == "running", "it is under way")
        runner.terminate()
        assert runner.wait(20) == 0
        assert harness.state(job) == "queued"
    assert pipeline.tasks() == []
    assert harness.finish(job) == "succeeded"


def test_a_live_process_of_a_queue_is_known_until_it_ends_or_dies_R20(
    harness: JobHarness, processes: Start, settings: Any
) -> None:
    settings.JOB_LOST_SECONDS = 3
    assert heartbeats.live_workers() == {}
    runner, embedder = processes(*RUNNER), processes(*EMBEDDER)
    wait_until(lambda: heartbeats.live_workers() == {"jobs": 1, "embeddings": 1}, "both are seen")
    runner.terminate()
    assert runner.wait(20) == 0
    assert heartbeats.live_workers() == {"embeddings": 1}  # at once
    embedder.kill()
    wait_until(lambda: heartbeats.live_workers() == {}, "the killed one is missed")
    with login("DATABASE_WORKER_URL"), connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_workerheartbeat SET at = now() - interval '2 days'")
        assert heartbeats.prune_heartbeats() == 1


def test_the_loop_of_a_worker_leaves_the_processor_to_requests_and_its_heartbeats_do_not_R9(
    harness: JobHarness, processes: Start
) -> None:
    runner = processes(*RUNNER)
    wait_until(lambda: heartbeats.live_workers() == {"jobs": 1}, "it is seen")

    threads = [int(one.name) for one in Path("/proc", str(runner.pid), "task").iterdir()]
    assert {os.getpriority(os.PRIO_PROCESS, one) for one in threads} == {0, loop.NICENESS}


def test_the_web_cannot_say_that_a_worker_lives(harness: JobHarness) -> None:
    with pytest.raises(Exception, match="permission denied"), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_workerheartbeat (id, queue, host, pid) VALUES (gen_random_uuid(), 'jobs', 'h', 1)"
        )


@pytest.mark.parametrize("broker", ["there", "down"])
def test_the_celery_worker_of_the_default_queue_runs_jobs_with_and_without_its_broker_R6(
    harness: JobHarness, pipeline: Pipeline, processes: Start, broker: str
) -> None:
    from portal.processes import PROCESSES

    [process] = [one for one in PROCESSES if one.name == "worker"]
    environment = {"PORTAL_DB_ROLE": process.role, "PYTHONPATH": "."}
    if broker == "down":
        environment["REDIS_URL"] = "redis://127.0.0.1:9/0"
    worker = processes(*process.command[1:], **environment)
    wait_until(lambda: heartbeats.live_workers().get("jobs"), "it says that it lives")
    pk = harness.start()
    wait_until(lambda: harness.state(pk) == "succeeded", "the job is run")
    worker.terminate()
    if broker == "there":
        assert worker.wait(20) == 0


def test_a_notification_ends_the_pause_of_a_runner_R8(harness: JobHarness, processes: Start) -> None:
    """Its poll is a minute, so that only a notification can be it."""
    from portal.processes import PROCESSES

    [process] = [one for one in PROCESSES if one.name == "worker"]
    processes(
        *process.command[1:],
        PORTAL_DB_ROLE=process.role,
        PYTHONPATH=".",
        JOB_POLL="60",
        JOB_LOST_SECONDS="60",
    )
    wait_until(lambda: heartbeats.live_workers().get("jobs"), "it says that it lives")
    pk = harness.start()
    job = wait_until(
        lambda: (found := harness.find(pk)).effective_state == "succeeded" and found, "the job is run"
    )
    assert (job.started_at - job.created_at).total_seconds() < 55
