"""The transitions between the states of a job. An arrow is the method of JobQuerySet that takes it, each a compare-and-set:

    (new) -start-> queued -claim-> running -finish-> succeeded | partial (some items failed) | failed (it could not go on)
    running -release (its process ends in good order)-> queued
    running -give_way (another job's turn)-> queued
    queued (never started) -cancel-> cancelled
    queued (started), running, lost -cancel-> cancelling -finish-> cancelled
    running -take_up_lost (no heartbeat for JOB_LOST_SECONDS)-> queued, after JOB_MAX_RESUMES of them lost
    cancelling -take_up_lost-> cancelling (without a claim), after JOB_MAX_RESUMES of them lost
    cancelled, lost, failed -resume-> queued        partial -retry_failed-> queued

The runner of a job holds its claim id, which every later runner replaces: the fence. A `cancelling` job without a claim waits for
a runner that cleans up. The cursor tells where the work goes on, and is written in the transaction of the work that it tells of.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import Case, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce, Greatest, Now

from portal.jobs import kinds
from portal.jobs.states import (
    ACTIVE,
    CAN_RESUME,
    CAN_RETRY,
    CLAIMED,
    QUEUED_AGAIN,
    JobState,
    with_line,
)
from portal.tenancy.rights import current_rights

if TYPE_CHECKING:
    from portal.jobs.models import Job


log = logging.getLogger(__name__)


def _is_silent() -> Q:
    return Q(state__in=CLAIMED, heartbeat_at__lt=Now() - timedelta(seconds=settings.JOB_LOST_SECONDS))


def _is_lost() -> Q:
    return _is_silent() & Q(resumes__gte=settings.JOB_MAX_RESUMES)


def _gave_way() -> Q:
    alive = Now() - timedelta(seconds=settings.JOB_LOST_SECONDS)
    return Q(state=JobState.QUEUED, due_at__isnull=False, heartbeat_at__gte=alive)


class JobQuerySet(models.QuerySet["Job"]):
    """The transitions, each only from the states that allow it; they return whether the row was changed."""

    def seen(self) -> JobQuerySet:
        """Those that the current caller may know of: a job tells of all tools that its own rights let it work on, and its title
        and arguments may name a source."""
        rights = current_rights()
        if rights.sees_everything:
            return self
        found = self
        if not rights.sees_all_sensitivities:
            found = found.filter(Q(rights__max_sensitivity__in=rights.sensitivities))
        for kind in kinds.all_kinds():
            if kind.seen_jobs is not None:
                found = found.filter(~Q(kind=kind.name) | kind.seen_jobs())
        return found

    def with_effective_state(self) -> JobQuerySet:
        """Adds `effective_state` and `read_at`. A job whose runner is silent is lost or queued before `take_up_lost` has stored it,
        and one that gives way to another job runs."""
        state = Case(
            When(_is_lost(), then=Value(JobState.LOST)),
            When(_is_silent() & Q(state=JobState.RUNNING), then=Value(JobState.QUEUED)),
            When(_gave_way(), then=Value(JobState.RUNNING)),
            default=F("state"),
        )
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

    def due(self, kinds: Collection[str]) -> JobQuerySet:
        """Those of these kinds that wait for a runner and may be claimed now."""
        is_due = Q(due_at=None) | Q(due_at__lte=Now())
        waits = Q(state=JobState.QUEUED) & is_due | Q(state=JobState.CANCELLING, claim_id=None)
        # All of ACTIVE, for the partial index.
        return self.filter(waits, state__in=ACTIVE, kind__in=kinds)

    def claim(self, *, kinds: Collection[str], pk: uuid.UUID | None = None) -> Job | None:
        """Claims the job whose turn it is, or the job `pk`; None if none is due. The tenant that was served longest ago comes
        first, and in it the job that was: one that has never run, else the one that gave way first (SEC-5)."""
        of_tenant = self.model.all_tenants.filter(tenant_id=OuterRef("tenant_id"), served_at__isnull=False)
        served = Subquery(of_tenant.order_by("-served_at").values("served_at")[:1])
        waiting = self.due(kinds).filter(**({"pk": pk} if pk else {}))
        turns = waiting.annotate(tenant_served_at=served).order_by(
            F("tenant_served_at").asc(nulls_first=True), F("served_at").asc(nulls_first=True), "created_at"
        )
        goes_on = Q(due_at__isnull=False)  # the run that gave way
        with transaction.atomic(using=self.db):
            found = turns.select_for_update(skip_locked=True, no_key=True, of=("self",)).first()
            if found is None:
                return None
            self.filter(pk=found.pk).update(
                state=Case(When(state=JobState.QUEUED, then=Value(JobState.RUNNING)), default=F("state")),
                claim_id=uuid.uuid4(),
                attempts=F("attempts") + 1,
                heartbeat_at=Now(),
                served_at=Now(),
                due_at=None,
                claimed_at=Case(When(goes_on, then=F("claimed_at")), default=Now()),
                started_at=Coalesce(F("started_at"), Now()),
                finished_at=None,
                done_before=Case(When(goes_on, then=F("done_before")), default=F("done") + F("failed")),
                processed_before=Case(
                    When(goes_on, then=F("processed_before")), default=F("done") + F("failed") + F("skipped")
                ),
                error="",
            )
            return self.with_effective_state().get(pk=found.pk)

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
                error=error,
                only_failures=only_failures,
            )
        )

    def release(self, job: Job) -> bool:
        """Leaves the job to the next runner; a cancelling one stays cancelling."""
        return self._leave(job)

    def give_way(self, job: Job, *, seconds: float) -> bool:
        """As `release`, since it is another job's turn: it may be claimed again after `seconds`, counts as running until then, and
        its claim is no attempt."""
        due_at = Now() + timedelta(seconds=seconds)
        return self._leave(job, due_at=due_at, attempts=Greatest(F("attempts") - 1, 0))

    def _leave(self, job: Job, **changes: Any) -> bool:
        state = Case(When(state=JobState.RUNNING, then=Value(JobState.QUEUED)), default=F("state"))
        return bool(self._ours(job).update(state=state, claim_id=None, heartbeat_at=Now(), **changes))

    def cancel(self, pk: uuid.UUID) -> bool:
        """Lets the runner end the job after its batch; a job that was never started is cancelled at once."""
        new = self.filter(pk=pk, state=JobState.QUEUED, started_at=None)
        if new.update(state=JobState.CANCELLED, concurrency_key=None, finished_at=Now()):
            return True
        if self.filter(pk=pk, state=JobState.RUNNING).update(state=JobState.CANCELLING):
            return True
        unclaimed = self.filter(pk=pk, state__in=(JobState.QUEUED, JobState.LOST))
        return bool(
            unclaimed.update(state=JobState.CANCELLING, claim_id=None, due_at=None, heartbeat_at=Now())
        )

    def resume(self, pk: uuid.UUID, *, concurrency_key: str | None) -> bool:
        """Queues the job again; a runner goes on from its cursor."""
        over = self.filter(pk=pk, state__in=CAN_RESUME)
        return bool(over.update(**QUEUED_AGAIN, claim_id=None, concurrency_key=concurrency_key))

    def retry_failed(self, pk: uuid.UUID, *, concurrency_key: str | None) -> bool:
        """Queues the job again, for its failures only."""
        over = self.filter(pk=pk, state__in=CAN_RETRY, failed__gt=0)
        return bool(over.update(**QUEUED_AGAIN, only_failures=True, concurrency_key=concurrency_key))

    def take_up_lost(self) -> int:
        """Takes the jobs without heartbeat from their runners, and returns how many. Another runner goes on from the cursor,
        JOB_MAX_RESUMES times; then the job is lost and waits for a person, as it may be what ends its runners."""
        most = settings.JOB_MAX_RESUMES
        with transaction.atomic(using=self.db):
            silent = self.with_effective_state().filter(_is_silent())
            found = list(silent.select_for_update(skip_locked=True, no_key=True))
            for job in found:
                if job.resumes >= most:
                    changes: dict[str, Any] = {"state": JobState.LOST, "concurrency_key": None}
                    before = f"The job has been resumed {most} times already. " if most else ""
                    text = f"The worker stopped reporting. {before}It waits until somebody resumes it."
                elif job.state == JobState.CANCELLING:
                    changes = {"resumes": job.resumes + 1}
                    text = "The worker stopped reporting. Another worker ends the job."
                else:
                    changes = {"state": JobState.QUEUED, "resumes": job.resumes + 1}
                    text = (
                        f"The worker stopped reporting. The job is resumed from where it stopped (time {job.resumes + 1} of "
                        f"{most})."
                    )
                log.warning("Job %s (%s): %s", job.pk, job.kind, text)
                lines = with_line(job.log, text, at=job.read_at)
                self.filter(pk=job.pk).update(**changes, claim_id=None, due_at=None, log=lines)
        return len(found)
