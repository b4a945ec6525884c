"""Syncs: a document is planned against its source and then applied, at once or when somebody has looked (SYN-4).

Reading and parsing happen before a transaction opens; planning and applying are one transaction each, under the source's
lock. Whatever fails leaves the source as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Now

from portal.outbound.errors import FetchError
from portal.tenancy.context import tenant_context
from tools.catalogue import servers
from tools.catalogue.errors import Outgrown, SyncFailed, WrongSyncState
from tools.imports.fetching import sandbox
from tools.imports.fetching.http import fetch_document
from tools.imports.fetching.mcp import server as mcp_server
from tools.imports.formats.specs import DocumentRefused, ParsedDocument
from tools.imports.syncing.apply import Progress, check_removals, removals, write
from tools.imports.syncing.plan import ImportReport, Plan, Planned, make_plan
from tools.imports.syncing.store import (
    NOWHERE,
    Address,
    Origin,
    address_of,
    keep_document,
    note_failure,
    note_success,
    open_source,
    record_sync,
    save_source,
    source_write,
)
from tools.models import Action, Layer, McpServer, Source, SourceKind, Sync, SyncChange, SyncState

REQUEST_SECONDS = 30.0
"""For reading a source within a request: parsing and comparing need the rest of the minute that it has."""


# --- At once ----------------------------------------------------------------------------------------------------------
def apply_document(
    document: ParsedDocument,
    origin: Origin,
    *,
    actor: str,
    dry_run: bool = False,
    confirm_removals: bool = False,
) -> ImportReport:
    """Plans the document in the current tenant and applies it. Raises CatalogueError and DocumentRefused; then, and in a dry
    run, nothing is stored."""
    if dry_run:
        plan = make_plan(*open_source(document, origin))
        plan.report.dry_run = True
        return plan.report
    with source_write(origin.slug, actor):
        source, statement = open_source(document, origin, lock=True)
        plan = make_plan(source, statement)
        if not confirm_removals:
            check_removals(plan.report.removed, plan.active)
        address = address_of(origin, source, statement.layer)
        save_source(source, address)
        stored, is_new = keep_document(source, document, origin, statement.layer, plan.report)
        write(source, plan.changes, namespace=statement.namespace, actor=actor)
        is_news = is_new or not plan.is_empty
        if (is_news or source.failures) and any(address):
            note_success(source)
        if is_news:
            record_sync(source, stored, plan, actor, SyncState.APPLIED)
    return plan.report


# --- Plan -------------------------------------------------------------------------------------------------------------
def plan_document(
    *,
    tenant_id: UUID,
    raw: bytes,
    name: str,
    actor: str,
    slug: str,
    kind: str = "",
    server: McpServer | None = None,
    warnings: Sequence[str] = (),
    is_stored: bool = False,
    seconds: float | None = None,
) -> Sync:
    """Stores the document and what it would do to the source `slug`, which is made if it is new. A plan without a change is
    applied at once. Once applied, the source is read anew at the `server` or URL that gave the document, but for one that
    `is_stored` already. Raises DocumentRefused and CatalogueError; then nothing is stored."""
    document = parsed(kind or sandbox.ANY, raw, name, warnings, seconds)
    url = name if "://" in name and not (is_stored or server) else ""
    origin = Origin(slug=slug, kind=SourceKind(document.kind), name=name, raw=raw, url=url, server=server)
    with tenant_context(tenant_id), source_write(slug, actor):
        return _plan(document, origin, actor)


def plan_source(*, tenant_id: UUID, source_id: UUID, actor: str) -> Sync:
    """Reads the source anew where it stands, and plans that; where nothing is new, the plan that waits or else the last sync
    is the answer. Raises SyncFailed, which the source and its history note as well, CatalogueError, and Source.DoesNotExist,
    also of one that was deleted meanwhile."""
    with tenant_context(tenant_id):
        source: Source = Source.objects.select_related("server").get(pk=source_id)
    try:
        raw, name, warnings = read_source(source)
        document = parsed(source.kind, raw, name, warnings)
    except (FetchError, DocumentRefused) as error:
        with tenant_context(tenant_id), source_write(source.slug, actor):
            note_failure(_still_there(source), str(error), actor)
        raise SyncFailed(str(error)) from error
    origin = Origin(slug=source.slug, kind=SourceKind(source.kind), name=name, raw=raw)
    with tenant_context(tenant_id), source_write(source.slug, actor):
        note_success(_still_there(source))
        return _plan(document, origin, actor, is_upload=False)


def _still_there(source: Source) -> Source:
    """The source as it is now, locked. Raises Source.DoesNotExist, also where another one has its name."""
    return Source.objects.select_for_update().get(pk=source.pk)


def _plan(document: ParsedDocument, origin: Origin, actor: str, *, is_upload: bool = True) -> Sync:
    """Of an upload there is always something to tell: that it was looked at. Needs the source's lock."""
    source, statement = open_source(document, origin, lock=True)
    plan = make_plan(source, statement)
    address = address_of(origin, source, statement.layer)
    is_read_here = address == Address(source.url, source.server)
    if source.is_new or plan.is_empty:
        save_source(source, address)
        is_read_here = True
    stored, is_new = keep_document(source, document, origin, statement.layer, plan.report)
    if any(address) and is_read_here:
        note_success(source)
    waiting = source.syncs.filter(state=SyncState.PLANNED).first()
    if waiting is not None and not is_upload and _is_still_the_plan(waiting, plan):
        waiting.document, waiting.summary = stored, plan.report.as_dict()
        waiting.save(update_fields=["document", "summary"])
        return waiting  # with what an operator has ticked in it
    source.syncs.filter(state=SyncState.PLANNED).update(
        state=SyncState.DISCARDED, ended_at=Now(), ended_by="a later plan"
    )
    last = source.syncs.exclude(state=SyncState.FAILED).first()
    if plan.is_empty and not is_upload and last is not None and not is_new:
        return last  # read again, and nothing is new: there is nothing to tell
    state = SyncState.APPLIED if plan.is_empty else SyncState.PLANNED
    return record_sync(source, stored, plan, actor, state, NOWHERE if is_read_here else address)


