"""Jobs: long work that people start, watch and stop.

The states of a job. An arrow is the method of JobQuerySet that takes it, each a compare-and-set:

    (new) -start-> queued -claim-> running -finish-> succeeded | partial (some items failed) | failed (it could not go on)
    running -release (its process ends in good order)-> queued
    queued (never started) -cancel-> cancelled
    queued (started), running, lost -cancel-> cancelling -finish-> cancelled
    running, cancelling -mark_lost (no heartbeat for JOB_LOST_SECONDS)-> lost
    cancelled, lost, failed -resume-> queued        partial -retry_failed-> queued

The runner of a job holds its claim id, which every later runner replaces: the fence. A `cancelling` job without a claim waits for
a runner that cleans up. The cursor tells where the work goes on, and is written in the transaction of the work that it tells of.
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
from portal.tenancy.rights import Rights, current_rights

LOG_LINES = 50
ERROR_LENGTH = 500
LABEL_LENGTH = 200


class JobState(models.TextChoices):
    QUEUED = "queued", "Queued"  # waits for a runner; has a cursor if it was started before
    RUNNING = "running", "Running"  # claimed by a runner that sends heartbeats
    CANCELLING = "cancelling", "Cancelling"  # ends after the batch; without a claim it waits for a runner
    CANCELLED = "cancelled", "Cancelled"  # can be resumed
    SUCCEEDED = "succeeded", "Succeeded"  # all items are done or skipped
    PARTIAL = "partial", "Partial"  # all items are done, but some failed; those can be retried
    FAILED = "failed", "Failed"  # could not go on, with its error; can be resumed
    LOST = "lost", "Lost"  # its runner sent no heartbeat for JOB_LOST_SECONDS; can be resumed


ACTIVE = (JobState.QUEUED, JobState.RUNNING, JobState.CANCELLING)
CLAIMED = (JobState.RUNNING, JobState.CANCELLING)
CAN_CANCEL = (JobState.QUEUED, JobState.RUNNING, JobState.LOST)
CAN_RESUME = (JobState.CANCELLED, JobState.LOST, JobState.FAILED)
CAN_RETRY = (JobState.PARTIAL,)
QUEUED_AGAIN: dict[str, Any] = {"state": JobState.QUEUED, "finished_at": None, "error": "", "attempts": 0}


@dataclass(frozen=True, slots=True)
class LogLine:
    at: datetime
    text: str


def _is_lost() -> Q:
    return Q(state__in=CLAIMED, heartbeat_at__lt=Now() - timedelta(seconds=settings.JOB_LOST_SECONDS))


class JobQuerySet(models.QuerySet["Job"]):
    """The transitions, each only from the states that allow it; they return whether the row was changed."""

    def seen(self) -> JobQuerySet:
        """Those that the current caller may know of: a job tells of all tools that its own rights let it work on."""
        rights = current_rights()
        if rights.sees_all_sensitivities:
            return self
        return self.filter(Q(rights__max_sensitivity__in=rights.sensitivities))

    def with_effective_state(self) -> JobQuerySet:
        """Adds `effective_state`, in which a job without heartbeat is lost before `mark_lost` has stored it, and `read_at`."""
        state = Case(When(_is_lost(), then=Value(JobState.LOST)), default=F("state"))
        added: dict[str, Any] = {"effective_state": state, "read_at": Now()}
        return self.annotate(**added)

    def in_states(self, *states: str) -> JobQuerySet:
        """Those in these effective states; needs `with_effective_state`."""
        return self.filter(Q(effective_state__in=states))

    def running_first(self) -> JobQuerySet:
        first = Case(
            When(effective_state__in=ACTIVE, then=0), default=1, output_field=models.SmallIntegerField()
        )
        return self.order_by(first, "-created_at", "-pk")

    def claim(self, *, kinds: Collection[str], pk: uuid.UUID | None = None) -> Job | None:
        """Claims the oldest job that waits for a runner, or the job `pk`; None if there is none."""
        waiting = self.filter(Q(state=JobState.QUEUED) | Q(state=JobState.CANCELLING, claim_id=None))
        waiting = waiting.filter(kind__in=kinds, **({"pk": pk} if pk else {}))
        with transaction.atomic(using=self.db):
            found = waiting.order_by("created_at").select_for_update(skip_locked=True, no_key=True).first()
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
        return self.filter(pk=job.pk, claim_id=job.claim_id, state__in=CLAIMED)

    def heartbeat(self, job: Job) -> bool:
        """Records that the runner is alive."""
        return bool(self._ours(job).update(heartbeat_at=Now()))

    def record_progress(self, job: Job, changes: Mapping[str, Any]) -> bool:
        """Stores the fields that a batch has changed, if the claim still holds."""
        return bool(self._ours(job).update(**changes, heartbeat_at=Now(), attempts=0))

    def finish(self, job: Job, outcome: JobState, *, error: str = "") -> bool:
        """Ends the job as `outcome`, or as cancelled if it is cancelling."""
        if outcome not in {JobState.SUCCEEDED, JobState.PARTIAL, JobState.FAILED}:
            raise ValueError(f"{outcome} is not an end")
        state = Case(When(state=JobState.CANCELLING, then=Value(JobState.CANCELLED)), default=Value(outcome))
        # A retry that was cancelled is still a retry when it is resumed.
        unchanged = [When(state=JobState.CANCELLING, then=F("only_failures"))]
        only_failures = (
            F("only_failures") if outcome == JobState.FAILED else Case(*unchanged, default=Value(False))
        )
        return bool(
            self._ours(job).update(
                state=state,
                claim_id=None,
                concurrency_key=None,
                finished_at=Now(),
                error=error[:ERROR_LENGTH],
                only_failures=only_failures,
            )
        )

    def release(self, job: Job) -> bool:
        """Leaves the job to the next runner; a cancelling one stays cancelling."""
        state = Case(When(state=JobState.RUNNING, then=Value(JobState.QUEUED)), default=F("state"))
        return bool(self._ours(job).update(state=state, claim_id=None, heartbeat_at=Now()))

    def cancel(self, pk: uuid.UUID) -> bool:
        """Lets the runner end the job after its batch; a job that was never started is cancelled at once."""
        new = self.filter(pk=pk, state=JobState.QUEUED, started_at=None)
        if new.update(state=JobState.CANCELLED, concurrency_key=None, finished_at=Now()):
            return True
        if self.filter(pk=pk, state=JobState.RUNNING).update(state=JobState.CANCELLING):
            return True
        unclaimed = self.filter(pk=pk, state__in=(JobState.QUEUED, JobState.LOST))
        return bool(unclaimed.update(state=JobState.CANCELLING, claim_id=None, heartbeat_at=Now()))

    def resume(self, pk: uuid.UUID, *, concurrency_key: str | None) -> bool:
        """Queues the job again; a runner goes on from its cursor."""
        over = self.filter(pk=pk, state__in=CAN_RESUME)
        return bool(over.update(**QUEUED_AGAIN, claim_id=None, concurrency_key=concurrency_key))

    def retry_failed(self, pk: uuid.UUID, *, concurrency_key: str | None) -> bool:
        """Queues the job again, for its failures only."""
        over = self.filter(pk=pk, state__in=CAN_RETRY, failed__gt=0)
        return bool(over.update(**QUEUED_AGAIN, only_failures=True, concurrency_key=concurrency_key))

    def mark_lost(self) -> int:
        """Marks the jobs without heartbeat as lost, and takes the claim from their runners; returns how many."""
        return self.filter(_is_lost()).update(state=JobState.LOST, claim_id=None, concurrency_key=None)


JobManager = TenantManager.from_queryset(JobQuerySet)


class Job(TenantModel):
    """One piece of long work. Read it through portal.jobs.services, which add `effective_state`."""

    kind = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    requested_by = models.CharField(max_length=200)
    # Of who started it, with which it runs (Rights.as_row); empty: the tenant's own.
    rights = models.JSONField(
        default=dict, db_default=Value({}, output_field=models.JSONField()), editable=False
    )
    args = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.QUEUED)
    # No two active jobs of a kind have the same. Null: any number may run. A kind may clear it before its end.
    concurrency_key = models.CharField(max_length=200, null=True, blank=True, db_column="scope")  # noqa: DJ001
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
    # The counts when it was claimed, so that the rate is of this run.
    done_before = models.IntegerField(default=0)
    processed_before = models.IntegerField(default=0)

    # Set by JobQuerySet.with_effective_state().
    effective_state: str
    read_at: datetime

    objects: ClassVar[JobManager[Job]] = JobManager()
    # For the worker's login, whose policy shows it the jobs of all tenants.
    all_tenants = JobQuerySet.as_manager()

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            models.UniqueConstraint(
                fields=["tenant", "kind", "concurrency_key"],
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
            # Serves JobQuerySet.claim and mark_lost.
            models.Index(
                fields=["created_at"],
                condition=models.Q(state__in=["queued", "running", "cancelling"]),
                name="job_active",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.title} ({self.state})"

    def in_tenant(self) -> AbstractContextManager[None]:
        """Opens the context of the job's tenant, for a runner, which has none of its own."""
        return tenant_context(cast(uuid.UUID, self.tenant_id))

    @property
    def own_rights(self) -> Rights:
        """Those with which it runs."""
        return Rights.of_row(cast(uuid.UUID, self.tenant_id), self.requested_by, self.rights)

    @property
    def shown_error(self) -> str:
        """Its error, which may name any tool that it worked on, for those who may see all that it sees; else empty."""
        return self.error if current_rights().covers(self.own_rights) else ""

    @property
    def is_active(self) -> bool:
        return self.effective_state in ACTIVE

    @property
    def can_cancel(self) -> bool:
        return self.effective_state in CAN_CANCEL

    @property
    def can_resume(self) -> bool:
        return self.effective_state in CAN_RESUME

    @property
    def can_retry(self) -> bool:
        return self.effective_state in CAN_RETRY and self.failed > 0

    def as_dict(self) -> dict[str, Any]:
        """Returns the job in JSON's types, for the API and the commands; times are RFC 3339."""
        progress = self.progress
        times = {name: getattr(self, name) for name in ("created_at", "started_at", "finished_at")}
        return {
            "id": str(self.pk),
            "kind": self.kind,
            "title": self.title,
            "state": self.effective_state,
            "stage": self.stage,
            "requested_by": self.requested_by,
            "total": progress.total,
            "done": progress.done,
            "failed": progress.failed,
            "skipped": progress.skipped,
            "rate": progress.rate,
            "eta_seconds": progress.eta_seconds,
            "error": self.shown_error or None,
            **{name: at and at.isoformat().replace("+00:00", "Z") for name, at in times.items()},
        }

    @property
    def log_lines(self) -> list[LogLine]:
        """Its log, shown as its error is."""
        if not current_rights().covers(self.own_rights):
            return []
        return [LogLine(datetime.fromisoformat(line["at"]), line["text"]) for line in self.log]

    @property
    def duration_seconds(self) -> float | None:
        """Seconds from its first claim to its end, or until now."""
        if self.started_at is None:
            return None
        return max(0.0, ((self.finished_at or self.read_at) - self.started_at).total_seconds())

    @property
    def progress(self) -> Progress:
        processed = self.done + self.failed + self.skipped
        rate = self._rate(processed)
        left = max(0, self.total - processed) if self.total is not None else None
        running = self.effective_state == JobState.RUNNING
        return Progress(
            total=self.total,
            processed=processed,
            done=self.done,
            failed=self.failed,
            skipped=self.skipped,
            percent=self._percent(processed),
            rate=rate,
            eta_seconds=round(left / rate) if running and rate and left is not None else None,
        )

    def _percent(self, processed: int) -> int | None:
        """None until there is something to count; a job that has succeeded is at 100, whatever it had to count."""
        if self.effective_state == JobState.SUCCEEDED:
            return 100
        return min(100, 100 * processed // self.total) if self.total else None

    def _rate(self, processed: int) -> float | None:
        if self.claimed_at is None:
            return None
        seconds = ((self.finished_at or self.read_at) - self.claimed_at).total_seconds()
        # Skipped items cost nearly nothing, so they count only if there are no others.
        worked = self.done + self.failed - self.done_before or processed - self.processed_before
        return round(worked / seconds, 2) if seconds > 0 and worked > 0 else None


class JobFailure(TenantModel):
    """An item that failed in a job, with its error; `retried_at` is set while it is tried again."""

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
    """The last heartbeat of a process that works on a queue. It belongs to the whole installation, not to a tenant."""

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
