"""Long work that people start, watch and stop, and how it stands.

The state machine of a job; arrows are the methods of JobQuerySet that take them, each a compare-and-set:

    (new) -start-> queued -claim-> running -finish-> succeeded | partial (some items failed) | failed (it could not go on)
    running -release (its process ends in good order)-> queued
    queued (never begun) -cancel-> cancelled
    queued (begun), running, lost -cancel-> cancelling -finish-> cancelled
    running, cancelling -mark_lost (no heartbeat for a minute)-> lost
    cancelled, lost, failed -resume-> queued        partial -retry_failed-> queued

A runner that ends a job holds its claim id, which every later owner replaces: the fence. A `cancelling` job without a claim
waits for a runner that cleans up. The cursor says where the work goes on, and is written with the effect that it tells of.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, cast

from django.conf import settings
from django.db import models, transaction
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Coalesce, Now

from portal.jobs.progress import Progress
from portal.tenancy.context import tenant_context
from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey
from portal.tenancy.models import TenantManager, TenantModel

LOG_LINES = 50
ERROR_LENGTH = 500
LABEL_LENGTH = 200


class JobState(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    CANCELLING = "cancelling", "Cancelling"
    CANCELLED = "cancelled", "Cancelled"
    SUCCEEDED = "succeeded", "Succeeded"
    PARTIAL = "partial", "Partial"
    FAILED = "failed", "Failed"
    LOST = "lost", "Lost"


ACTIVE = (JobState.QUEUED, JobState.RUNNING, JobState.CANCELLING)
HELD = (JobState.RUNNING, JobState.CANCELLING)
CAN_CANCEL = (JobState.QUEUED, JobState.RUNNING, JobState.LOST)
CAN_RESUME = (JobState.CANCELLED, JobState.LOST, JobState.FAILED)
CAN_RETRY = (JobState.PARTIAL,)


@dataclass(frozen=True, slots=True)
class LogLine:
    at: datetime
    text: str


def _is_lost() -> Q:
    return Q(state__in=HELD, heartbeat_at__lt=Now() - timedelta(seconds=settings.JOB_LOST_SECONDS))


class JobQuerySet(models.QuerySet["Job"]):
    """Changes of state, each only from where it is allowed; they answer whether the row was changed."""

    def shown(self) -> JobQuerySet:
        """Adds `shown_state`, in which a job without a heartbeat is lost before a sweep has said so, and `read_at`."""
        shown = Case(When(_is_lost(), then=Value(JobState.LOST)), default=F("state"))
        return self.annotate(shown_state=shown, read_at=Now())  # type: ignore[no-redef]

    def in_states(self, *states: str) -> JobQuerySet:
        """Of those that are shown, the ones in these states."""
        return self.filter(shown_state__in=states)  # type: ignore[misc]

    def running_first(self) -> JobQuerySet:
        first = Case(When(shown_state__in=ACTIVE, then=0), default=1, output_field=models.SmallIntegerField())
        return self.order_by(first, "-created_at", "-pk")

    def claim(self, *, kinds: Collection[str], pk: uuid.UUID | None = None) -> Job | None:
        """The oldest job that waits for a runner (or the one that is named), now ours; None if there is none."""
        waiting = self.filter(Q(state=JobState.QUEUED) | Q(state=JobState.CANCELLING, claim_id=None))
        waiting = waiting.filter(kind__in=kinds, **({"pk": pk} if pk else {}))
        with transaction.atomic(using=self.db):
            found = waiting.order_by("created_at").select_for_update(skip_locked=True).first()
            if found is None:
                return None
            self.filter(pk=found.pk).update(
                state=Case(When(state=JobState.QUEUED, then=Value(JobState.RUNNING)), default=F("state")),
                claim_id=uuid.uuid4(),
                attempts=F("attempts") + 1,
                heartbeat_at=Now(),
                claimed_at=Now(),
                started_at=Coalesce(F("started_at"), Now()),
                finished_at=None,
                done_before=F("done") + F("failed"),
                processed_before=F("done") + F("failed") + F("skipped"),
                error="",
            )
            return self.get(pk=found.pk)

    def _ours(self, job: Job) -> JobQuerySet:
        return self.filter(pk=job.pk, claim_id=job.claim_id, state__in=HELD)

    def heartbeat(self, job: Job) -> bool:
        return bool(self._ours(job).update(heartbeat_at=Now()))

    def record_progress(self, job: Job, changes: Mapping[str, Any]) -> bool:
        """What a batch has done, under the claim."""
        return bool(self._ours(job).update(**changes, heartbeat_at=Now(), attempts=0))

    def finish(self, job: Job, outcome: JobState, *, error: str = "") -> bool:
        """Ends the job: as `outcome`, or as cancelled if that was asked for meanwhile."""
        if outcome not in {JobState.SUCCEEDED, JobState.PARTIAL, JobState.FAILED}:
            raise ValueError(f"{outcome} is not an end")
        state = Case(When(state=JobState.CANCELLING, then=Value(JobState.CANCELLED)), default=Value(outcome))
        # A retry that was stopped on its way is still one when it goes on.
        kept = [When(state=JobState.CANCELLING, then=F("only_failures"))]
        only_failures = (
            F("only_failures") if outcome == JobState.FAILED else Case(*kept, default=Value(False))
        )
        return bool(
            self._ours(job).update(
                state=state,
                claim_id=None,
                scope=None,
                finished_at=Now(),
                error=error[:ERROR_LENGTH],
                only_failures=only_failures,
            )
        )

    def release(self, job: Job) -> bool:
        """Leaves the job to the next runner; one that is being cancelled stays so."""
        state = Case(When(state=JobState.RUNNING, then=Value(JobState.QUEUED)), default=F("state"))
        return bool(self._ours(job).update(state=state, claim_id=None, heartbeat_at=Now()))

    def cancel(self, pk: uuid.UUID) -> bool:
        """A runner finishes its batch and cleans up; a job that nobody has begun is over at once."""
        new = self.filter(pk=pk, state=JobState.QUEUED, started_at=None)
        if new.update(state=JobState.CANCELLED, scope=None, finished_at=Now()):
            return True
        if self.filter(pk=pk, state=JobState.RUNNING).update(state=JobState.CANCELLING):
            return True
        unheld = self.filter(pk=pk, state__in=(JobState.QUEUED, JobState.LOST))
        return bool(unheld.update(state=JobState.CANCELLING, claim_id=None, heartbeat_at=Now()))

    def resume(self, pk: uuid.UUID, *, scope: str | None) -> bool:
        """Waits for a runner again, which goes on from the cursor."""
        over = self.filter(pk=pk, state__in=CAN_RESUME)
        return bool(
            over.update(
                state=JobState.QUEUED, claim_id=None, scope=scope, finished_at=None, error="", attempts=0
            )
        )

    def retry_failed(self, pk: uuid.UUID, *, scope: str | None) -> bool:
        """Waits for a runner that takes up the failures only."""
        over = self.filter(pk=pk, state__in=CAN_RETRY, failed__gt=0)
        return bool(
            over.update(
                state=JobState.QUEUED, only_failures=True, scope=scope, finished_at=None, error="", attempts=0
            )
        )

    def mark_lost(self) -> int:
        """Marks what has no heartbeat any more; the runner that had it has lost its claim."""
        return self.filter(_is_lost()).update(state=JobState.LOST, claim_id=None, scope=None)


class JobManager(TenantManager.from_queryset(JobQuerySet)):  # type: ignore[misc]
    """The current tenant's jobs."""


