"""The kinds of job of imports: a source that is read anew, and a plan that is applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

from portal.jobs.context import Context
from portal.jobs.errors import Cancelled, CannotGoOn, InvalidArguments
from portal.jobs.kinds import Arguments, JobKind
from tools.catalogue.errors import CatalogueError, RemovalsNeedConfirmation
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import NOT_READABLE
from tools.models import Source, Sync, SyncState

SYNC, APPLY = "sync_source", "apply_sync"
NOTHING_CHOSEN = "Nothing is chosen, so there is nothing to apply."
USUAL_RATE = 300.0
"""Tools a second on two processors; used until a job of the installation has been measured."""


def _flag(given: Mapping[str, Any], name: str, errors: dict[str, list[str]]) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        errors[name] = ["True or false, please."]
    return value is True


def _checked(given: Mapping[str, Any], known: set[str]) -> dict[str, list[str]]:
    sentence = f"There is no such argument. Known: {', '.join(sorted(known))}."
    return {name: [sentence] for name in given if name not in known}


# --- Read a source anew -----------------------------------------------------------------------------------------------
def _parse_sync(given: Mapping[str, Any]) -> Arguments:
    errors = _checked(given, {"source", "apply", "confirm_removals"})
    slug = given.get("source")
    source = Source.objects.filter(slug=slug).first() if isinstance(slug, str) and "\0" not in slug else None
    if source is None:
        errors["source"] = ["There is no such source."]
    elif not source.is_readable:
        errors["source"] = [NOT_READABLE]
    args = {name: _flag(given, name, errors) for name in ("apply", "confirm_removals")}
    if errors or source is None:
        raise InvalidArguments(errors)
    return {"source": source.slug, "source_id": str(source.pk), **args}


def _run_sync(context: Context) -> bool:
    """Reads and plans, and applies where that was asked for; what needs a person stays planned."""
    args, job = context.args, context.job
    sync_id = context.cursor.get("sync")
    if sync_id is None:
        with job.in_tenant():
            context.batch(stage="reading")
            told = Sync.objects.filter(source_id=args["source_id"]).exclude(state=SyncState.FAILED)
            last = told.values_list("pk", flat=True).first()
        with _sentences():
            sync = syncs.plan_source(
                tenant_id=cast(UUID, job.tenant_id), source_id=UUID(args["source_id"]), actor=job.requested_by
            )
        with job.in_tenant():
            waits = bool(Sync.objects.filter(pk=sync.pk, state=SyncState.PLANNED).update(job_id=job.pk))
            is_news = sync.pk != last
            context.batch(
                cursor={"sync": str(sync.pk)},
                total=sync.changes.count() if is_news or waits else 0,
                stage="planned",
                log=f"Found {_summary(sync)}."
                if is_news
                else "Nothing is new. The plan waits."
                if waits
                else "Nothing is new.",
            )
        sync_id = str(sync.pk)
    with job.in_tenant():
        state = Sync.objects.filter(pk=sync_id).values_list("state", flat=True).first()
    if not args["apply"] or state != SyncState.PLANNED:
        return True
    try:
        _apply(context, UUID(sync_id), None, confirm_removals=args["confirm_removals"])
    except RemovalsNeedConfirmation as error:
        with job.in_tenant():
            context.batch(log=f"{error} The plan waits.", stage="planned")
    return True


def _summary(sync: Sync) -> str:
    found = sync.summary
    names = ("added", "changed", "moved", "removed", "unchanged")
    return ", ".join(f"{found.get(name, 0):,} {name}" for name in names)


# --- Apply a plan -----------------------------------------------------------------------------------------------------
def _parse_apply(given: Mapping[str, Any]) -> Arguments:
    errors = _checked(given, {"sync", "changes", "confirm_removals"})
    sync_id = _uuid(given.get("sync"))
    sync = Sync.objects.select_related("source").filter(pk=sync_id).first() if sync_id else None
    if sync is None:
        errors["sync"] = ["There is no such sync."]
    elif sync.state != SyncState.PLANNED:
        errors["sync"] = [sync.over]
    changes = given.get("changes")
    ids = [_uuid(one) for one in changes] if isinstance(changes, list) else []
    if changes is not None and (not isinstance(changes, list) or None in ids):
        errors["changes"] = ["A list of the ids of changes of this sync, or null for all of them, please."]
    elif changes == []:
        errors["changes"] = [NOTHING_CHOSEN]
    elif (
        sync is not None
        and ids
        and sync.changes.filter(pk__in=[one for one in ids if one]).count() != len(set(ids))
    ):
        errors["changes"] = ["Not all of these are changes of this sync."]
    confirm = _flag(given, "confirm_removals", errors)
    if errors or sync is None:
        raise InvalidArguments(errors)
    chosen = None if changes is None else sorted({str(one) for one in ids})
    return {"sync": str(sync.pk), "source": sync.source.slug, "changes": chosen, "confirm_removals": confirm}


def _uuid(value: Any) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None


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
        with _sentences(), context.telling() as tell:
            report = syncs.apply_sync(
                tenant_id=cast(UUID, job.tenant_id), sync_id=sync_id, actor=job.requested_by, chosen=chosen,
                confirm_removals=confirm_removals, progress=tell,
                # The fence: a job that was taken from this process has applied nothing.
                finish=lambda: context.batch(cursor={**context.cursor, "applied": True}),
            )  # fmt: skip
    except Cancelled:
        with job.in_tenant():
            context.batch(done=0, log="Cancelled: nothing was applied.")
        return
    applied = report.added + report.changed + report.moved + report.removed
    with job.in_tenant():
        context.batch(done=applied, stage="applied", log=f"Applied {applied:,} changes.")


@contextmanager
def _sentences() -> Iterator[None]:
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
        parse=_parse_sync,
        title=lambda args: f"Sync of {args['source']}",
        concurrency_key=lambda args: args["source_id"],
        count=lambda _: (0, 0),
        run=_run_sync,
        usual_rate=USUAL_RATE,
    ),
    JobKind(
        name=APPLY,
        label="Applying a plan",
        queues=("jobs",),
        parse=_parse_apply,
        title=lambda args: f"Applying the plan of {args['source']}",
        concurrency_key=lambda args: args["sync"],
        count=_count_apply,
        run=_run_apply,
        usual_rate=USUAL_RATE,
    ),
)
