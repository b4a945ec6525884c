"""The kinds of job of imports: sync a source, and apply a plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast
from uuid import UUID

from django.template.defaultfilters import pluralize
from rest_framework import serializers

from portal.jobs.arguments import Arguments, Fields, Flag, Id, JobArguments
from portal.jobs.context import Context
from portal.jobs.errors import Cancelled, CannotGoOn
from portal.jobs.kinds import JobKind
from tools.catalogue.errors import CatalogueError, RemovalsNeedConfirmation
from tools.catalogue.visibility import jobs_of_seen_sources, require_whole, seen
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import NOT_READABLE
from tools.models import Source, Sync, SyncState

SYNC, APPLY = "sync_source", "apply_sync"
NOTHING_CHOSEN = "Nothing is chosen, so there is nothing to apply."
USUAL_RATE = 300.0
"""Tools a second on two processors; used until a job of the installation has been measured."""


# --- Sync a source ----------------------------------------------------------------------------------------------------
class SyncArguments(JobArguments):
    """Which source is read, and whether its plan is applied."""

    def get_fields(self) -> Fields:
        return {
            "source": serializers.CharField(trim_whitespace=False, help_text="The slug."),
            "apply": Flag(),
            "confirm_removals": Flag(),
        }

    def validate(self, data: Arguments) -> Arguments:
        source = seen(Source.objects.filter(slug=data["source"])).first()
        if source is None:
            raise serializers.ValidationError({"source": ["There is no such source."]})
        if not source.is_readable:
            raise serializers.ValidationError({"source": [NOT_READABLE]})
        require_whole(source)
        return {
            "source": source.slug,
            "source_id": str(source.pk),
            "apply": data.get("apply", False),
            "confirm_removals": data.get("confirm_removals", False),
        }


def _run_sync(context: Context) -> bool:
    """Reads and plans, and applies where that was asked for; what needs a person stays planned."""
    args, job = context.args, context.job
    sync_id = context.cursor.get("sync")
    if sync_id is None:
        with job.in_tenant():
            context.batch(stage="reading")
            recorded = Sync.objects.filter(source_id=args["source_id"]).exclude(state=SyncState.FAILED)
            last = recorded.values_list("pk", flat=True).first()
        with _refusals_end_the_job():
            sync = syncs.plan_source(
                tenant_id=cast(UUID, job.tenant_id), source_id=UUID(args["source_id"]), actor=job.requested_by
            )
        with job.in_tenant():
            is_waiting = bool(Sync.objects.filter(pk=sync.pk, state=SyncState.PLANNED).update(job_id=job.pk))
            is_news = sync.pk != last
            context.batch(
                cursor={"sync": str(sync.pk)},
                stage="planned",
                log=f"Found {_summary(sync)}."
                if is_news
                else "Nothing is new. The plan waits."
                if is_waiting
                else "Nothing is new.",
            )
        sync_id = str(sync.pk)
        if args["apply"] and context.stopping() == "stop":
            return False
    with job.in_tenant():
        state = Sync.objects.filter(pk=sync_id).values_list("state", flat=True).first()
    if not args["apply"] or state != SyncState.PLANNED:
        return True
    with job.in_tenant():
        # Only what is applied is counted: a plan that waits is no work that was left undone.
        context.batch(total=Sync.objects.get(pk=sync_id).changes.count())
    try:
        _apply(context, UUID(sync_id), None, confirm_removals=args["confirm_removals"])
    except RemovalsNeedConfirmation as error:
        with job.in_tenant():
            context.batch(log=f"{error} The plan waits.", stage="planned", total=0)
    return True


def _summary(sync: Sync) -> str:
    found = sync.summary
    names = ("added", "changed", "moved", "removed", "unchanged")
    return ", ".join(f"{found.get(name, 0):,} {name}" for name in names)


# --- Apply a plan -----------------------------------------------------------------------------------------------------
class ApplyArguments(JobArguments):
    """Which plan is applied, and which of its changes."""

    sync = Id()
    changes = serializers.ListField(
        child=Id(), required=False, allow_null=True, allow_empty=False, help_text="Null for all.",
        error_messages={"empty": NOTHING_CHOSEN},
    )  # fmt: skip
    confirm_removals = Flag()

    def validate(self, data: Arguments) -> Arguments:
        sync = Sync.objects.select_related("source").filter(pk=data["sync"]).first()
        if sync is None:
            raise serializers.ValidationError({"sync": ["There is no such sync."]})
        require_whole(sync.source)
        if sync.state != SyncState.PLANNED:
            raise serializers.ValidationError({"sync": [sync.over]})
        changes = data.get("changes")
        if changes and sync.changes.filter(pk__in=changes).count() != len(set(changes)):
            raise serializers.ValidationError({"changes": ["Not all of these are changes of this sync."]})
        return {
            "sync": str(sync.pk),
            "source": sync.source.slug,
            "changes": None if changes is None else sorted({str(one) for one in changes}),
            "confirm_removals": data.get("confirm_removals", False),
        }


def _count_apply(args: Arguments) -> tuple[int, int]:
    chosen = args["changes"]
    count = Sync.objects.get(pk=args["sync"]).changes.count() if chosen is None else len(chosen)
    return count, count


def _run_apply(context: Context) -> bool:
    if context.cursor.get("applied"):
        return True  # it was killed between its last write and its end
    args = context.args
    chosen = None if args["changes"] is None else [UUID(one) for one in args["changes"]]
    with context.job.in_tenant():
        Sync.objects.filter(pk=args["sync"], state=SyncState.PLANNED).update(job_id=context.job.pk)
        context.batch(stage="applying")
    try:
        _apply(context, UUID(args["sync"]), chosen, confirm_removals=args["confirm_removals"])
    except RemovalsNeedConfirmation as error:
        raise CannotGoOn(str(error)) from error
    return True


def _apply(context: Context, sync_id: UUID, chosen: list[UUID] | None, *, confirm_removals: bool) -> None:
    """One transaction, which a cancelled or a lost job undoes as a whole."""
    job = context.job
    try:
        with _refusals_end_the_job(), context.reporting() as report_progress:
            report = syncs.apply_sync(
                tenant_id=cast(UUID, job.tenant_id), sync_id=sync_id, actor=job.requested_by, chosen=chosen,
                confirm_removals=confirm_removals, progress=report_progress,
                # The fence: a job that was taken from this process has applied nothing.
                finish=lambda: context.batch(cursor={**context.cursor, "applied": True}),
            )  # fmt: skip
    except Cancelled:
        with job.in_tenant():
            context.batch(done=0, log="Cancelled: nothing was applied.")
        return
    applied = report.added + report.changed + report.moved + report.removed
    with job.in_tenant():
        context.batch(done=applied, stage="applied", log=f"Applied {applied:,} change{pluralize(applied)}.")


@contextmanager
def _refusals_end_the_job() -> Iterator[None]:
    """What the catalogue refuses ends the job with that sentence; removals are for the caller to decide about."""
    try:
        yield
    except RemovalsNeedConfirmation:
        raise
    except (CatalogueError, DocumentRefused) as error:
        raise CannotGoOn(str(error)) from error
    except (Source.DoesNotExist, Sync.DoesNotExist) as error:
        raise CannotGoOn("The source was deleted in the meantime.") from error


KINDS = (
    JobKind(
        name=SYNC,
        label="Sync of a source",
        queues=("jobs",),
        arguments=SyncArguments,
        title=lambda args: f"Sync of {args['source']}",
        concurrency_key=lambda args: args["source_id"],
        count=lambda _: (None, 0),
        run=_run_sync,
        usual_rate=USUAL_RATE,
        seen_jobs=jobs_of_seen_sources,
    ),
    JobKind(
        name=APPLY,
        label="Applying a plan",
        queues=("jobs",),
        arguments=ApplyArguments,
        title=lambda args: f"Applying the plan of {args['source']}",
        concurrency_key=lambda args: args["sync"],
        count=_count_apply,
        run=_run_apply,
        usual_rate=USUAL_RATE,
        seen_jobs=jobs_of_seen_sources,
    ),
)
