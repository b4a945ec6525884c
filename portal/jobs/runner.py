"""Runs jobs: claims one, lets its kind work under a heartbeat, and ends it or gives it back.

Two doors: the Celery worker of queue `default` (portal/celery.py) and `manage.py job_worker`, both running `Loop`; commands
run the job that they started themselves (command.py). Killed at any instant, a job is lost after a minute without
heartbeat, and resumes from its cursor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from portal.jobs import alive, kinds
from portal.jobs.context import Context
from portal.jobs.errors import LostClaim
from portal.jobs.models import MAX_ATTEMPTS, Job, JobState

log = logging.getLogger(__name__)

SECONDS_TO_FINISH = 1.0  # half of what the supervisor grants a process that is told to end

OnProgress = Callable[[Context], None]


def run(job: Job, stop: threading.Event, on_progress: OnProgress = lambda _: None) -> None:
    """Works on a claimed job until it is over, cancelled, or `stop` is set; then it is given back with its cursor."""
    context = Context(job, stop, on_progress)
    try:
        with _heartbeat(job):
            _work(context)
    except LostClaim:
        log.warning("Job %s was taken from this process, which writes nothing more of it.", job.pk)


def _work(context: Context) -> None:
    job = context.job
    try:
        is_over = kinds.get(job.kind).run(context) or context.stopping() == "cancel"
    except LostClaim:
        raise
    except (OperationalError, InterfaceError) as trouble:
        reason = _sentence(trouble)
        # The database's trouble is not the job's, unless it comes back at the same place again and again.
        if job.attempts < MAX_ATTEMPTS:
            _end(job, lambda: Job.objects.give_back(job))
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
        _end(job, lambda: Job.objects.give_back(job))


def _end(job: Job, write: Callable[[], bool]) -> None:
    with job.in_tenant():
        if not write():
            raise LostClaim


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@contextmanager
def _heartbeat(job: Job) -> Iterator[None]:
    """Says that the job lives, from a thread and connection of its own, because a batch may block this one."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(settings.JOB_LOST_SECONDS / alive.BEATS):
            try:
                with job.in_tenant():
                    Job.objects.beat(job)
            except DatabaseError as error:
                log.warning("Job %s cannot say that it lives: %s", job.pk, error)
            finally:
                connection.close()

    thread = threading.Thread(target=beat, name="job-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Loop(threading.Thread):
    """Runs jobs for ever, at every bell and without any. Errors are logged, and the loop goes on.

    A thread of its own, for the reasons of embeddings.worker.Loop.
    """

    running: ClassVar[Loop | None] = None

    def __init__(self) -> None:
        super().__init__(name="job-runner", daemon=True)
        self._stop_work = threading.Event()
        self._bell = threading.Event()
        self._job: Job | None = None

    def run(self) -> None:
        Loop.running = self
        with alive.beating(alive.JOBS):
            while not self._stop_work.is_set():
                self._bell.clear()
                self._protected(self._run_all)
                if not self._stop_work.is_set():
                    self._bell.wait(settings.JOB_POLL)
        Loop.running = None

    def _run_all(self) -> None:
        Job.of_everyone.lose()
        while not self._stop_work.is_set():
            names = [kind.name for kind in kinds.all_kinds()]
            self._job = Job.of_everyone.claim(kinds=names)
            if self._job is None:
                return
            run(self._job, self._stop_work)
            self._job = None

    def ring(self) -> None:
        """There is work: ends the pause."""
        self._bell.set()

    def end(self) -> None:
        """The batch in hand is the last one."""
        self._stop_work.set()
        self._bell.set()

    def finish(self) -> None:
        """Ends, waits a moment for the batch in hand, and gives the job back over its head if that is not enough: the fence
        undoes what it was doing."""
        self.end()
        self.join(SECONDS_TO_FINISH)
        job = self._job
        if self.is_alive() and job is not None:
            self._protected(lambda: _give_back(job))

    @staticmethod
    def _protected(step: Callable[[], object]) -> None:
        try:
            step()
        except (OperationalError, InterfaceError) as error:
            log.warning("The database cannot be reached: %s", " ".join(str(error).split()))
        except Exception:
            log.exception("The job runner met an unexpected error; going on.")
        finally:
            connection.close()


def _give_back(job: Job) -> None:
    with job.in_tenant():
        Job.objects.give_back(job)
