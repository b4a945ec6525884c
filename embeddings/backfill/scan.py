"""Finds embeddings that are not what they should be, and enqueues them: missing, outdated, failed, disabled or blank by mistake,
or of another model. Also counts embeddings by status. The workers embed them; a job (job.py) follows them to the end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Count

from embeddings import slots
from embeddings.models import EmbeddingStatus, EmbeddingTask, EntityEmbedding, Priority, TaskStatus
from embeddings.queue import job_tasks
from embeddings.queue.enqueue import EmbeddingRequest, enqueue, requeue
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from embeddings.text import source_hash


class BackfillStatus(models.TextChoices):
    """The statuses that a scan may be limited to."""

    BLANK = "blank", "Blank"  # no row at all, or one without text
    FAILED = "failed", "Failed"
    OUTDATED = "outdated", "Outdated"  # of another text or model, or pending without a task
    DISABLED = "disabled", "Disabled"


ALL_STATUSES = frozenset(BackfillStatus.values)


@dataclass(frozen=True, slots=True)
class StatusCounts:
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


def count_by_status(entity: EmbeddedEntity) -> StatusCounts:
    """Counts the current tenant's embeddings in the slot that serves."""
    # Two counts and no join, because a watched backfill asks twice a second.
    total = entity.active().count()
    serving = slots.serving_rows(entity.model.objects.filter(active=True))
    found = dict(serving.values_list("status").annotate(Count("pk")).order_by())
    return StatusCounts(total=total, missing=total - sum(found.values()), **found)


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Which embeddings to enqueue: the wrong ones among those of these `statuses`, at most `limit`; with `refresh` also those
    that are right."""

    statuses: Collection[str] = ALL_STATUSES
    refresh: bool = False
    limit: int | None = None


@dataclass(slots=True)
class ScanResult:
    """The entities of one batch: those of the statuses looked for, and those that have a task of the job now."""

    examined: set[UUID] = field(default_factory=set)
    enqueued: set[UUID] = field(default_factory=set)


def scan(entity: EmbeddedEntity, ids: Sequence[UUID], options: ScanOptions, *, job_id: UUID) -> ScanResult:
    """Enqueues the chosen embeddings among these entities of the current tenant, as tasks of the job, in the caller's
    transaction.

    Idempotent: an embedding that is queued or right already is left alone. Rows are only read until one is found wrong, so a
    complete catalogue is scanned without a write or a lock.
    """
    result = ScanResult()
    for slot in slots.all():
        _scan_slot(entity, slot, ids, options, job_id, result)
    # An edit may have enqueued or locked some of them meanwhile: those are not the job's.
    result.enqueued = job_tasks.tagged(entity, job_id, ids) if result.enqueued else set()
    return result


def _scan_slot(
    entity: EmbeddedEntity,
    slot: Slot,
    ids: Sequence[UUID],
    options: ScanOptions,
    job_id: UUID,
    result: ScanResult,
) -> None:
    # A row and whether it has a task are of one snapshot: a worker that stores the vector changes both at once.
    tasks = EmbeddingTask.objects.filter(
        entity_type=entity.type, entity_id=models.OuterRef("entity_id"), model=slot.model
    )
    found = entity.model.objects.filter(models.Q(entity_id__in=ids), slot=slot.number)
    found = found.annotate(has_task=models.Exists(tasks.exclude(status=TaskStatus.FAILED)))
    rows = {row.entity_id: row for row in found.defer("vector", "signature", "token_signs")}
    with_task = {entity_id for entity_id, row in rows.items() if row.has_task}
    examined = [one for one in ids if _status(rows.get(one)) in options.statuses]
    result.examined.update(examined)
    missing: list[EmbeddingRequest] = []
    of_another_text: list[UUID] = []
    wrong: list[UUID] = []
    chosen: list[UUID] = []
    for entity_id, text in sorted(entity.load_texts(examined).items()):
        row = rows.get(entity_id)
        if not options.refresh and _is_right(row, slot, text, has_task=entity_id in with_task):
            continue
        if options.limit is not None and len(result.enqueued | {entity_id}) > options.limit:
            continue
        if row is None:
            missing.append(EmbeddingRequest(entity_id, text))
        elif not options.refresh and row.source_hash != source_hash(text):
            # Perhaps an edit has enqueued it since the row was read, and a worker is at it.
            of_another_text.append(entity_id)
        else:
            wrong.append(entity_id)
        chosen.append(entity_id)
        result.enqueued.add(entity_id)
    enqueue(entity, missing, priority=Priority.BACKFILL, only=slot)
    requeue(entity, of_another_text, refresh=False, only=slot)
    requeue(entity, wrong, refresh=True, only=slot)
    if chosen:
        job_tasks.tag(entity, job_id, slot, chosen)


def _status(row: EntityEmbedding | None) -> str:
    if row is None:
        return BackfillStatus.BLANK
    return row.status if row.status in ALL_STATUSES else BackfillStatus.OUTDATED


def _is_right(row: EntityEmbedding | None, slot: Slot, text: str, *, has_task: bool) -> bool:
    """Whether the row is of the current text, and its status is what it should be."""
    if row is None or row.source_hash != source_hash(text) or not row.active:
        return False
    if not text:
        return row.status == EmbeddingStatus.BLANK
    if settings.EMBEDDING_PROVIDER == "disabled":
        return row.status in {EmbeddingStatus.DISABLED, EmbeddingStatus.READY}
    return has_task or (row.status == EmbeddingStatus.READY and row.model == slot.model)
