"""Syncs of sources (SYN-4). Each function goes down the same steps, as far as it needs them:

    read     the document at the source's address            documents.py
    parse    the document, in a child process with bounds    documents.py, ../fetching/sandbox.py
    plan     what it would change; writes nothing            plan.py
    apply    the changes to the catalogue                    apply.py
    record   source, document and history                    store.py

Reading and parsing happen before a transaction opens; planning and applying are one transaction under the source's lock.
Whatever fails leaves the source as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Now

from portal.outbound.errors import FetchError
from portal.tenancy.context import tenant_context
from tools.catalogue.errors import SyncFailed, WrongSyncState
from tools.catalogue.sources import source_write
from tools.catalogue.visibility import require_whole
from tools.imports.formats.specs import DocumentRefused, ParsedDocument
from tools.imports.syncing.apply import Progress, apply_changes, check_removals
from tools.imports.syncing.changes import ImportReport, LayeredDocument, Plan
from tools.imports.syncing.documents import IncomingDocument, parse, read_source
from tools.imports.syncing.plan import make_plan
from tools.imports.syncing.store import (
    NO_ADDRESS,
    Address,
    address_of,
    load_source,
    record_failure,
    record_success,
    record_sync,
    require_may_move,
    save_source,
    store_document,
)
from tools.models import Layer, McpServer, Source, SourceKind, Sync, SyncState


# --- Import: plan and apply in one go ---------------------------------------------------------------------------------
def import_document(
    incoming: IncomingDocument,
    *,
    tenant_id: UUID,
    actor: str,
    dry_run: bool = False,
    confirm_removals: bool = False,
) -> ImportReport:
    """Raises DocumentRefused and CatalogueError, among them RemovalsNeedConfirmation and BeyondRights; then nothing is stored."""
    document = parse(incoming)
    with tenant_context(tenant_id):
        return import_parsed(
            document, incoming, actor=actor, dry_run=dry_run, confirm_removals=confirm_removals
        )


def import_parsed(
    document: ParsedDocument,
    incoming: IncomingDocument,
    *,
    actor: str,
    dry_run: bool = False,
    confirm_removals: bool = False,
    progress: Progress = lambda _: None,
) -> ImportReport:
    """Imports a document that is parsed already, in the current tenant. Raises as `import_document`, and what `progress` raises (as
    in `apply_changes`); in a dry run nothing is stored either."""
    if dry_run:
        plan = make_plan(*_load(document, incoming))
        plan.report.dry_run = True
        return plan.report
    with source_write(incoming.slug, actor):
        source, parsed = _load(document, incoming, lock=True)
        plan = make_plan(source, parsed)
        if not confirm_removals:
            check_removals(plan.report.removed, plan.active)
        address = address_of(parsed, source)
        save_source(source, address)
        stored, is_new = store_document(source, parsed, plan.report)
        apply_changes(source, plan.changes, namespace=incoming.namespace, actor=actor, progress=progress)
        has_news = is_new or not plan.is_empty
        if (has_news or source.failures) and any(address):
            record_success(source)
        if has_news:
            record_sync(source, stored, plan, actor, SyncState.APPLIED)
    return plan.report


# --- Plan: what an operator looks at before it is applied -------------------------------------------------------------
def plan_document(
    incoming: IncomingDocument, *, tenant_id: UUID, actor: str, seconds: float | None = None
) -> Sync:
    """Stores a document and its plan; a source that is new is stored too. A plan without a change is applied at once. Once it
    is applied, the source is read at the document's `url` or `server`. `seconds` bounds the parsing. Raises DocumentRefused
    and CatalogueError; then nothing is stored."""
    document = parse(incoming, seconds=seconds)
    with tenant_context(tenant_id):
        return plan_parsed(document, incoming, actor=actor)


def plan_parsed(document: ParsedDocument, incoming: IncomingDocument, *, actor: str) -> Sync:
    """Plans a document that is parsed already, in the current tenant. Raises CatalogueError; then nothing is stored."""
    with source_write(incoming.slug, actor):
        return _plan(document, incoming, actor, is_upload=True)


def plan_source(*, tenant_id: UUID, source_id: UUID, actor: str) -> Sync:
    """Reads the source's document at its address and plans it. Returns the waiting plan, or else the last sync, where nothing
    is new. Raises SyncFailed, which is recorded at the source and in its history, CatalogueError, and Source.DoesNotExist,
    also for a source that was deleted meanwhile."""
    with tenant_context(tenant_id):
        source = Source.objects.select_related("server").get(pk=source_id)
    try:
        # Its address stays the one that it has by then.
        incoming = replace(read_source(source), url="", server=None)
        document = parse(incoming)
    except (FetchError, DocumentRefused) as error:
        with tenant_context(tenant_id), source_write(source.slug, actor):
            record_failure(_locked(source), str(error), actor)
        raise SyncFailed(str(error)) from error
    with tenant_context(tenant_id), source_write(source.slug, actor):
        record_success(_locked(source))
        return _plan(document, incoming, actor, is_upload=False)


def _plan(document: ParsedDocument, incoming: IncomingDocument, actor: str, *, is_upload: bool) -> Sync:
    """Plans and records, under the source's lock. An upload always gives a sync of its own, which shows that it was compared."""
    source, parsed = _load(document, incoming, lock=True)
    plan = make_plan(source, parsed)
    address = address_of(parsed, source)
    is_current_address = address == Address(source.url, source.server)
    if source.is_new or plan.is_empty:
        save_source(source, address)
        is_current_address = True
    stored, is_new = store_document(source, parsed, plan.report)
    if any(address) and is_current_address:
        record_success(source)
    waiting = source.syncs.planned().first()
    if waiting is not None and not is_upload and _is_same_plan(waiting, plan):
        summary = plan.report.as_dict()
        if waiting.document_id == stored.pk:
            # What is said of one document may differ with the time that its check took, and is no news.
            summary["warnings"] = waiting.summary.get("warnings", [])
        if (waiting.document_id, waiting.summary) != (stored.pk, summary):
            waiting.document, waiting.summary = stored, summary
            waiting.save(update_fields=["document", "summary"])
        return waiting  # with the choice that an operator has made in it
    source.syncs.planned().update(state=SyncState.DISCARDED, ended_at=Now(), ended_by="a later plan")
    last = source.syncs.exclude(state=SyncState.FAILED).first()
    if plan.is_empty and not is_upload and last is not None and not is_new:
        return last  # nothing is new, so there is nothing to record
    state = SyncState.APPLIED if plan.is_empty else SyncState.PLANNED
    return record_sync(source, stored, plan, actor, state, NO_ADDRESS if is_current_address else address)


