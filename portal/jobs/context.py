"""The context that `JobKind.run` gets: the job, its cursor, and `batch`, the one way to record what a batch has done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection
from django.db.models.functions import Now

from portal.jobs.errors import Cancelled, LostClaim
from portal.jobs.loop import heartbeat
from portal.jobs.models import LABEL_LENGTH, Job, JobFailure, JobState
from portal.jobs.progress import Progress
from portal.jobs.states import with_line
from portal.json_types import JsonObject

REPORT_SECONDS = 1.0
TURN_SECONDS = 1.0
"""How long a job runs before it gives way to others that wait; one that pauses gives way at once."""
LOOK_SECONDS = 0.5
"""The time between two looks for jobs that wait."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that failed; `label` is its name for operators."""

    item_id: UUID
    label: str
    error: str


class Context:
    """A claimed job while it runs. `done`, `failed`, `skipped`, `stage` and `cursor` have the values after the last batch.

    `others_wait` tells whether another job could run in the place of this one. Once that is seen, `gives_way` is true.
    """

    def __init__(
        self,
        job: Job,
        stop: threading.Event,
        on_progress: Callable[[Context], None] = lambda _: None,
        others_wait: Callable[[], bool] = lambda: False,
    ) -> None:
        self.job, self._stop, self._on_progress = job, stop, on_progress
        self.gives_way, self._others_wait = False, others_wait
        self._begun = self._paused_until = time.monotonic()
        self._look_at = self._begun + TURN_SECONDS
        self.done, self.failed, self.skipped = job.done, job.failed, job.skipped
        self.total, self.stage = job.total, job.stage
        self.cursor: JsonObject = dict(job.cursor)
        self._log: list[dict[str, str]] = list(job.log)

    @property
    def progress(self) -> Progress:
        """As Job.progress, from the values in this process. Needs no tenant's context: `reporting` has none."""
        now = Job(
            tenant_id=self.job.tenant_id,
            total=self.total, done=self.done, failed=self.failed, skipped=self.skipped, claimed_at=self.job.claimed_at,
            done_before=self.job.done_before, processed_before=self.job.processed_before,
        )  # fmt: skip
        # The time by the database's clock, and the span since then by a monotonic one.
        now.read_at = self.job.read_at + timedelta(seconds=time.monotonic() - self._begun)
        now.effective_state = JobState.RUNNING
        return now.progress

    @property
    def args(self) -> JsonObject:
        args: JsonObject = self.job.args
        return args

    def batch(
        self,
        *,
        done: int | None = None,
        skipped: int | None = None,
        total: int | None = None,
        stage: str | None = None,
        cursor: JsonObject | None = None,
        failures: Sequence[Failure] = (),
        retried: Collection[UUID] = (),
        log: str = "",
        alone: bool = True,
    ) -> None:
        """Records what a batch has done, as new values, in the transaction of the batch's own writes. Raises LostClaim, which must
        undo that transaction, if the claim no longer holds.

        `failures` count until they are `retried`. `alone=False` allows another job with the same concurrency key from now on.
        """
        with self.job.in_tenant():
            given = {"done": done, "skipped": skipped, "total": total, "stage": stage, "cursor": cursor}
            changes: JsonObject = {name: value for name, value in given.items() if value is not None}
            if failures or retried:
                changes["failed"] = self._record_failures(failures, retried)
            logged = with_line(self._log, log, at=_now()) if log else self._log
            if not alone:
                changes["concurrency_key"] = None
            # The fence comes last, and undoes all of it.
            if not Job.objects.record_progress(self.job, {**changes, **({"log": logged} if log else {})}):
                raise LostClaim
        changes.pop("concurrency_key", None)
        for name, value in changes.items():
            setattr(self, name, value)
        self._log = logged
        self._on_progress(self)

    def _record_failures(self, failures: Sequence[Failure], retried: Collection[UUID]) -> int:
        own = JobFailure.objects.filter(job_id=self.job.pk)
        if retried:
            own.filter(item_id__in=retried, retried_at=None).update(retried_at=Now())
        JobFailure.objects.bulk_create(
            [
                JobFailure(
                    job_id=self.job.pk,
                    item_id=one.item_id,
                    label=one.label[:LABEL_LENGTH],
                    error=one.error,
                    failed_at=Now(),
                )
                for one in failures
            ],
            update_conflicts=True,
            unique_fields=["tenant", "job", "item_id"],
            update_fields=["label", "error", "failed_at", "retried_at"],
        )
        count: int = own.filter(retried_at=None).count()
        return count

    def failures(self, after: UUID | None, limit: int) -> list[UUID]:
        """Items whose failure was not retried, by id, greater than `after`; needs the tenant's context."""
        found = JobFailure.objects.filter(job_id=self.job.pk, retried_at=None).order_by("item_id")
        if after is not None:
            found = found.filter(item_id__gt=after)
        return list(found.values_list("item_id", flat=True)[:limit])

    def stopping(self) -> str:
        """The reason to stop after this batch: "cancel" (the job), "stop" (this process ends, or it is another job's turn), or ""
        to go on. Raises LostClaim."""
        with self.job.in_tenant():
            ours = Job.objects.filter(pk=self.job.pk, claim_id=self.job.claim_id)
            state = ours.values_list("state", flat=True).first()
        if state is None:
            raise LostClaim
        if state == JobState.CANCELLING:
            return "cancel"
        return "stop" if self._stop.is_set() or self._must_give_way() else ""

    def _must_give_way(self) -> bool:
        if not self.gives_way and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self.gives_way = self._others_wait()
        return self.gives_way

    @contextmanager
    def reporting(self) -> Iterator[Callable[[int], None]]:
        """Reports the progress of work that is one transaction, whose writes are invisible before its end: the block gets a
        function that takes the number of items done, which another connection stores every second. The function raises Cancelled
        when the job is being cancelled."""
        reported = 0

        def report(done: int) -> None:
            nonlocal reported
            reported = done
            if self.stopping() == "cancel":
                raise Cancelled

        def write() -> None:
            if reported != self.done:
                with self.job.in_tenant():
                    Job.objects.record_progress(self.job, {"done": reported})
                self.done = reported
                self._on_progress(self)

        with heartbeat(write, seconds=REPORT_SECONDS, name="job-progress", trouble=f"Job {self.job.pk}"):
            yield report

    def wait(self, seconds: float) -> None:
        """Pauses for `seconds`, or until `stopping`: a pause is another job's turn, and the job is claimed again after it."""
        now = time.monotonic()
        self._paused_until, self._look_at = now + seconds, min(self._look_at, now)
        while (left := self.pause_left) and not self._stop.is_set() and not self._must_give_way():
            self._stop.wait(min(left, LOOK_SECONDS))

    @property
    def pause_left(self) -> float:
        """The seconds that are left of the last `wait`."""
        return max(0.0, self._paused_until - time.monotonic())


def _now() -> datetime:
    # Of the database's clock, as every other time of a job.
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        at: datetime = cursor.fetchone()[0]
    return at
