"""Syncs: a document is planned against its source and then applied, at once or when somebody has looked (SYN-4).

Reading and parsing happen before a transaction opens; planning and applying are one transaction each, under the source's
lock. Whatever fails leaves the source as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import PurePosixPath
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from portal.tenancy.context import current_tenant, tenant_context
from tools import servers, services
from tools.errors import CatalogueError, Invalid, Outgrown, SyncFailed, WrongSyncState
from tools.imports import fetch, layers, mcp_server, sandbox
from tools.imports.apply import Progress, check_removals, removals, write
from tools.imports.fetch import FetchRefused
from tools.imports.plan import ImportReport, Plan, Planned, Reading, make_plan
from tools.imports.specs import DocumentRefused, ParsedDocument
from tools.models import (
    Action,
    Layer,
    McpServer,
    Schedule,
    Source,
    SourceDocument,
    SourceKind,
    Sync,
    SyncChange,
    SyncState,
    Tool,
)

INTERVALS = {
    Schedule.HOURLY: timedelta(hours=1),
    Schedule.DAILY: timedelta(days=1),
    Schedule.WEEKLY: timedelta(weeks=1),
}
_FIRST_RETRY = timedelta(minutes=5)
REQUEST_SECONDS = 30.0
"""For reading a source within a request: parsing and comparing need the rest of the minute that it has."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document came from and how its source is called."""

    slug: str
    kind: SourceKind  # of the source, if it is a new one
    name: str  # of the file, or the URL
    raw: bytes
    url: str = ""
    server: McpServer | None = None
    namespace: str = ""  # of the tools; the slug where it is empty
    whole: bool = True  # what the document no longer has is removed; a file of tools only adds and changes


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
        plan = make_plan(*_opened(document, origin))
        plan.report.dry_run = True
        return plan.report
    with source_write(origin.slug, actor):
        source, reading = _opened(document, origin, lock=True)
        plan = make_plan(source, reading)
        if not confirm_removals:
            check_removals(plan.report.removed, plan.active)
        _save(source, document, origin, reading.layer)
        stored, is_new = _keep_document(source, document, origin, reading.layer, plan.report)
        write(source, plan.changes, namespace=reading.namespace, actor=actor)
        if not plan.is_empty or is_new:
            _note_success(source)
            _record(source, stored, plan, actor, state=SyncState.APPLIED)
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
    seconds: float | None = None,
) -> Sync:
    """Stores the document and what it would do to the source `slug`, which is made if it is new. A plan without a change is
    applied at once. Raises DocumentRefused and CatalogueError; then nothing is stored."""
    document = parsed(kind or sandbox.ANY, raw, name, warnings, seconds)
    url = name if "://" in name else ""
    origin = Origin(slug=slug, kind=SourceKind(document.kind), name=name, raw=raw, url=url, server=server)
    with tenant_context(tenant_id):
        return _plan(document, origin, actor)


def plan_source(*, tenant_id: UUID, source_id: UUID, actor: str) -> Sync:
    """Reads the source anew from where it stands, and plans that; where nothing is new, its last sync is the answer. Raises SyncFailed, which the source and its history note
    as well, CatalogueError, and Source.DoesNotExist."""
    with tenant_context(tenant_id):
        source: Source = Source.objects.select_related("server").get(pk=source_id)
    try:
        raw, name, warnings = read_source(source)
        document = parsed(source.kind, raw, name, warnings)
    except (FetchRefused, DocumentRefused) as error:
        with tenant_context(tenant_id):
            _note_failure(source, str(error), actor)
        raise SyncFailed(str(error)) from error
    origin = Origin(
        slug=source.slug,
        kind=SourceKind(source.kind),
        name=name,
        raw=raw,
        url=source.url,
        server=source.server,
    )
    with tenant_context(tenant_id):
        return _plan(document, origin, actor, is_news=False)


