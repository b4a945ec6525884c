"""The state machine of a job: every change is allowed from exactly the states that models.py draws, and the claim is a fence."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError

from portal.jobs import services
from portal.jobs.context import Context
from portal.jobs.errors import LostClaim, WrongState
from portal.jobs.models import Job, JobState
from tests.embeddings.pipeline import Pipeline, login, mutant
from tests.jobs.desk import Desk
from tools.catalogue.embedding_jobs import BACKFILL

HELD = {"running", "cancelling"}

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
        lambda job: Job.objects.resume(job.pk, scope=None),
        {"cancelled": "queued", "lost": "queued", "failed": "queued"},
    ),
    "retry": (lambda job: Job.objects.retry_failed(job.pk, scope=None), {"partial": "queued"}),
    "mark_lost": (lambda _: Job.objects.mark_lost(), {}),
}


def put(desk: Desk, state: str, **columns: Any) -> Job:
    """A begun job in this state, with a failure in it."""
    pk = desk.start()
    values = {"started_at": "now", "heartbeat_at": "now", "failed": 1, "scope": None, **columns}
    claim = uuid.uuid4() if state in HELD else None
    desk.pipeline.owner.execute(
        f"UPDATE jobs_job SET state = %s, claim_id = %s, {', '.join(f'{name} = %s' for name in values)} WHERE id = %s",
        [state, claim, *values.values(), pk],
    )
    return desk.find(pk)


def row(desk: Desk, job: Job) -> dict[str, Any]:
    [found] = desk.pipeline.all("SELECT xmin::text AS written, * FROM jobs_job WHERE id = %s", job.pk)
    return found


@pytest.mark.parametrize("state", JobState.values)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_changes_a_job_from_the_states_that_allow_it_and_from_no_other(
    desk: Desk, verb: str, state: str
) -> None:
    change, allowed = VERBS[verb]
    job = put(desk, state)
    before = row(desk, job)
    with desk.in_tenant():
        said = bool(change(job))
    after = row(desk, job)
    assert after["state"] == allowed.get(state, state)
    assert said == (state in allowed)
    if state not in allowed:
        assert after == before
    assert (after["claim_id"] is not None) == (after["state"] == "running") or after["state"] == "cancelling"


@pytest.mark.parametrize("state", JobState.values)
def test_a_job_is_lost_without_a_heartbeat_and_only_while_somebody_should_have_it(
    desk: Desk, state: str
) -> None:
    job = put(desk, state, heartbeat_at="2020-01-01")
    expected = "lost" if state in HELD else state
    assert desk.state(job.pk) == expected  # at once, by the rule
    assert row(desk, job)["state"] == state
    with login("DATABASE_WORKER_URL"):
        assert Job.all_tenants.mark_lost() == (state in HELD)  # and for good, by the sweep, in every tenant
    assert (row(desk, job)["state"], row(desk, job)["claim_id"]) == (expected, None)


def test_a_job_that_nobody_has_begun_is_cancelled_at_once(desk: Desk) -> None:
    pk = desk.start()
    assert desk.do(services.cancel, pk).shown_state == "cancelled"
    assert desk.claim() is None


def test_a_cancelled_job_without_a_runner_is_ended_by_the_next_one(desk: Desk) -> None:
    job = put(desk, "queued")
    assert desk.do(services.cancel, job.pk).shown_state == "cancelling"
    desk.run()
    assert desk.state(job.pk) == "cancelled"


def test_a_second_cancel_is_no_error_and_one_of_a_job_that_is_over_says_so(desk: Desk) -> None:
    job = put(desk, "running")
    for _ in range(2):
        assert desk.do(services.cancel, job.pk).shown_state == "cancelling"
    over = put(desk, "succeeded")
    for verb in (services.cancel, services.resume, services.retry_failed):
        with pytest.raises(WrongState, match=r"succeeded|over"):
            desk.do(verb, over.pk)


def test_no_runner_claims_what_another_one_has(desk: Desk) -> None:
    desk.start()
    assert desk.claim() is not None
    assert desk.claim() is None


# --- The fence (RELIABILITY rule 3) -----------------------------------------------------------------------------------
def a_stale_runner_writes_a_batch(desk: Desk, pipeline: Pipeline) -> None:
    """It was silent for too long, the job was resumed, and another runner has it: nothing of its batch may stay."""
    pk = desk.start()
    old = desk.claim()
    desk.silence_runners()
    desk.do(services.resume, pk)
    new = desk.claim()
    before = row(desk, new)
    tool = pipeline.add("Not touched by the batch.")
    with desk.in_tenant():
        context = Context(old, threading.Event())
    with pytest.raises(LostClaim), desk.in_tenant():
        pipeline.refresh(tool)
        context.batch(done=99, cursor={"after": "far"})
    assert row(desk, new) == before
    assert [task["attempts"] for task in pipeline.tasks()] == [0]


def a_stale_runner_ends_the_job(desk: Desk, _: Pipeline) -> None:
    pk = desk.start()
    old = desk.claim()
    desk.silence_runners()
    desk.do(services.resume, pk)
    new = desk.claim()
    before = row(desk, new)
    with desk.in_tenant():
        for change in (
            lambda: Job.objects.finish(old, JobState.SUCCEEDED),
            lambda: Job.objects.release(old),
            lambda: Job.objects.heartbeat(old),
        ):
            assert not change()
    assert row(desk, new) == before


def a_stale_runner_asks_whether_to_go_on(desk: Desk, _: Pipeline) -> None:
    pk = desk.start()
    old = desk.claim()
    desk.silence_runners()
    desk.do(services.resume, pk)
    desk.claim()
    with pytest.raises(LostClaim):
        Context(old, threading.Event()).stopping()


SCENARIOS = [a_stale_runner_writes_a_batch, a_stale_runner_ends_the_job, a_stale_runner_asks_whether_to_go_on]
# The statements without the fence: whatever claim is given, it fits.
NO_FENCE = ('"jobs_job"."claim_id" = %s', "%s::uuid IS NOT NULL")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_a_runner_that_lost_its_job_changes_nothing(
    desk: Desk, pipeline: Pipeline, scenario: Callable[[Desk, Pipeline], None]
) -> None:
    scenario(desk, pipeline)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_each_of_these_notices_when_the_fence_is_gone(
    desk: Desk, pipeline: Pipeline, scenario: Callable[[Desk, Pipeline], None]
) -> None:
    with mutant(*NO_FENCE), pytest.raises((AssertionError, DatabaseError, pytest.fail.Exception)):
        scenario(desk, pipeline)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs_job SET state = 'running', claim_id = NULL",
        "UPDATE jobs_job SET state = 'succeeded', claim_id = gen_random_uuid()",
        "UPDATE jobs_job SET state = 'asleep'",
    ],
)
def test_the_database_refuses_a_state_that_there_is_not(desk: Desk, statement: str) -> None:
    desk.start()
    with pytest.raises(Exception, match="violates check constraint"):
        desk.pipeline.owner.execute(statement)
