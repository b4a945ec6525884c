"""Jobs: long work that people start, watch and stop. states.py names the states, transitions.py draws their order."""

from __future__ import annotations

import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, cast

from django.db import models
from django.db.models.functions import Now

from portal.error_text import ErrorField
from portal.jobs.progress import Progress
from portal.jobs.states import ACTIVE, CAN_CANCEL, CAN_RESUME, CAN_RETRY, JobState
from portal.jobs.transitions import JobQuerySet
from portal.tenancy.context import tenant_context
from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey
from portal.tenancy.models import TenantManager, TenantModel
from portal.tenancy.rights import Rights, current_rights

__all__ = ["Job", "JobFailure", "JobState", "WorkerHeartbeat"]

LABEL_LENGTH = 200


@dataclass(frozen=True, slots=True)
class LogLine:
    at: datetime
    text: str


JobManager = TenantManager.from_queryset(JobQuerySet)


class Job(TenantModel):
    """One piece of long work. Read it through portal.jobs.services, which add `effective_state`."""

    kind = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    requested_by = models.CharField(max_length=200)
    # Of who started it, with which it runs (Rights.as_row); empty: the tenant's own.
    rights = models.JSONField(
        default=dict, db_default=models.Value({}, output_field=models.JSONField()), editable=False
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
    error = ErrorField(blank=True, default="")
    claim_id = models.UUIDField(null=True, blank=True)
    attempts = models.SmallIntegerField(default=0)  # claims since the last batch
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    claimed_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    served_at = models.DateTimeField(null=True, blank=True)  # its last claim: whose turn it is
    due_at = models.DateTimeField(null=True, blank=True)  # while it gives way: when it may be claimed again
    # How often it went on by itself after its runner died, since a person started or resumed it.
    resumes = models.SmallIntegerField(default=0, db_default=0)
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
            # Serves JobQuerySet.claim, which asks when each tenant was served last.
            models.Index(
                fields=["tenant", "-served_at"],
                condition=models.Q(served_at__isnull=False),
                name="job_tenant_served",
            ),
            # Serves JobQuerySet.due and take_up_lost.
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
            "resumes": self.resumes,
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
        if self.claimed_at is None or self.effective_state == JobState.QUEUED:
            return None
        seconds = ((self.finished_at or self.read_at) - self.claimed_at).total_seconds()
        # Skipped items cost nearly nothing, so they count only if there are no others.
        worked = self.done + self.failed - self.done_before or processed - self.processed_before
        return round(worked / seconds, 2) if seconds > 0 and worked > 0 else None


class JobFailure(TenantModel):
    """An item that failed in a job, with its error; `retried_at` is set while it is tried again."""

    job = TenantForeignKey(Job, on_delete=models.CASCADE, related_name="failures", db_index=False)
    item_id = models.UUIDField()
    label = models.CharField(max_length=LABEL_LENGTH)
    error = ErrorField()
    failed_at = models.DateTimeField(db_default=Now())
    retried_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
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
