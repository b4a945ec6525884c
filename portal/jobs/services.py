"""Services for jobs: start, estimate, list, cancel, resume, retry. Each runs in the tenant's context and takes no request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Count, Q, QuerySet, Window
from django.db.models.functions import Coalesce, Now, RowNumber

from portal.jobs import kinds
from portal.jobs.errors import AlreadyRunning, InvalidArguments, TooManyJobs, WrongState
from portal.jobs.kinds import Estimate, JobKind
from portal.jobs.models import Job, JobFailure, JobState
from portal.jobs.states import ACTIVE
from portal.jobs.transitions import JobQuerySet
from portal.resilience.wakeup import Notifier
from portal.tenancy.context import tenant_context, tenant_ids
from portal.tenancy.rights import current_rights

GROUPS, EXAMPLES = 50, 5
# Without it a runner polls every JOB_POLL seconds.
wakeup = Notifier("portal.ops.tasks.work_on_jobs", queue="default")


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The failures with one error, and the labels of the first few items."""

    error: str
    count: int
    labels: list[str]

    def __str__(self) -> str:
        return f"{self.count:,} failed: {self.error} ({', '.join(self.labels)})"


def start(kind: str, args: Mapping[str, object], *, by: str) -> Job:
    """Queues a new job for a runner, which runs it with the rights of its caller. Raises InvalidArguments,
    AlreadyRunning, TooManyJobs."""
    known = _kind(kind)
    parsed = known.arguments.parse(args)
    total, _ = known.count(parsed)
    job = Job(
        kind=kind,
        title=known.title(parsed)[:200],
        requested_by=by[:200],
        rights=current_rights().as_row(),
        args=parsed,
        concurrency_key=known.concurrency_key(parsed),
        total=total,
    )
    _exclusively(job.kind, job.concurrency_key, lambda: job.save(force_insert=True))
    wakeup.notify_on_commit()
    return find(job.pk)


def estimate(kind: str, args: Mapping[str, object]) -> Estimate:
    """Counts the items of such a job and how long they would take; writes nothing. Raises InvalidArguments."""
    known = _kind(kind)
    total, to_do = known.count(known.arguments.parse(args))
    rate = _measured_rate(kind)
    return Estimate(total or 0, to_do, rate or known.usual_rate, measured=rate is not None)


def _measured_rate(kind: str) -> float | None:
    """The rate of the last job of this kind that has done at least 20 items."""
    ended = jobs(kind=kind).filter(state__in=[JobState.SUCCEEDED, JobState.PARTIAL], done__gte=20)
    last = ended.order_by("-finished_at").first()
    rate: float | None = last.progress.rate if last else None
    return rate


def _kind(name: str) -> JobKind:
    try:
        return kinds.get(name)
    except KeyError as error:
        known = ", ".join(sorted(one.name for one in kinds.all_kinds()))
        raise InvalidArguments({"kind": [f"There is no such kind of job. Known: {known}."]}) from error


def _exclusively(kind: str, concurrency_key: str | None, write: Callable[[], object]) -> None:
    """Runs the write, after which one more job is active. Raises AlreadyRunning if an active job has the concurrency key, and
    TooManyJobs beyond JOB_MAX_ACTIVE; requests at the same moment may exceed that by their number."""
    # A job that is lost does not count as active, even if no loop has stored that yet.
    Job.objects.take_up_lost()
    try:
        with transaction.atomic():
            write()
            if Job.objects.filter(state__in=ACTIVE).count() > settings.JOB_MAX_ACTIVE:
                raise TooManyJobs(settings.JOB_MAX_ACTIVE)
    except IntegrityError as error:
        diagnostic = getattr(error.__cause__, "diag", None)
        if getattr(diagnostic, "constraint_name", None) != "job_one_per_scope":
            raise
        other = (
            Job.objects.with_effective_state()
            .filter(kind=kind, concurrency_key=concurrency_key, state__in=ACTIVE)
            .first()
        )
        if other is None:
            raise WrongState("A job like this one has just ended. Try again.") from error
        if not Job.objects.seen().filter(pk=other.pk).exists():
            raise WrongState("A job like this one is not over yet. Try again later.") from error
        raise AlreadyRunning(other) from error


def jobs(*, kind: str = "", state: str = "", by: str = "") -> JobQuerySet:
    """The jobs that the caller may know of, newest first, without the columns that only the page of one job needs."""
    found: JobQuerySet = (
        Job.objects.seen()
        .with_effective_state()
        .defer("args", "log", "cursor")
        .order_by("-created_at", "-pk")
    )
    if kind:
        found = found.filter(kind=kind)
    if state:
        found = found.in_states(state)
    return found.filter(requested_by=by) if by else found


