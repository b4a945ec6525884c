"""Finds embeddings that are not what they should be, and asks for them: missing, stale, failed, disabled or blank by
mistake, or of another model. Also the counts that operators watch. Embedding itself is worker.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection

from embeddings import queue, slots
from embeddings.models import EmbeddingStatus, Priority
from embeddings.queue import Wish
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from embeddings.text import source_hash
from portal.tenancy.context import current_tenant, tenant_context

BATCH = 500


@dataclass(frozen=True, slots=True)
class Counts:
    """Embeddings of a tenant's active entities by status; `missing` ones have no row at all (none, normally)."""

    total: int = 0
    ready: int = 0
    pending: int = 0
    failed: int = 0
    disabled: int = 0
    blank: int = 0
    missing: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def counts(entity: EmbeddedEntity, *, entity_table: str) -> Counts:
    """Counts for the current tenant in the slot that serves. `entity_table` is the table of the embedded rows, with `active`."""
    with connection.cursor() as cursor:
        # Two counts and no join, because a watched backfill asks twice a second.
        cursor.execute(
            f"SELECT count(*) FROM {entity_table} WHERE tenant_id = %s AND active", [current_tenant()]
        )
        total = cursor.fetchone()[0]
        cursor.execute(
            f"SELECT status, count(*) FROM {entity.table} WHERE tenant_id = %s AND active AND slot = %s GROUP BY status",
            [current_tenant(), slots.kept()[0].number],
        )
        found = dict(cursor.fetchall())
    return Counts(total=total, missing=total - sum(found.values()), **found)


@dataclass(slots=True)
class Progress:
    """How far a backfill is: entities looked at, and how many of them were asked for again."""

    total: int
    seen: int = 0
    queued: int = 0


def backfill(
    entity: EmbeddedEntity,
    tenant_id: UUID,
    *,
    active_ids: Callable[[UUID | None, int], list[UUID]],
    total: int,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Scans one tenant's active entities in id order and queues what is not ready, in one short transaction a batch.

    `active_ids(after, limit)` pages through the ids. Idempotent: what is queued or ready already is left alone, so a
    run that was killed is simply run again and writes only what is still missing.
    """
    progress = Progress(total=total)
    after: UUID | None = None
    while True:
        with tenant_context(tenant_id):
            ids = active_ids(after, BATCH)
            if not ids:
                return progress
            for slot in slots.kept():
                progress.queued += _queue_what_is_not_right(entity, slot, ids)
        after = ids[-1]
        progress.seen += len(ids)
        on_progress(progress)


def _queue_what_is_not_right(entity: EmbeddedEntity, slot: Slot, ids: list[UUID]) -> int:
    """Rows are only read until one is found wrong, so a complete catalogue is scanned without a write or a lock."""
    rows = {
        row["entity_id"]: row
        for row in entity.model.objects.filter(slot=slot.number, entity_id__in=ids).values(
            "entity_id", "active", "status", "source_hash", "model"
        )
    }
    with_task = _with_live_task(entity.type, slot, ids)
    missing: list[Wish] = []
    wrong: list[UUID] = []
    for entity_id, text in entity.load_texts(ids).items():
        row = rows.get(entity_id)
        if row is None:
            missing.append(Wish(entity_id, text))
        elif (
            row["source_hash"] != source_hash(text)
            or not row["active"]
            or not _right(row, slot, text, entity_id in with_task)
        ):
            wrong.append(entity_id)
    return queue.want(entity, missing, priority=Priority.BACKFILL, only=slot) + queue.ask_again(
        entity, wrong, refresh=True, only=slot
    )


def _right(row: dict[str, Any], slot: Slot, text: str, has_task: bool) -> bool:  # noqa: FBT001
    """Whether the status of a row that knows its text is what it should be."""
    if not text:
        return row["status"] == EmbeddingStatus.BLANK  # type: ignore[no-any-return]
    if settings.EMBEDDING_PROVIDER == "disabled":
        return row["status"] in {EmbeddingStatus.DISABLED, EmbeddingStatus.READY}
    is_ready = row["status"] == EmbeddingStatus.READY and row["model"] == slot.model
    return has_task or is_ready


def _with_live_task(entity_type: str, slot: Slot, ids: list[UUID]) -> set[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT entity_id FROM embeddings_embeddingtask
            WHERE tenant_id = %s AND entity_type = %s AND entity_id = ANY(%s) AND model = %s AND status <> 'failed'
            """,
            [current_tenant(), entity_type, ids, slot.model],
        )
        return {row[0] for row in cursor.fetchall()}