class Job(TenantModel):
    """One piece of long work. Read it through portal.jobs.services, which say `shown_state`."""

    kind = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    requested_by = models.CharField(max_length=200)
    args = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.QUEUED)
    # While it is set, no second job of the kind has the same: one at a time. A kind gives it up when it need not be alone.
    scope = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - null is no scope
    total = models.IntegerField(null=True, blank=True)
    done = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    skipped = models.IntegerField(default=0)
    stage = models.CharField(max_length=40, blank=True, default="")
    cursor = models.JSONField(default=dict)
    only_failures = models.BooleanField(default=False)
    log = models.JSONField(default=list)
    error = models.CharField(max_length=ERROR_LENGTH, blank=True, default="")
    claim_id = models.UUIDField(null=True, blank=True)
    attempts = models.SmallIntegerField(default=0)  # claims since the last batch
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    claimed_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    # What stood when it was claimed, so that the rate is of this run.
    done_before = models.IntegerField(default=0)
    processed_before = models.IntegerField(default=0)

    # Set by JobQuerySet.shown().
    shown_state: str
    read_at: datetime

    objects: ClassVar[Any] = JobManager()
    # For the worker's login, whose policy shows it the jobs of all tenants.
    all_tenants: ClassVar[Any] = JobQuerySet.as_manager()

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            models.UniqueConstraint(
                fields=["tenant", "kind", "scope"],
                condition=models.Q(state__in=["queued", "running", "cancelling"]),
                name="job_one_per_scope",
            ),
            models.CheckConstraint(condition=models.Q(state__in=JobState.values), name="job_state_known"),
            models.CheckConstraint(
                condition=~models.Q(state="running") | models.Q(claim_id__isnull=False),
                name="job_running_has_claim",
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=["running", "cancelling"]) | models.Q(claim_id=None),
                name="job_claim_is_of_a_run",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["tenant", "-created_at"], name="job_newest"),
            # The runner's question of every few seconds.
            models.Index(
                fields=["created_at"],
                condition=models.Q(state__in=["queued", "running", "cancelling"]),
                name="job_active",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.title} ({self.state})"

    def in_tenant(self) -> AbstractContextManager[None]:
        """The context of the job's tenant, for the runner, which has none of its own."""
        return tenant_context(cast(uuid.UUID, self.tenant_id))

    @property
    def is_active(self) -> bool:
        return self.shown_state in ACTIVE

    @property
    def can_cancel(self) -> bool:
        return self.shown_state in CAN_CANCEL

    @property
    def can_resume(self) -> bool:
        return self.shown_state in CAN_RESUME

    @property
    def can_retry(self) -> bool:
        return self.shown_state in CAN_RETRY and self.failed > 0

    def as_dict(self) -> dict[str, Any]:
        """The job in JSON's types, for the API and the commands; times are RFC 3339."""
        progress = self.progress
        times = {name: getattr(self, name) for name in ("created_at", "started_at", "finished_at")}
        return {
            "id": str(self.pk),
            "kind": self.kind,
            "title": self.title,
            "state": self.shown_state,
            "stage": self.stage,
            "requested_by": self.requested_by,
            "total": progress.total,
            "done": progress.done,
            "failed": progress.failed,
            "skipped": progress.skipped,
            "rate": progress.rate,
            "eta_seconds": progress.eta_seconds,
            "error": self.error or None,
            **{name: at and at.isoformat().replace("+00:00", "Z") for name, at in times.items()},
        }

    @property
    def log_lines(self) -> list[LogLine]:
        return [LogLine(datetime.fromisoformat(line["at"]), line["text"]) for line in self.log]

    @property
    def duration_seconds(self) -> float | None:
        """From its first claim to its end, or until now."""
        if self.started_at is None:
            return None
        return max(0.0, ((self.finished_at or self.read_at) - self.started_at).total_seconds())

    @property
    def progress(self) -> Progress:
        processed = self.done + self.failed + self.skipped
        rate = self._rate(processed)
        left = max(0, self.total - processed) if self.total is not None else None
        running = self.shown_state == JobState.RUNNING
        return Progress(
            total=self.total,
            processed=processed,
            done=self.done,
            failed=self.failed,
            skipped=self.skipped,
            percent=None
            if self.total is None
            else min(100, 100 * processed // self.total if self.total else 100),
            rate=rate,
            eta_seconds=round(left / rate) if running and rate and left is not None else None,
        )

    def _rate(self, processed: int) -> float | None:
        if self.claimed_at is None:
            return None
        seconds = ((self.finished_at or self.read_at) - self.claimed_at).total_seconds()
        # What was skipped cost nearly nothing, and says nothing of what is left unless all of it is like that.
        worked = self.done + self.failed - self.done_before or processed - self.processed_before
        return round(worked / seconds, 2) if seconds > 0 and worked > 0 else None


class JobFailure(TenantModel):
    """An item that failed in a job, and why; taken up again once `retried_at` is set."""

    job = TenantForeignKey(Job, on_delete=models.CASCADE, related_name="failures")
    item_id = models.UUIDField()
    label = models.CharField(max_length=LABEL_LENGTH)
    error = models.CharField(max_length=ERROR_LENGTH)
    failed_at = models.DateTimeField(db_default=Now())
    retried_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            models.UniqueConstraint(fields=["tenant", "job", "item_id"], name="job_failure_once"),
            CompositeForeignKey(
                column="job_id", table="jobs_job", name="job_failure_job", on_delete="CASCADE"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label}: {self.error}"


class WorkerHeartbeat(models.Model):
    """A process that works on a queue, as it last said itself. Of the whole installation, without tenant."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    queue = models.CharField(max_length=40)
    host = models.CharField(max_length=255)
    pid = models.IntegerField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["queue", "at"], name="worker_heartbeat_queue")
        ]

    def __str__(self) -> str:
        return f"{self.queue}: {self.pid}@{self.host}"
