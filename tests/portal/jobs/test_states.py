"""The state machine of a job: every change is allowed from exactly the states that models.py draws, and the claim is a fence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError

from portal.jobs import services
from portal.jobs.context import Context
from portal.jobs.errors import LostClaim, WrongState
from portal.jobs.models import Job, JobState
from tests.support.database import login
from tests.support.embeddings.mutants import mutant
from tests.support.embeddings.pipeline import Pipeline
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import CLAIMED, put
from tests.support.waiting import wait_until
from tools.catalogue.embedding_jobs import BACKFILL

# What each verb makes of each state; where nothing stands here, it must change nothing.
VERBS: dict[str, tuple[Callable[[Job], object], dict[str, str]]] = {
    "claim": (lambda job: Job.objects.claim(kinds=[BACKFILL], pk=job.pk), {"queued": "running"}),
    "heartbeat": (
        lambda job: Job.objects.record_progress(job, {}),
        {"running": "running", "cancelling": "cancelling"},
    ),
    "record_progress": (
        lambda job: Job.objects.record_progress(job, {"done": 7}),
        {"running": "running", "cancelling": "cancelling"},
    ),
    "finish": (
        lambda job: Job.objects.finish(job, JobState.SUCCEEDED),
        {"running": "succeeded", "cancelling": "cancelled"},
    ),
    "release": (Job.objects.release, {"running": "queued", "cancelling": "cancelling"}),
    "cancel": (
        lambda job: Job.objects.cancel(job.pk),
        {"queued": "cancelling", "running": "cancelling", "lost": "cancelling"},
    ),
    "resume": (
        lambda job: Job.objects.resume(job.pk, concurrency_key=None),
        {"cancelled": "queued", "lost": "queued", "failed": "queued"},
    ),
    "retry": (lambda job: Job.objects.retry_failed(job.pk, concurrency_key=None), {"partial": "queued"}),
    "take_up_lost": (lambda _: Job.objects.take_up_lost(), {}),
    "give_way": (
        lambda job: Job.objects.give_way(job, seconds=5),
        {"running": "queued", "cancelling": "cancelling"},
    ),
}


def row(harness: JobHarness, job: Job) -> dict[str, Any]:
    [found] = harness.pipeline.all("SELECT xmin::text AS written, * FROM jobs_job WHERE id = %s", job.pk)
    return found


@pytest.mark.parametrize("state", JobState.values)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_changes_a_job_from_the_states_that_allow_it_and_from_no_other(
    harness: JobHarness, verb: str, state: str
) -> None:
    change, allowed = VERBS[verb]
    job = put(harness, state)
    before = row(harness, job)
    with harness.in_tenant():
        said = bool(change(job))
    after = row(harness, job)
    assert after["state"] == allowed.get(state, state)
    assert said == (state in allowed)
    if state not in allowed:
        assert after == before
    assert (after["claim_id"] is not None) == (after["state"] == "running") or after["state"] == "cancelling"


@pytest.mark.parametrize(
    ("resumes", "expected"),
    [
        pytest.param(0, {"running": "queued", "cancelling": "cancelling"}, id="the first time"),
        pytest.param(3, {"running": "lost", "cancelling": "lost"}, id="after three"),
    ],
)
@pytest.mark.parametrize("state", JobState.values)
def test_without_a_heartbeat_a_job_is_resumed_by_itself_three_times_and_then_it_is_lost_D18(
    harness: JobHarness, state: str, resumes: int, expected: dict[str, str]
) -> None:
    job = put(harness, state, heartbeat_at="2020-01-01", resumes=resumes)
    after = expected.get(state, state)
    assert harness.state(job.pk) == after  # at once, by the rule
    assert row(harness, job)["state"] == state
    with login("DATABASE_WORKER_URL"):
        # And for good, by the sweep, in every tenant.
        assert Job.all_tenants.take_up_lost() == (state in CLAIMED)
    stored = row(harness, job)
    assert (stored["state"], stored["claim_id"]) == (after, None)
    assert stored["resumes"] == resumes + (state in CLAIMED and after != "lost")
    said = [line.text for line in harness.find(job.pk).log_lines]
    assert len(said) == (state in CLAIMED)
    if after == "lost" and state in CLAIMED:
        assert said == [
            "The worker stopped reporting. The job has been resumed 3 times already. It waits until somebody resumes it."
        ]


def test_a_person_who_resumes_a_lost_job_lets_it_be_resumed_by_itself_again_D18(harness: JobHarness) -> None:
    job = put(harness, "lost", resumes=3)
    harness.do(services.resume, job.pk)
    assert row(harness, job)["resumes"] == 0


def test_a_cancelled_job_whose_runner_died_is_ended_by_the_next_one_D18(harness: JobHarness) -> None:
    job = put(harness, "cancelling", heartbeat_at="2020-01-01")
    with login("DATABASE_WORKER_URL"):
        assert Job.all_tenants.take_up_lost() == 1
    harness.run()
    assert harness.state(job.pk) == "cancelled"


def test_a_job_that_gives_way_still_runs_for_people_until_nobody_comes_for_it(
    harness: JobHarness, settings: Any
) -> None:
    job = put(harness, "running", attempts=2, claimed_at="2026-01-01", done_before=4)
    with harness.in_tenant():
        assert Job.objects.give_way(job, seconds=30)
    assert (harness.state(job.pk), row(harness, job)["state"], row(harness, job)["attempts"]) == (
        "running",
        "queued",
        1,
    )
    assert harness.claim() is None  # before its time
    harness.pipeline.owner.execute(
        "UPDATE jobs_job SET due_at = now(), heartbeat_at = now() - interval '1 hour'"
    )
    assert harness.state(job.pk) == "queued"
    claimed = harness.claim()
    assert (claimed.claimed_at, claimed.done_before) == (job.claimed_at, 4)  # the same run goes on


def test_a_job_that_nobody_has_begun_is_cancelled_at_once(harness: JobHarness) -> None:
    pk = harness.start()
    assert harness.do(services.cancel, pk).effective_state == "cancelled"
    assert harness.claim() is None


def test_a_cancelled_job_without_a_runner_is_ended_by_the_next_one(harness: JobHarness) -> None:
    job = put(harness, "queued")
    assert harness.do(services.cancel, job.pk).effective_state == "cancelling"
    harness.run()
    assert harness.state(job.pk) == "cancelled"


def test_a_second_cancel_is_no_error_and_one_of_a_job_that_is_over_says_so(harness: JobHarness) -> None:
    job = put(harness, "running")
    for _ in range(2):
        assert harness.do(services.cancel, job.pk).effective_state == "cancelling"
    over = put(harness, "succeeded")
    for verb in (services.cancel, services.resume, services.retry_failed):
        with pytest.raises(WrongState, match=r"succeeded|over"):
            harness.do(verb, over.pk)


def test_no_runner_claims_what_another_one_has(harness: JobHarness) -> None:
    harness.start()
    assert harness.claim() is not None
    assert harness.claim() is None


# --- The fence (RELIABILITY rule 3) -----------------------------------------------------------------------------------
def a_stale_runner_writes_a_batch(harness: JobHarness, pipeline: Pipeline) -> None:
    """It was silent for too long, the job was resumed, and another runner has it: nothing of its batch may stay."""
    pk = harness.start()
    old = harness.claim()
    harness.silence_runners()
    harness.do(services.resume, pk)
    new = harness.claim()
    before = row(harness, new)
    tool = pipeline.add("Not touched by the batch.")
    with harness.in_tenant():
        context = Context(old, threading.Event())
    with pytest.raises(LostClaim), harness.in_tenant():
        pipeline.refresh(tool)
        context.batch(done=99, cursor={"after": "far"})
    assert row(harness, new) == before
    assert [task["attempts"] for task in pipeline.tasks()] == [0]


def a_stale_runner_ends_the_job(harness: JobHarness, _: Pipeline) -> None:
    pk = harness.start()
    old = harness.claim()
    harness.silence_runners()
    harness.do(services.resume, pk)
    new = harness.claim()
    before = row(harness, new)
    with harness.in_tenant():
        for change in (
            lambda: Job.objects.finish(old, JobState.SUCCEEDED),
            lambda: Job.objects.release(old),
            lambda: Job.objects.heartbeat(old),
        ):
            assert not change()
    assert row(harness, new) == before


def a_stale_runner_asks_whether_to_go_on(harness: JobHarness, _: Pipeline) -> None:
    pk = harness.start()
    old = harness.claim()
    harness.silence_runners()
    harness.do(services.resume, pk)
    harness.claim()
    with pytest.raises(LostClaim):
        Context(old, threading.Event()).stopping()


SCENARIOS = [a_stale_runner_writes_a_batch, a_stale_runner_ends_the_job, a_stale_runner_asks_whether_to_go_on]
# The statements without the fence: whatever claim is given, it fits.
NO_FENCE = ('"jobs_job"."claim_id" = %s', "%s::uuid IS NOT NULL")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_a_runner_that_lost_its_job_changes_nothing(
    harness: JobHarness, pipeline: Pipeline, scenario: Callable[[JobHarness, Pipeline], None]
) -> None:
    scenario(harness, pipeline)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_each_of_these_notices_when_the_fence_is_gone(
    harness: JobHarness, pipeline: Pipeline, scenario: Callable[[JobHarness, Pipeline], None]
) -> None:
    with mutant(*NO_FENCE), pytest.raises((AssertionError, DatabaseError, pytest.fail.Exception)):
        scenario(harness, pipeline)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs_job SET state = 'running', claim_id = NULL",
        "UPDATE jobs_job SET state = 'succeeded', claim_id = gen_random_uuid()",
        "UPDATE jobs_job SET state = 'asleep'",
    ],
)
def test_the_database_refuses_a_state_that_there_is_not(harness: JobHarness, statement: str) -> None:
    harness.start()
    with pytest.raises(Exception, match="violates check constraint"):
        harness.pipeline.owner.execute(statement)


def test_the_progress_of_one_transaction_is_shown_from_a_thread_without_a_tenant(harness: JobHarness) -> None:
    harness.start()
    shown: list[str] = []
    with login("DATABASE_WORKER_URL"):
        job = Job.all_tenants.claim(kinds=[BACKFILL])
        assert job is not None
        context = Context(job, threading.Event(), lambda context: shown.append(str(context.progress)))
        with context.reporting() as report:
            report(3)
            wait_until(lambda: shown)
    assert shown[0].startswith("3 of 0")
