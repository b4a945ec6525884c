"""The base of commands about jobs: runs a job in this process, under Ctrl-C, or watches one that runs elsewhere."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self
from uuid import UUID

from django.db import connection
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from portal.jobs import heartbeats, runner, services
from portal.jobs.context import Context
from portal.jobs.errors import WrongState
from portal.jobs.models import Job, JobState
from portal.jobs.progress import Progress
from portal.tenancy.commands import DONE, REFUSED, SOME_FAILED, USAGE, TenantCommand
from portal.tenancy.context import tenant_context

INTERRUPTED = 130
WATCH_SECONDS = 0.5
LINE_SECONDS = 10
LINE_PERCENT = 5


class JobCommand(TenantCommand):
    """A command that acts on jobs of a tenant."""

    def find(self, tenant_id: UUID, ref: str) -> Job:
        try:
            with tenant_context(tenant_id):
                return services.find(UUID(ref))
        except (ValueError, Job.DoesNotExist):
            self.stop(USAGE, f"There is no job {ref!r} here. See: manage.py jobs list")

    def run_here(
        self, claimed: Job, *, quiet: bool, is_enough: Callable[[Context], bool] = lambda _: False
    ) -> bool:
        """Runs a claimed job in this process until it has ended, or until `is_enough`; then a worker goes on with it. Ctrl-C
        cancels it after its batch, SIGTERM leaves it to a worker. Returns whether Ctrl-C was pressed."""
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())

        with Bar(claimed.title, quiet=quiet) as bar, _cancelled_by_ctrl_c(claimed) as interrupted:

            def on_progress(context: Context) -> None:
                bar.show(context.stage, context.progress)
                if is_enough(context):
                    stop.set()

            runner.run(claimed, stop, on_progress)
        return interrupted.is_set()

    def watch(self, job: Job, *, quiet: bool) -> Job:
        """Shows the progress until the job has ended or is lost. An interrupt ends the command, not the job."""
        with Bar(job.title, quiet=quiet) as bar:
            while True:
                with job.in_tenant():
                    job = services.find(job.pk)
                bar.show(job.stage, job.progress)
                if not job.is_active:
                    return job
                connection.close()
                time.sleep(WATCH_SECONDS)

    def say(self, sentence: str) -> None:
        self.stderr.write(sentence)

    def warn_without_worker(self, queue: str = heartbeats.JOBS) -> None:
        """Names the command to start if the queue has no live worker."""
        if not heartbeats.live_workers().get(queue):
            self.say(f"No worker is consuming queue {queue}. Start one with: {heartbeats.COMMANDS[queue]}")

    def say_failures(self, job: Job) -> None:
        with job.in_tenant():
            groups = services.failures_by_error(job.pk)
        for group in groups[:5]:
            self.say(str(group))
        if groups:
            self.say(f"Retry them with: manage.py jobs retry {job.pk}")

    def exit_code(self, job: Job) -> int:
        if job.effective_state in {JobState.FAILED, JobState.LOST}:
            self.say(
                job.error
                or f"The job is {job.effective_state}. Resume it with: manage.py jobs resume {job.pk}"
            )
            return SOME_FAILED
        return SOME_FAILED if job.failed else DONE

    def refused(self, error: Exception) -> None:
        self.stop(REFUSED, str(error))


@contextmanager
def _cancelled_by_ctrl_c(job: Job) -> Iterator[threading.Event]:
    """The first Ctrl-C cancels the job, from a thread, as this one may be in the middle of a statement; the second ends the
    process, and the job is lost."""
    interrupted, over = threading.Event(), threading.Event()

    def cancel() -> None:
        over.wait()
        if interrupted.is_set():
            print("Finishing the batch. Ctrl-C again ends it at once.", file=sys.stderr, flush=True)  # noqa: T201
            try:
                with job.in_tenant():
                    services.cancel(job.pk)
            except WrongState:
                pass  # it was over first
            finally:
                connection.close()

    def on_signal(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupted.set()
        over.set()

    usual = signal.signal(signal.SIGINT, on_signal)
    thread = threading.Thread(target=cancel, name="ctrl-c", daemon=True)
    thread.start()
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, usual)
        over.set()
        thread.join()


class Bar:
    """Shows the progress of a job on stderr: as a bar on a terminal, elsewhere as a line every ten seconds or five per cent."""

    def __init__(self, title: str, *, quiet: bool) -> None:
        self.title, self.quiet = title, quiet
        self.is_drawn = not quiet and sys.stderr.isatty()
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]} failed"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not self.is_drawn,
        )
        self._task = self._bar.add_task(title, total=None, failed=0)
        self._printed_at, self._printed_percent = time.monotonic(), 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, stage: str, progress: Progress) -> None:
        described = f"{self.title}: {stage}" if stage else self.title
        self._bar.update(
            self._task,
            description=described,
            total=progress.total,
            completed=progress.processed,
            failed=progress.failed,
        )
        if not self.quiet and not self.is_drawn:
            self._print(described, progress)

    def _print(self, described: str, progress: Progress) -> None:
        percent = progress.percent or 0
        is_news = (
            percent >= self._printed_percent + LINE_PERCENT
            or time.monotonic() >= self._printed_at + LINE_SECONDS
        )
        if is_news:
            self._printed_at, self._printed_percent = time.monotonic(), percent
            print(f"{described}: {progress}", file=sys.stderr, flush=True)  # noqa: T201 - the log's reader
