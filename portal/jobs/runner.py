"""Runs jobs: claims one, runs its kind under a heartbeat, and ends or releases it.

Two entry points run `Loop`: the Celery worker of queue `default` (portal/celery.py) and `manage.py job_worker`. Commands run the
job that they have started themselves (command.py). A job whose process is killed is resumed from its cursor after
JOB_LOST_SECONDS without heartbeat, JOB_MAX_RESUMES times; then it is lost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import cast
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Q

from portal.jobs import heartbeats, kinds
from portal.jobs.context import Context
from portal.jobs.errors import CannotGoOn, LostClaim
from portal.jobs.loop import WorkLoop, heartbeat
from portal.jobs.models import Job, JobState
from portal.jobs.transitions import JobQuerySet
from portal.tenancy.rights import acting_with

log = logging.getLogger(__name__)

OnProgress = Callable[[Context], None]


def run(
    job: Job,
    stop: threading.Event,
    on_progress: OnProgress = lambda _: None,
    others_wait: Callable[[], bool] = lambda: False,
) -> None:
    """Runs a claimed job until it has ended, or until `stop` is set or `others_wait`; then it is released with its cursor."""
    context = Context(job, stop, on_progress, others_wait)
    try:
        with heartbeat(
            lambda: _heartbeat(job),
            seconds=settings.JOB_LOST_SECONDS / heartbeats.BEATS,
            name="job-heartbeat",
            trouble=f"The heartbeat of job {job.pk} could not be stored",
        ):
            _work(context)
    except LostClaim:
        log.warning("Job %s was claimed by another process; this one stops writing to it.", job.pk)


def _heartbeat(job: Job) -> None:
    with job.in_tenant():
        Job.objects.heartbeat(job)


def _work(context: Context) -> None:
    job = context.job
    try:
        with acting_with(job.own_rights):
            is_over = kinds.get(job.kind).run(context) or context.stopping() == "cancel"
    except LostClaim:
        raise
    except CannotGoOn as refusal:
        sentence = str(refusal)
        _end(job, lambda: Job.objects.finish(job, JobState.FAILED, error=sentence))
        return
    except (OperationalError, InterfaceError):
        # An error of the database does not fail the job, unless it comes again at the same place.
        if job.attempts < settings.JOB_MAX_ATTEMPTS:
            _end(job, lambda: Job.objects.release(job))
        else:
            log.exception("Job %s (%s) failed.", job.pk, job.kind)
            _fail_unexpectedly(job)
        raise
    except Exception:
        log.exception("Job %s (%s) failed.", job.pk, job.kind)
        _fail_unexpectedly(job)
        return
    if is_over:
        outcome = JobState.PARTIAL if context.failed else JobState.SUCCEEDED
        _end(job, lambda: Job.objects.finish(job, outcome))
    elif context.gives_way:
        _end(job, lambda: Job.objects.give_way(job, seconds=context.pause_left))
    else:
        _end(job, lambda: Job.objects.release(job))


def _end(job: Job, write: Callable[[], bool]) -> None:
    with job.in_tenant():
        if not write():
            raise LostClaim


def _fail_unexpectedly(job: Job) -> None:
    """Ends a job by an error whose words are for the log alone, as they may name hosts, statements and the texts of others."""
    sentence = f"Something went wrong here. Those who run the portal find the cause in its log: job {job.pk}."
    _end(job, lambda: Job.objects.finish(job, JobState.FAILED, error=sentence))


class Loop(WorkLoop):
    """Runs up to JOB_THREADS jobs at a time, each in a thread and of a tenant one, so that the long batches of one tenant do not
    hold up another; between its batches a job gives way to those that find no thread (SEC-5).

    When the loop is ended, the current batches are the last ones; a job that does not stop in time is released, and the fence
    undoes its batch.
    """

    queue = heartbeats.JOBS

    def __init__(self) -> None:
        super().__init__()
        self._running: dict[UUID, Job] = {}  # by tenant
        self._threads: set[threading.Thread] = set()

    def work(self) -> None:
        Job.all_tenants.take_up_lost()
        while not self.ended.is_set() and len(self._running) < settings.JOB_THREADS:
            job = _jobs_beside(self._running.values()).claim(kinds=_kinds())
            if job is None:
                return
            self._running[cast(UUID, job.tenant_id)] = job
            thread = threading.Thread(target=self._run, args=(job,), name=f"job-{job.pk}", daemon=True)
            self._threads = {one for one in self._threads if one.is_alive()} | {thread}
            thread.start()

    def _run(self, job: Job) -> None:
        went_well = self.protected(lambda: run(job, self.ended, others_wait=partial(self._others_wait, job)))
        del self._running[cast(UUID, job.tenant_id)]
        if went_well:  # after trouble of the database the next poll is soon enough
            self.wake()

    def _others_wait(self, job: Job) -> bool:
        """Whether a job is due that cannot run beside this one, but in its place."""
        others = [other for other in list(self._running.values()) if other.pk != job.pk]
        waiting = _jobs_beside(others).due(_kinds())
        if len(others) + 1 < settings.JOB_THREADS:
            kept_out = Q(tenant_id=job.tenant_id)
            waiting = waiting.filter(kept_out | Q(resumes__gt=0) if job.resumes else kept_out)
        return waiting.exists()

    def settle(self) -> None:
        for thread in self._threads:
            thread.join()

    def pause(self) -> float:
        seconds: float = settings.JOB_POLL
        return seconds

    def release(self) -> None:
        for job in list(self._running.values()):
            with job.in_tenant():
                Job.objects.release(job)


def _kinds() -> list[str]:
    return [kind.name for kind in kinds.all_kinds()]


def _jobs_beside(running: Collection[Job]) -> JobQuerySet:
    """The jobs that may run in this process beside these: those of other tenants. Of the jobs whose runner has died one runs at a
    time, since one of them may be what ends its process, and the others are not to be lost with it."""
    found: JobQuerySet = Job.all_tenants.exclude(tenant_id__in=[job.tenant_id for job in running])
    return found.filter(resumes=0) if any(job.resumes for job in running) else found
