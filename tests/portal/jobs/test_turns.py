"""SEC-5, S20: real runners serve tenants in turn, whatever the jobs of one of them are like."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from portal.jobs import services
from portal.jobs.errors import InvalidArguments, TooManyJobs
from portal.jobs.models import Job, JobState
from portal.tenancy.models import Tenant
from tests.support.embeddings.pipeline import Pipeline
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import ready_tools
from tests.support.waiting import wait_until
from tools.catalogue.embedding_jobs import BACKFILL, REFRESH
from tools.imports.syncing.jobs import SYNC
from tools.models import Source

RUNNER = ("manage.py", "job_worker")
Start = Callable[..., Any]


@pytest.fixture
def neighbour(pipeline: Pipeline, make_tenant: Callable[..., Tenant]) -> JobHarness:
    return JobHarness(Pipeline(make_tenant().pk, pipeline.owner))


@pytest.fixture
def silent_server() -> Iterator[str]:
    """`host:port` of a server that takes a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def slow_backfill(harness: JobHarness) -> UUID:
    """One that takes half a minute to queue its tools, and for ever to see them embedded, as nobody does that."""
    harness.make("failed", *ready_tools(harness.pipeline, 30))
    return harness.start(rate=1, batch_size=1)


def starts_within(harness: JobHarness, pk: UUID, seconds: float) -> None:
    job = wait_until(
        lambda: (found := harness.find(pk)).started_at and found, "the job is begun", seconds=4 * seconds
    )
    assert (job.started_at - job.created_at).total_seconds() <= seconds


@pytest.mark.parametrize("threads", ["1", "3"])
def test_beside_the_slowest_job_of_a_neighbour_an_own_one_starts_within_5_seconds_and_both_go_on_S20(
    harness: JobHarness, neighbour: JobHarness, processes: Start, threads: str
) -> None:
    slow = slow_backfill(harness)
    processes(*RUNNER, JOB_THREADS=threads)
    wait_until(lambda: harness.find(slow).cursor.get("queued"), "the slow job is under way")
    own = neighbour.start()
    starts_within(neighbour, own, 5)
    wait_until(lambda: neighbour.state(own) == "succeeded", "the own job is done")
    queued = harness.find(slow).cursor["queued"]
    wait_until(lambda: harness.find(slow).cursor["queued"] > queued + 2, "the slow job goes on")
    assert harness.state(slow) == "running"
    job = harness.find(slow)
    assert job.claimed_at == job.started_at  # one run for people, so that its rate is of all of it
    assert (job.resumes, job.attempts) == (0, 0)


def test_beside_the_slowest_job_of_a_tenant_its_own_other_job_starts_within_5_seconds_SEC_5(
    harness: JobHarness, processes: Start
) -> None:
    slow = slow_backfill(harness)
    processes(*RUNNER)
    wait_until(lambda: harness.find(slow).cursor.get("queued"), "the slow job is under way")
    other = harness.start(REFRESH, ids=[str(uuid4())])
    starts_within(harness, other, 5)


def test_beside_a_sync_of_a_server_that_never_answers_a_neighbours_job_starts_within_5_seconds_S20(
    harness: JobHarness, neighbour: JobHarness, processes: Start, silent_server: str
) -> None:
    with harness.in_tenant():
        Source.objects.create(slug="silent", kind="openapi", url=f"http://{silent_server}/openapi.json")
    sync = harness.start(SYNC, source="silent")
    processes(*RUNNER, IMPORT_ALLOWED_HOSTS=silent_server)
    wait_until(lambda: harness.state(sync) == "running", "the sync is under way")
    starts_within(neighbour, neighbour.start(), 5)
    assert harness.state(sync) == "running"


def test_of_the_jobs_that_wait_those_of_the_tenant_come_next_that_was_served_longest_ago_S20(
    harness: JobHarness, neighbour: JobHarness
) -> None:
    many = [harness.start(REFRESH, ids=[str(uuid4())]) for _ in range(4)]
    late = [neighbour.start(REFRESH, ids=[str(uuid4())]) for _ in range(2)]
    turns = []
    for _ in range(6):
        job = harness.claim()
        turns.append(job.pk)
        with job.in_tenant():
            Job.objects.finish(job, JobState.SUCCEEDED)
    assert turns == [many[0], late[0], many[1], late[1], *many[2:]]


def test_a_job_that_gave_way_comes_after_the_ones_that_its_tenant_has_not_begun(harness: JobHarness) -> None:
    first, second = (harness.start(REFRESH, ids=[str(uuid4())]) for _ in range(2))
    job = harness.claim()
    with harness.in_tenant():
        Job.objects.give_way(job, seconds=0)
    assert job.pk == first
    assert harness.claim().pk == second
    assert harness.claim().pk == first


def test_a_tenant_has_no_more_unfinished_jobs_than_the_setting_says_SEC_5(
    harness: JobHarness, neighbour: JobHarness, settings: Any
) -> None:
    settings.JOB_MAX_ACTIVE = 2
    ids = [[str(uuid4())] for _ in range(3)]
    first, _ = (harness.start(REFRESH, ids=ids[number]) for number in range(2))
    with pytest.raises(TooManyJobs, match=r"limit of unfinished jobs \(2\)"):
        harness.start(REFRESH, ids=ids[2])
    neighbour.start(REFRESH, ids=ids[2])
    harness.do(services.cancel, first)
    harness.start(REFRESH, ids=ids[2])
    with pytest.raises(TooManyJobs):
        harness.do(services.resume, first)
    with harness.in_tenant():
        assert services.active().count() == 2


def test_a_rate_below_the_slowest_is_refused_with_the_bounds_SEC_5(harness: JobHarness) -> None:
    with pytest.raises(InvalidArguments, match=r"rate: A number from 1 to 10,000, please\."):
        harness.start(BACKFILL, rate=0.1)