def _is_still_the_plan(waiting: Sync, plan: Plan) -> bool:
    """Whether a plan that is made now has the changes of one that waits, and nothing was applied after that one."""
    if waiting.source.syncs.filter(state=SyncState.APPLIED, ended_at__gt=waiting.created_at).exists():
        return False
    planned = {one.key: one for one in plan.changes}
    rows = list(waiting.changes.all()) if waiting.changes.count() == len(planned) else []
    return bool(rows) and all(row.key in planned and planned[row.key].is_still(row) for row in rows)


def read_source(source: Source, *, seconds: float | None = None) -> tuple[bytes, str, Sequence[str]]:
    """The document as it stands now where the source says; its name, and what was odd on the way. `seconds` is for who cannot
    wait as long as a job can. Raises FetchError."""
    if source.server is not None:
        found = servers.ask(source.server, seconds=seconds)
        return found.raw, source.server.slug, found.warnings
    if not source.url:
        raise FetchError("The source has no address to be read from: import its document, or give it a URL.")
    if source.kind == SourceKind.MCP:
        found = mcp_server.from_url(source.url, seconds=seconds)
        return found.raw, source.url, found.warnings
    return fetch_document(source.url, seconds=seconds), source.url, ()


def parsed(
    kind: str, raw: bytes, name: str, warnings: Sequence[str] = (), seconds: float | None = None
) -> ParsedDocument:
    """The document, with the warnings of its way here before its own. Raises DocumentRefused."""
    document = sandbox.parse(kind, raw, name=PurePosixPath(name).name or name, seconds=seconds)
    return replace(document, warnings=(*warnings, *document.warnings))


