"""What a sync reads and writes of a source beside its tools: its row, its documents, the history of its syncs, and when it is
read again. Every function that writes needs `source_write` around it, but for the pruning.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Exists, F, OuterRef
from django.db.models.functions import Now

from portal.tenancy.context import tenant_context, tenant_ids
from tools.catalogue.errors import CatalogueError, Invalid
from tools.catalogue.sources import INTERVALS
from tools.catalogue.visibility import require_all_sensitivities
from tools.imports.formats.specs import DocumentRefused, ParsedDocument
from tools.imports.syncing import layers
from tools.imports.syncing.changes import ImportReport, LayeredDocument, Plan
from tools.imports.syncing.documents import IncomingDocument
from tools.models import (
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


def load_source(
    document: ParsedDocument, incoming: IncomingDocument, *, lock: bool = False
) -> tuple[Source, LayeredDocument]:
    """The source of the document, a new one or the stored one (with `lock`, locked against its deletion), with the title that
    the document gives it, not saved; and the document with its layer. Raises Invalid, CatalogueError."""
    try:
        Tool(namespace=incoming.namespace).clean_fields(exclude=_ALL_BUT_NAMESPACE)
        found = Source.objects.filter(slug=incoming.slug)
        source = (found.select_for_update(no_key=True) if lock else found).first()
        if source is None:
            source = Source(slug=incoming.slug, kind=SourceKind(document.kind))
            # The document was fetched from this address, which URLField would refuse if its host has no dot.
            source.full_clean(exclude=["tenant", "url", "title"])
    except ValidationError as error:
        raise Invalid(error.message_dict) from error
    try:
        layer = layers.layer_of(document, source.kind)
    except DocumentRefused as error:
        raise CatalogueError(str(error)) from error
    if source.is_new or layer == layers.base_layer(source.kind):
        source.document_title = document.title[:300]
    return source, LayeredDocument(document, incoming, layer)


class Address(NamedTuple):
    """Where a source is read: a URL, an MCP server, or neither."""

    url: str = ""
    server: McpServer | None = None


NO_ADDRESS = Address()


def address_of(parsed: LayeredDocument, source: Source) -> Address:
    """The address that the document gives its source; NO_ADDRESS of a document of a higher layer, which is read elsewhere."""
    incoming = parsed.incoming
    if source.is_new or parsed.layer == layers.base_layer(source.kind):
        return Address("" if incoming.server else incoming.url, incoming.server)
    return NO_ADDRESS


def require_may_move(source: Source, address: Address) -> None:
    """Raises BeyondRights for a caller who may not see every sensitivity where a stored source would be read at another address
    from now on, since later syncs run with the rights of the tenant or of somebody else, and where a source would be read from an
    MCP server, since the caller would learn whatever that offers."""
    is_another = address not in (NO_ADDRESS, Address(source.url, source.server))
    if is_another and (address.server is not None or not source.is_new):
        require_all_sensitivities()


def save_source(source: Source, address: Address) -> None:
    """Stores a new source, or the title of a known one, and the address where it is read from now on, if there is one. Raises
    BeyondRights as `require_may_move`."""
    require_may_move(source, address)
    if any(address):
        source.url, source.server = address
    if source.is_new:
        source.save(force_insert=True)
        return
    columns = (source.document_title, source.url, source.server_id)
    if columns != Source.objects.values_list("document_title", "url", "server_id").get(pk=source.pk):
        source.updated_at = Now()
        source.save(update_fields=["document_title", "url", "server", "updated_at"])


def store_document(
    source: Source, parsed: LayeredDocument, report: ImportReport
) -> tuple[SourceDocument, bool]:
    """The stored document, and whether it differs from the newest one of its layer."""
    incoming = parsed.incoming
    sha256 = hashlib.sha256(incoming.raw).hexdigest()
    of_layer = source.documents.filter(layer=parsed.layer)
    if parsed.layer == Layer.ENDPOINT:
        of_layer = of_layer.filter(name=incoming.name[:300])
    newest = of_layer.defer("content").first()
    if newest is not None and newest.sha256 == sha256:
        return newest, False
    stored = SourceDocument.objects.create(
        source=source, name=incoming.name[:300], version=parsed.document.version[:200], layer=parsed.layer, sha256=sha256,
        size=len(incoming.raw), content=incoming.raw, report=report.as_dict(),
    )  # fmt: skip
    return stored, True


def record_sync(
    source: Source,
    document: SourceDocument,
    plan: Plan,
    actor: str,
    state: SyncState,
    moved_to: Address = NO_ADDRESS,
) -> Sync:
    """Writes the plan into the history, applied or planned. `moved_to` is where the source is read once it is applied."""
    is_over = state == SyncState.APPLIED
    sync = Sync.objects.create(
        source=source, document=document, state=state, summary=plan.report.as_dict(), created_by=actor,
        url=moved_to.url, server_uuid=moved_to.server.pk if moved_to.server else None,
        **({"ended_at": Now(), "ended_by": actor} if is_over else {}),
    )  # fmt: skip
    rows = [change.row() for change in plan.changes]
    for row in rows:
        row.sync, row.applied = sync, is_over
    SyncChange.objects.bulk_create(rows, batch_size=1000)
    return sync


def record_success(source: Source) -> None:
    """Notes at the source that it was read at its address just now."""
    interval = INTERVALS.get(Schedule(source.schedule))
    Source.objects.filter(pk=source.pk).update(
        synced_at=Now(), failures=0, last_error="", next_sync_at=Now() + interval if interval else None
    )


def record_failure(source: Source, error: str, actor: str) -> None:
    """Notes the failure in the history and at the source, which is read again later each time."""
    interval = INTERVALS.get(Schedule(source.schedule))
    wait = (
        min(interval, timedelta(seconds=settings.SYNC_RETRY_SECONDS) * 2 ** min(source.failures, 12))
        if interval
        else None
    )
    Source.objects.filter(pk=source.pk).update(
        failures=F("failures") + 1, last_error=error, next_sync_at=Now() + wait if wait else None
    )
    Sync.objects.create(
        source=source, state=SyncState.FAILED, error=error, created_by=actor, ended_at=Now(), ended_by=actor
    )


def prune_syncs() -> int:
    """Deletes all but the newest SYNCS_KEPT syncs of each source, in every tenant, and then the documents that no sync is of: a source
    that is read every hour and has changed each time would pile them up. Returns how many syncs. What waits to be applied
    stays, and so does the newest document of each layer."""
    pruned = 0
    for tenant_id in tenant_ids():
        with tenant_context(tenant_id):
            for source in Source.objects.all():
                pruned += _prune(source)
    return pruned


def _prune(source: Source) -> int:
    over = source.syncs.exclude(state=SyncState.PLANNED)
    old = list(over.values_list("pk", flat=True)[settings.SYNCS_KEPT :])
    if not old:
        return 0
    # Deletion reads the rows; the large columns are left out.
    Sync.objects.filter(pk__in=old).defer("summary").delete()
    newer = SourceDocument.objects.filter(
        source=source, layer=OuterRef("layer"), fetched_at__gt=OuterRef("fetched_at")
    )
    # Of a LightAPI description there may be one for each endpoint, told apart by their names.
    newer_of_endpoint = newer.filter(name=OuterRef("name"))
    documents = source.documents.filter(syncs=None).defer("content", "report")
    documents.exclude(layer=Layer.ENDPOINT).filter(Exists(newer)).delete()
    documents.filter(Exists(newer_of_endpoint), layer=Layer.ENDPOINT).delete()
    return len(old)


_ALL_BUT_NAMESPACE = {field.name for field in Tool._meta.fields} - {"namespace"}