def _plan(document: ParsedDocument, origin: Origin, actor: str, *, is_news: bool = True) -> Sync:
    with source_write(origin.slug, actor):
        source, reading = _opened(document, origin, lock=True)
        plan = make_plan(source, reading)
        if source.is_new:
            _save(source, document, origin, reading.layer)
        stored, is_new = _keep_document(source, document, origin, reading.layer, plan.report)
        _note_success(source)
        source.syncs.filter(state=SyncState.PLANNED).update(
            state=SyncState.DISCARDED, ended_at=Now(), ended_by="a later plan"
        )
        last = source.syncs.first()
        if plan.is_empty and not is_news and last is not None and not is_new:
            return last  # read again, and nothing is new: there is nothing to tell
        state = SyncState.APPLIED if plan.is_empty else SyncState.PLANNED
        return _record(source, stored, plan, actor, state=state)


def read_source(source: Source, *, seconds: float | None = None) -> tuple[bytes, str, Sequence[str]]:
    """The document as it stands now where the source says; its name, and what was odd on the way. `seconds` is for who cannot
    wait as long as a job can. Raises FetchRefused."""
    if source.server is not None:
        found = servers.ask(source.server, seconds=seconds)
        return found.raw, source.server.slug, found.warnings
    if not source.url:
        raise FetchRefused(
            "The source has no address to be read from: import its document, or give it a URL."
        )
    if source.kind == SourceKind.MCP:
        found = mcp_server.from_url(source.url, seconds=seconds)
        return found.raw, source.url, found.warnings
    return fetch.document(source.url, seconds=seconds), source.url, ()


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
        # A list that a server gave bears its name.
        server = McpServer.objects.filter(slug=kept.name).first() if source.kind == SourceKind.MCP else None
    kind = source.kind if kept.layer == Layer.EXTRACTION else SourceKind.LIGHTAPI.value
    document = replace(parsed(kind, bytes(kept.content), kept.name), warnings=tuple(warnings))
    origin = Origin(
        slug=source.slug, kind=SourceKind(source.kind), name=kept.name, raw=b"",
        url=kept.name if "://" in kept.name else "", server=server,
    )  # fmt: skip
    with tenant_context(tenant_id), source_write(source.slug, actor):
        sync = _planned(Sync.objects.filter(pk=sync_id).select_for_update())
        source, reading = _opened(document, origin, lock=True)
        plan = make_plan(source, reading)
        shown = {one.key: one for one in sync.changes.all() if chosen is None or one.pk in chosen}
        changes = _still(plan, shown)
        if not confirm_removals:
            check_removals(removals(changes), plan.active)
        _save(source, document, origin, reading.layer)
        write(source, changes, namespace=reading.namespace, actor=actor, progress=progress)
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


def _planned(found: object) -> Sync:
    sync: Sync = found.get()  # type: ignore[attr-defined]
    if sync.state != SyncState.PLANNED:
        raise WrongSyncState(
            f"This sync is over ({sync.get_state_display().lower()}). Plan the source again."
        )
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
    source = Source.objects.get(syncs=sync_id) if Sync.objects.filter(pk=sync_id).exists() else None
    if source is None:
        raise Sync.DoesNotExist
    with source_write(source.slug, actor):
        sync = _planned(Sync.objects.filter(pk=sync_id).select_for_update())
        if not source.endpoints.exists() and source.syncs.count() == 1:
            source.delete()
            return
        sync.state, sync.ended_at, sync.ended_by = SyncState.DISCARDED, Now(), actor
        sync.save(update_fields=["state", "ended_at", "ended_by"])


# --- The source -------------------------------------------------------------------------------------------------------
@contextmanager
def source_write(slug: str, actor: str) -> Iterator[None]:
    """One atomic write of a source. One at a time; a second one waits as long as a save would, and is then told so."""
    try:
        with services.catalogue_write(actor):
            with connection.cursor() as cursor:
                # A thousand tools in one statement may take longer than a page's statements may.
                cursor.execute("SET LOCAL statement_timeout = '120s'")
                cursor.execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                    [f"source {current_tenant()} {slug}"],
                )
            yield
    except ValidationError as error:
        raise Invalid(error.message_dict) from error


