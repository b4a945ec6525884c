"""Runs jobs: claims one, lets its kind work under a heartbeat, and ends it or gives it back.

Two entry points: the Celery worker of queue `default` (portal/celery.py) and `manage.py job_worker`, both running `Loop`; commands
run the job that they started themselves (command.py). Killed at any instant, a job is lost after a minute without
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

log = logging.getLogger(__name__)

OnProgress = Callable[[Context], None]


def run(job: Job, stop: threading.Event, on_progress: OnProgress = lambda _: None) -> None:
    """Works on a claimed job until it is over, cancelled, or `stop` is set; then it is given back with its cursor."""
    context = Context(job, stop, on_progress)
    try:
        with heartbeat(
            lambda: _beat(job),
            seconds=settings.JOB_LOST_SECONDS / heartbeats.BEATS,
            name="job-heartbeat",
            trouble=f"Job {job.pk} cannot say that it lives",
        ):
            _work(context)
    except LostClaim:
        log.warning("Job %s was taken from this process, which writes nothing more of it.", job.pk)


def _beat(job: Job) -> None:
    with job.in_tenant():
        Job.objects.heartbeat(job)


def _work(context: Context) -> None:
    job = context.job
    try:
        is_over = kinds.get(job.kind).run(context) or context.stopping() == "cancel"
    except LostClaim:
        raise
    except CannotGoOn as refusal:
        sentence = str(refusal)
        _end(job, lambda: Job.objects.finish(job, JobState.FAILED, error=sentence))
        return
    except (OperationalError, InterfaceError) as trouble:
        reason = _sentence(trouble)
        # The database's trouble is not the job's, unless it comes back at the same place again and again.
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
    """Runs jobs. Told to end, it lets the batch in hand be the last one; over its head the job is given back, and the fence
    undoes what it was doing."""

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
