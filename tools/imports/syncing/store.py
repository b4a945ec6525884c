"""What a sync writes of a source beside its tools: its row, its documents, its history of syncs, and when it is read again.
Every function but `source_write` needs that one around it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from portal.tenancy.context import current_tenant
from tools.catalogue.errors import CatalogueError, Invalid
from tools.catalogue.tools import catalogue_write
from tools.imports.formats.specs import DocumentRefused, ParsedDocument
from tools.imports.syncing import layers
from tools.imports.syncing.plan import ImportReport, Plan, Statement
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

INTERVALS = {
    Schedule.HOURLY: timedelta(hours=1),
    Schedule.DAILY: timedelta(days=1),
    Schedule.WEEKLY: timedelta(weeks=1),
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a document came from and how its source is called."""

    slug: str
    kind: SourceKind  # of the source, if it is a new one
    name: str  # of the file, or the URL
    raw: bytes
    # Where the source is read from in future; both empty: where it was.
    url: str = ""
    server: McpServer | None = None
    namespace: str = ""  # of the tools; the slug where it is empty
    whole: bool = True  # what the document no longer has is removed; a file of tools only adds and changes


@contextmanager
def source_write(slug: str, actor: str) -> Iterator[None]:
    """One atomic write of a source. One at a time; a second one waits as long as a save would, and is then told so."""
    with catalogue_write(actor):
        with connection.cursor() as cursor:
            # A thousand tools in one statement may take longer than a page's statements may.
            cursor.execute("SET LOCAL statement_timeout = '120s'")
            cursor.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"source {current_tenant()} {slug}"]
            )
        yield


def open_source(document: ParsedDocument, origin: Origin, *, lock: bool = False) -> tuple[Source, Statement]:
    """The source, locked against its deletion, with the title that the document gives it, not saved; and what is read of it."""
    namespace = origin.namespace or origin.slug
    try:
        Tool(namespace=namespace).clean_fields(exclude=_ALL_BUT_NAMESPACE)
        found = Source.objects.filter(slug=origin.slug)
        source = (found.select_for_update() if lock else found).first()
        if source is None:
            source = Source(slug=origin.slug, kind=origin.kind)
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
    return source, Statement(document, layer, namespace, origin.whole)


class Address(NamedTuple):
    """Where a source is read: a URL, an MCP server, or neither."""

    url: str = ""
    server: McpServer | None = None


NOWHERE = Address()


def address_of(origin: Origin, source: Source, layer: Layer) -> Address:
    """The one that the document gives its source: what describes it in another layer stands elsewhere."""
    if source.is_new or layer == layers.base_layer(source.kind):
        return Address("" if origin.server else origin.url, origin.server)
    return NOWHERE


def save_source(source: Source, address: Address) -> None:
    """Stores a new source, or what its document calls an old one; it is read at this address from now on, if it is one."""
    if any(address):
        source.url, source.server = address
    if source.is_new:
        source.save(force_insert=True)
        return
    said = (source.document_title, source.url, source.server_id)
    if said != Source.objects.values_list("document_title", "url", "server_id").get(pk=source.pk):
        source.updated_at = Now()
        source.save(update_fields=["document_title", "url", "server", "updated_at"])


def keep_document(
    source: Source, document: ParsedDocument, origin: Origin, layer: Layer, report: ImportReport
) -> tuple[SourceDocument, bool]:
    """The document, and whether it is another one than the newest of its layer."""
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


def record_sync(
    source: Source,
    document: SourceDocument,
    plan: Plan,
    actor: str,
    state: SyncState,
    moved_to: Address = NOWHERE,
) -> Sync:
    """The plan in the history, applied or to be applied; the source moves to `moved_to` then."""
    is_over = state == SyncState.APPLIED
    sync: Sync = Sync.objects.create(
        source=source, document=document, state=state, summary=plan.report.as_dict(), created_by=actor,
        url=moved_to.url, server_uuid=moved_to.server.pk if moved_to.server else None,
        **({"ended_at": Now(), "ended_by": actor} if is_over else {}),
    )  # fmt: skip
    rows = [one.row() for one in plan.changes]
    for row in rows:
        row.sync, row.applied = sync, is_over
    SyncChange.objects.bulk_create(rows, batch_size=1000)
    return sync


def note_success(source: Source) -> None:
    """At the source, that it was read where it stands just now."""
    interval = INTERVALS.get(Schedule(source.schedule))
    Source.objects.filter(pk=source.pk).update(
        synced_at=Now(), failures=0, last_error="", next_sync_at=Now() + interval if interval else None
    )


def note_failure(source: Source, error: str, actor: str) -> None:
    """In the history, and at the source, which is tried again later each time."""
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


_ALL_BUT_NAMESPACE = {field.name for field in Tool._meta.fields} - {"namespace"}
