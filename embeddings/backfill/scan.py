"""Finds embeddings that are not what they should be, and asks for them: missing, stale, failed, disabled or blank by
mistake, or of another model. Also the counts that operators watch. Embedding itself is the workers'; a job (`run`) follows
it to its end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, models

from embeddings import slots
from embeddings.models import EmbeddingStatus, Priority
from embeddings.queue import job_tasks
from embeddings.queue.enqueue import EmbeddingRequest, enqueue, requeue
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from embeddings.text import source_hash
from portal.tenancy.context import current_tenant


class Found(models.TextChoices):
    """What a scan may look for, by how the embedding stands."""

    BLANK = "blank", "Blank"  # no row at all, or one that knows no text
    FAILED = "failed", "Failed"
    OUTDATED = "outdated", "Outdated"  # of another text or model, or waiting for nobody
    DISABLED = "disabled", "Disabled"


EVERYTHING = frozenset(Found.values)


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
            [current_tenant(), slots.all()[0].number],
        )
        found = dict(cursor.fetchall())
    return Counts(total=total, missing=total - sum(found.values()), **found)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which embeddings to ask for: those that are wrong in one of the ways `found`, at most `limit`; or, with `refresh`, also
    those that are right."""

    found: Collection[str] = EVERYTHING
    refresh: bool = False
    limit: int | None = None


@dataclass(slots=True)
class Scanned:
    """What one batch held: the entities that were looked for, and those asked for."""

    looked_for: set[UUID] = field(default_factory=set)
    asked: set[UUID] = field(default_factory=set)


def scan(entity: EmbeddedEntity, ids: Sequence[UUID], wanted: Wanted, *, job_id: UUID) -> Scanned:
    """Asks for what is wanted among these entities of the current tenant, as tasks of the job, in the caller's transaction.

    Idempotent: what is queued or right already is left alone. Rows are only read until one is found wrong, so a complete
    catalogue is scanned without a write or a lock.
    """
    scanned = Scanned()
    for slot in slots.all():
        _scan_slot(entity, slot, ids, wanted, job_id, scanned)
    # What an edit has asked for meanwhile, or holds a lock on, is the edit's.
    scanned.asked = job_tasks.tagged(entity, job_id, ids) if scanned.asked else set()
    return scanned


def _scan_slot(
    entity: EmbeddedEntity, slot: Slot, ids: Sequence[UUID], wanted: Wanted, job_id: UUID, scanned: Scanned
) -> None:
    columns = ("entity_id", "active", "status", "source_hash", "model")
    rows = {
        row["entity_id"]: row
        for row in entity.model.objects.filter(models.Q(entity_id__in=ids), slot=slot.number).values(*columns)
    }
    looked_for = [one for one in ids if _found(rows.get(one)) in wanted.found]
    scanned.looked_for.update(looked_for)
    with_task = _with_live_task(entity.type, slot, looked_for)
    missing: list[EmbeddingRequest] = []
    wrong: list[UUID] = []
    asked: list[UUID] = []
    for entity_id, text in sorted(entity.load_texts(looked_for).items()):
        row = rows.get(entity_id)
        known = row is not None and row["source_hash"] == source_hash(text) and row["active"]
        if known and not wanted.refresh and _right(row, slot, text, entity_id in with_task):
            continue
        if wanted.limit is not None and len(scanned.asked | {entity_id}) > wanted.limit:
            continue
        if row is None:
            missing.append(EmbeddingRequest(entity_id, text))
        else:
            wrong.append(entity_id)
        asked.append(entity_id)
        scanned.asked.add(entity_id)
    enqueue(entity, missing, priority=Priority.BACKFILL, only=slot)
    if wrong:
        requeue(entity, wrong, refresh=True, only=slot)
    if asked:
        job_tasks.tag(entity, job_id, slot, asked)


def _found(row: dict[str, Any] | None) -> str:
    if row is None:
        return Found.BLANK
    status = str(row["status"])
    return status if status in EVERYTHING else Found.OUTDATED


def _right(row: dict[str, Any] | None, slot: Slot, text: str, has_task: bool) -> bool:  # noqa: FBT001
    """Whether the status of a row that knows its text is what it should be."""
    if row is None:
        return False
    if not text:
        return row["status"] == EmbeddingStatus.BLANK  # type: ignore[no-any-return]
    if settings.EMBEDDING_PROVIDER == "disabled":
        return row["status"] in {EmbeddingStatus.DISABLED, EmbeddingStatus.READY}
    is_ready = row["status"] == EmbeddingStatus.READY and row["model"] == slot.model
    return has_task or is_ready


def _with_live_task(entity_type: str, slot: Slot, ids: Sequence[UUID]) -> set[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT entity_id FROM embeddings_embeddingtask
            WHERE tenant_id = %s AND entity_type = %s AND entity_id = ANY(%s) AND model = %s AND status <> 'failed'
            """,
            [current_tenant(), entity_type, list(ids), slot.model],
        )
        return {row[0] for row in cursor.fetchall()}
