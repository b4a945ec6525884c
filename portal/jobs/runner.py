"""Runs jobs: claims one, runs its kind under a heartbeat, and ends or releases it.

Two entry points run `Loop`: the Celery worker of queue `default` (portal/celery.py) and `manage.py job_worker`. Commands run the
job that they have started themselves (command.py). A job whose process is killed is lost after JOB_LOST_SECONDS without
heartbeat, and resumes from its cursor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.conf import settings
from django.db import InterfaceError, OperationalError

from portal.jobs import heartbeats, kinds
from portal.jobs.context import Context
from portal.jobs.errors import CannotGoOn, LostClaim
from portal.jobs.loop import WorkLoop, heartbeat
from portal.jobs.models import Job, JobState
from portal.tenancy.rights import acting_with

log = logging.getLogger(__name__)

OnProgress = Callable[[Context], None]


def run(job: Job, stop: threading.Event, on_progress: OnProgress = lambda _: None) -> None:
    """Runs a claimed job until it has ended, or until `stop` is set; then it is released with its cursor."""
    context = Context(job, stop, on_progress)
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
    except (OperationalError, InterfaceError) as trouble:
        reason = _sentence(trouble)
        # An error of the database does not fail the job, unless it comes again at the same place.
        if job.attempts < settings.JOB_MAX_ATTEMPTS:
            _end(job, lambda: Job.objects.release(job))
        else:
            _end(job, lambda: Job.objects.finish(job, JobState.FAILED, error=reason))
        raise
    except Exception as bug:
        reason = _sentence(bug)
        log.exception("Job %s (%s) failed.", job.pk, job.kind)
        _end(job, lambda: Job.objects.finish(job, JobState.FAILED, error=reason))
        return
    if is_over:
        outcome = JobState.PARTIAL if context.failed else JobState.SUCCEEDED
        _end(job, lambda: Job.objects.finish(job, outcome))
    else:
        _end(job, lambda: Job.objects.release(job))


def _end(job: Job, write: Callable[[], bool]) -> None:
    with job.in_tenant():
        if not write():
            raise LostClaim


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


class Loop(WorkLoop):
    """Runs jobs. When it is ended, the current batch is the last one; a job that does not stop in time is released, and the fence
    undoes its batch."""

    queue = heartbeats.JOBS

    def __init__(self) -> None:
        super().__init__()
        self._job: Job | None = None

    def work(self) -> None:
        Job.all_tenants.mark_lost()
        while not self.ended.is_set():
            names = [kind.name for kind in kinds.all_kinds()]
            self._job = Job.all_tenants.claim(kinds=names)
            if self._job is None:
                return
            run(self._job, self.ended)
            self._job = None

    def pause(self) -> float:
        seconds: float = settings.JOB_POLL
        return seconds

    def release(self) -> None:
        if (job := self._job) is not None:
            with job.in_tenant():
                Job.objects.release(job)