def active() -> JobQuerySet:
    """The jobs that are neither over nor lost."""
    # The stored state comes first, for the index: every page runs this.
    return jobs().filter(state__in=ACTIVE).in_states(*ACTIVE)


def find(pk: UUID) -> Job:
    """One job as it is now. Raises Job.DoesNotExist, also for one that the caller may not know of."""
    job: Job = Job.objects.seen().with_effective_state().get(pk=pk)
    return job


def cancel(pk: UUID) -> Job:
    """Ends the job after its current batch. Raises WrongState, Job.DoesNotExist."""
    job = find(pk)
    if not Job.objects.cancel(pk) and find(pk).state not in {JobState.CANCELLING, JobState.CANCELLED}:
        raise WrongState(f"This job is over ({job.effective_state}), so there is nothing to cancel.")
    wakeup.notify_on_commit()
    return find(pk)


def resume(pk: UUID) -> Job:
    """Queues the job again, from where it stopped. Raises WrongState, AlreadyRunning, TooManyJobs, Job.DoesNotExist."""
    Job.objects.take_up_lost()
    job = find(pk)
    if job.state == JobState.QUEUED and job.resumes:
        return job  # it has just been resumed by itself
    key = _kind(job.kind).concurrency_key(job.args)
    return _queue_again(
        job, key, Job.objects.resume, "Only a job that was cancelled, lost or failed can go on"
    )


def retry_failed(pk: UUID) -> Job:
    """Queues a job that has ended again, for its failures only. Raises the errors of `resume`."""
    rule = "Only a job that ended with failures has some to retry"
    return _queue_again(find(pk), None, Job.objects.retry_failed, rule)


def _queue_again(job: Job, concurrency_key: str | None, change: Callable[..., bool], rule: str) -> Job:
    """Runs the change, which returns whether the job's state allowed it; `rule` tells the operator which states do."""

    def write() -> None:
        if not change(job.pk, concurrency_key=concurrency_key):
            raise WrongState(f"{rule}; this one is {find(job.pk).effective_state}.")

    _exclusively(job.kind, concurrency_key, write)
    wakeup.notify_on_commit()
    return find(job.pk)


def failures(pk: UUID) -> QuerySet[JobFailure]:
    """The failures that were not retried, the latest first, of items that the caller may see."""
    found = JobFailure.objects.filter(job_id=pk, retried_at=None).order_by("-failed_at", "-pk")
    return seen_failures(found)


def seen_failures(rows: QuerySet[JobFailure]) -> QuerySet[JobFailure]:
    """Those of jobs and items that the caller may see."""
    if current_rights().sees_everything:
        return rows
    shown = Q(pk__in=[])
    for kind in kinds.all_kinds():
        if kind.seen_items is not None:
            shown |= Q(job__kind=kind.name, item_id__in=kind.seen_items().values("pk"))
    return rows.filter(shown, job__in=Job.objects.seen())


def failures_by_error(pk: UUID) -> list[FailureGroup]:
    """The failures grouped by error, the most frequent first. One query, because the page of a job asks every two seconds."""
    placed = failures(pk).annotate(
        count=Window(Count("pk"), partition_by="error"),
        place=Window(RowNumber(), partition_by="error", order_by="label"),
    )
    examples = placed.filter(place__lte=EXAMPLES).order_by("-count", "error", "place")
    groups: dict[str, FailureGroup] = {}
    for error, count, label in examples.values_list("error", "count", "label")[: GROUPS * EXAMPLES]:
        groups.setdefault(error, FailureGroup(error, count, [])).labels.append(label)
    return list(groups.values())[:GROUPS]


def prune_jobs(older_than: timedelta | None = None) -> int:
    """Deletes the jobs of every tenant that ended longer ago (default: JOB_KEEP_DAYS); returns how many. Needs the worker's login."""
    if older_than is None:
        older_than = timedelta(days=settings.JOB_KEEP_DAYS)
    pruned = 0
    ended = Coalesce("finished_at", "heartbeat_at", "created_at")  # a lost job has not finished
    for tenant_id in tenant_ids():
        with tenant_context(tenant_id):
            over = Job.objects.exclude(state__in=ACTIVE).alias(ended=ended)
            pruned += over.filter(ended__lt=Now() - older_than).delete()[1].get("jobs.Job", 0)
    return pruned