def _opened(document: ParsedDocument, origin: Origin, *, lock: bool = False) -> tuple[Source, Reading]:
    """The source, locked against its deletion, with the title that the document gives it, not saved; and what is read of it."""
    namespace = origin.namespace or origin.slug
    try:
        Tool(namespace=namespace).clean_fields(exclude=_ALL_BUT_NAMESPACE)
        found = Source.objects.filter(slug=origin.slug)
        source = (found.select_for_update() if lock else found).first()
        if source is None:
            source = Source(slug=origin.slug, kind=origin.kind, server=origin.server)
            # The address was good enough to be fetched from; a form's idea of one has no host without a dot.
            source.full_clean(exclude=["tenant", "url", "title"])
    except ValidationError as error:
        raise Invalid(error.message_dict) from error
    try:
        layer = layers.layer_of(document, source.kind)
    except DocumentRefused as error:
        raise CatalogueError(str(error)) from error
    if source.is_new or layer == layers.base_layer(source.kind):
        source.document_title = document.title[:300]
    return source, Reading(document, layer, namespace, origin.whole)


def _save(source: Source, document: ParsedDocument, origin: Origin, layer: Layer) -> None:
    """Stores a new source, or what the document changes of an old one."""
    if source.is_new:
        source.url = origin.url
        source.save(force_insert=True)
        return
    stored = Source.objects.values("document_title", "url", "server_id").get(pk=source.pk)
    if origin.server is not None:
        source.server, source.url = origin.server, ""
    elif origin.url and layer == layers.base_layer(source.kind):
        source.server, source.url = None, origin.url
    if (source.document_title, source.url, source.server_id) != tuple(stored.values()):
        source.updated_at = Now()
        source.save(update_fields=["document_title", "url", "server", "updated_at"])


def _keep_document(
    source: Source, document: ParsedDocument, origin: Origin, layer: Layer, report: ImportReport
) -> tuple[SourceDocument, bool]:
    """The document as the state of its layer, and whether it is another one than before."""
    sha256 = hashlib.sha256(origin.raw).hexdigest()
    of_layer = source.documents.filter(layer=layer)
    if layer == Layer.ENDPOINT:
        of_layer = of_layer.filter(name=origin.name[:300])
    newest: SourceDocument | None = of_layer.defer("content").first()
    if newest is not None and newest.sha256 == sha256:
        return newest, False
    kept: SourceDocument = SourceDocument.objects.create(
        source=source, name=origin.name[:300], version=document.version[:200], layer=layer, sha256=sha256,
        size=len(origin.raw), content=origin.raw, report=report.as_dict(),
    )  # fmt: skip
    return kept, True


def _record(source: Source, document: SourceDocument, plan: Plan, actor: str, *, state: SyncState) -> Sync:
    is_over = state == SyncState.APPLIED
    sync: Sync = Sync.objects.create(
        source=source, document=document, state=state, summary=plan.report.as_dict(), created_by=actor,
        **({"ended_at": Now(), "ended_by": actor} if is_over else {}),
    )  # fmt: skip
    rows = [one.row() for one in plan.changes]
    for row in rows:
        row.sync, row.applied = sync, is_over
    SyncChange.objects.bulk_create(rows, batch_size=1000)
    return sync


def _note_success(source: Source) -> None:
    interval = INTERVALS.get(Schedule(source.schedule))
    Source.objects.filter(pk=source.pk).update(
        synced_at=Now(), failures=0, last_error="", next_sync_at=Now() + interval if interval else None
    )


def _note_failure(source: Source, error: str, actor: str) -> None:
    """In the history, and at the source, which is tried again later each time."""
    interval = INTERVALS.get(Schedule(source.schedule))
    wait = min(interval, _FIRST_RETRY * 2 ** min(source.failures, 12)) if interval else None
    Source.objects.filter(pk=source.pk).update(
        failures=F("failures") + 1, last_error=error, next_sync_at=Now() + wait if wait else None
    )
    Sync.objects.create(
        source=source, state=SyncState.FAILED, error=error, created_by=actor, ended_at=Now(), ended_by=actor
    )


_ALL_BUT_NAMESPACE = {field.name for field in Tool._meta.fields} - {"namespace"}