# --- Apply ------------------------------------------------------------------------------------------------------------
def apply_sync(
    *,
    tenant_id: UUID,
    sync_id: UUID,
    actor: str,
    chosen: Collection[UUID] | None = None,
    confirm_removals: bool = False,
    progress: Progress = lambda _: None,
    finish: Callable[[], None] = lambda: None,
) -> ImportReport:
    """Applies a plan, or the `chosen` ones of its changes (ids of SyncChange); `finish` is the last step of the transaction.

    Raises Outgrown where a change is no longer what the plan says, RemovalsNeedConfirmation, WrongSyncState,
    Sync.DoesNotExist; then nothing is stored.
    """
    with tenant_context(tenant_id):
        sync = _planned(Sync.objects.select_related("source", "document").filter(pk=sync_id))
        kept, source, warnings = sync.document, sync.source, sync.summary.get("warnings", [])
    if kept is None:  # only a failed sync has none
        raise WrongSyncState(sync.over)
    kind = source.kind if kept.layer == Layer.EXTRACTION else SourceKind.LIGHTAPI.value
    document = replace(parsed(kind, bytes(kept.content), kept.name), warnings=tuple(warnings))
    origin = Origin(slug=source.slug, kind=SourceKind(source.kind), name=kept.name, raw=b"")
    with tenant_context(tenant_id), source_write(source.slug, actor):
        source, statement = open_source(document, origin, lock=True)  # as every write: before its syncs
        sync = _planned(Sync.objects.filter(pk=sync_id).select_for_update())
        if sync.document_id != kept.pk:
            raise WrongSyncState(
                "The source was read anew just now, and says the same. Apply the plan again."
            )
        plan = make_plan(source, statement)
        shown = {one.key: one for one in sync.changes.all() if chosen is None or one.pk in chosen}
        changes = _still(plan, shown)
        if not confirm_removals:
            check_removals(removals(changes), plan.active)
        server = McpServer.objects.filter(pk=sync.server_uuid).first() if sync.server_uuid else None
        save_source(source, Address(sync.url, server))
        write(source, changes, namespace=statement.namespace, actor=actor, progress=progress)
        report = _counted(plan.report, changes)
        sync.state, sync.ended_at, sync.ended_by, sync.summary = (
            SyncState.APPLIED,
            Now(),
            actor,
            report.as_dict(),
        )
        sync.save(update_fields=["state", "ended_at", "ended_by", "summary"])
        sync.changes.filter(pk__in=[one.pk for one in shown.values()]).update(applied=True)
        finish()
    return report


def _planned(found: QuerySet[Sync]) -> Sync:
    sync = found.get()
    if sync.state != SyncState.PLANNED:
        raise WrongSyncState(sync.over)
    return sync


def _still(plan: Plan, shown: dict[str, SyncChange]) -> list[Planned]:
    planned = {one.key: one for one in plan.changes}
    outgrown = [key for key, row in shown.items() if key not in planned or not planned[key].is_still(row)]
    if outgrown:
        raise Outgrown(sorted(outgrown))
    return [planned[key] for key in shown]


def _counted(report: ImportReport, changes: Sequence[Planned]) -> ImportReport:
    """The report of what was done, where that is a part of what was found."""

    def count(action: Action) -> int:
        return sum(one.action == action for one in changes)

    added, changed, moved = count(Action.ADD), count(Action.CHANGE), count(Action.MOVE)
    not_chosen = report.added - added
    tools = report.tools - not_chosen
    return replace(
        report, tools=tools, not_chosen=not_chosen, added=added, changed=changed, moved=moved,
        removed=count(Action.REMOVE), unchanged=tools - added - changed - moved,
        conflicts=sum(one.conflict for one in changes),
    )  # fmt: skip


def discard_sync(*, sync_id: UUID, actor: str) -> None:
    """Gives a plan up; a source that has nothing but this plan goes with it. Raises WrongSyncState, Sync.DoesNotExist."""
    source = Sync.objects.select_related("source").get(pk=sync_id).source
    with source_write(source.slug, actor):
        _still_there(source)
        sync = _planned(Sync.objects.filter(pk=sync_id).select_for_update())
        if has_only(sync):
            source.delete()
            return
        sync.state, sync.ended_at, sync.ended_by = SyncState.DISCARDED, Now(), actor
        sync.save(update_fields=["state", "ended_at", "ended_by"])


def has_only(sync: Sync) -> bool:
    """Whether the source has nothing but this plan."""
    source = sync.source
    return not source.syncs.exclude(pk=sync.pk).exists() and not (
        source.endpoints.exists() or source.tools.exists()
    )