def _is_same_plan(waiting: Sync, plan: Plan) -> bool:
    """Whether a new plan has the changes of one that waits, and nothing was applied since that one was made."""
    if waiting.source.syncs.filter(state=SyncState.APPLIED, ended_at__gt=waiting.created_at).exists():
        return False
    return waiting.changes.count() == len(plan.changes) and plan.is_same_as(waiting.changes.all())


# --- Apply: a plan, or a part of it -----------------------------------------------------------------------------------
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
    """Applies a plan, or those of its changes whose ids (of SyncChange) are `chosen`. It is planned again under the source's
    lock; `finish` is the last step of the transaction.

    Raises StalePlan where a change is no longer what the plan says, RemovalsNeedConfirmation, WrongSyncState,
    Sync.DoesNotExist; then nothing is stored.
    """
    with tenant_context(tenant_id):
        sync = _planned(Sync.objects.select_related("source", "document").filter(pk=sync_id))
        stored, source, warnings = sync.document, sync.source, sync.summary.get("warnings", [])
    if stored is None:
        raise ValueError("a sync without a document failed, and is not planned")
    kind = source.kind if stored.layer == Layer.EXTRACTION else SourceKind.LIGHTAPI.value
    incoming = IncomingDocument(bytes(stored.content), stored.name, source.slug, kind)
    document = replace(parse(incoming), warnings=tuple(warnings))
    with tenant_context(tenant_id), source_write(source.slug, actor):
        source, parsed = _load(document, incoming, lock=True)  # before its syncs, as every write locks
        sync = _planned(Sync.objects.filter(pk=sync_id).select_for_update(no_key=True))
        if sync.document_id != stored.pk:
            raise WrongSyncState(
                "The source was read again just now and has not changed. Apply the plan again."
            )
        plan = make_plan(source, parsed)
        rows = {row.key: row for row in sync.changes.all() if chosen is None or row.pk in chosen}
        changes = plan.matching(rows)
        report = plan.report_of(changes)
        if not confirm_removals:
            check_removals(report.removed, plan.active)
        server = McpServer.objects.filter(pk=sync.server_uuid).first() if sync.server_uuid else None
        save_source(source, Address(sync.url, server))
        apply_changes(source, changes, namespace=incoming.namespace, actor=actor, progress=progress)
        sync.state, sync.summary = SyncState.APPLIED, report.as_dict()
        sync.ended_at, sync.ended_by = Now(), actor
        sync.save(update_fields=["state", "ended_at", "ended_by", "summary"])
        sync.changes.filter(pk__in=[row.pk for row in rows.values()]).update(applied=True)
        finish()
    return report


def discard_sync(*, sync_id: UUID, actor: str) -> None:
    """Discards a plan; a source that has nothing but this plan is deleted with it. Raises WrongSyncState,
    Sync.DoesNotExist, Source.DoesNotExist."""
    source = Sync.objects.select_related("source").get(pk=sync_id).source
    with source_write(source.slug, actor):
        require_whole(_locked(source))
        sync = _planned(Sync.objects.filter(pk=sync_id).select_for_update(no_key=True))
        if is_all_of_source(sync):
            source.delete()
            return
        sync.state, sync.ended_at, sync.ended_by = SyncState.DISCARDED, Now(), actor
        sync.save(update_fields=["state", "ended_at", "ended_by"])


def is_all_of_source(sync: Sync) -> bool:
    """Whether the source has nothing but this plan."""
    source = sync.source
    return not source.syncs.exclude(pk=sync.pk).exists() and not (
        source.endpoints.exists() or source.tools.exists()
    )


def _load(
    document: ParsedDocument, incoming: IncomingDocument, *, lock: bool = False
) -> tuple[Source, LayeredDocument]:
    """As `load_source`, for a caller who may see all tools of a source that is stored, and have it
    read at the document's address from now on. Raises BeyondRights."""
    source, parsed = load_source(document, incoming, lock=lock)
    if not source.is_new:
        require_whole(source)
        require_may_move(source, address_of(parsed, source))
    return source, parsed


def _locked(source: Source) -> Source:
    """The source as it is now, locked. Raises Source.DoesNotExist, also where another source has its name by now."""
    return Source.objects.select_for_update(no_key=True).get(pk=source.pk)


def _planned(found: QuerySet[Sync]) -> Sync:
    """The one sync of the query. Raises WrongSyncState where it is not planned any more, and Sync.DoesNotExist."""
    sync = found.get()
    if sync.state != SyncState.PLANNED:
        raise WrongSyncState(sync.over)
    return sync
