"""Enqueues embeddings: the write side of the queue, in the transaction of the write that changes an entity (EMB-2). The workers'
side is claims.py, the statements stand in sql/enqueue.sql.

Lock order is always the embedding row first, then its task: edits and completions meet on the same two rows. Only the database's
clock is used.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from embeddings import registry, slots
from embeddings.models import EmbeddingStatus, Priority
from embeddings.queue import sql
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from embeddings.text import source_hash
from portal.resilience.wakeup import Notifier

wakeup = Notifier("embeddings.tasks.wake", queue="embeddings")


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """The source text that an entity has now (normalised), whether the entity is active, and its version if it has one."""

    entity_id: uuid.UUID
    text: str
    active: bool = True
    version: int | None = None  # for people who look at a task; nothing depends on it


def enqueue(
    entity: EmbeddedEntity,
    requests: Sequence[EmbeddingRequest],
    *,
    refresh: bool = False,
    priority: Priority = Priority.EDIT,
    only: Slot | None = None,
) -> int:
    """Makes the entities' embeddings follow their texts in every slot, or in the slot `only`; call it in the transaction of the
    write (EMB-2). Returns how many entities got a task.

    A changed text and a reactivated entity become `pending` with a task. An unchanged one writes nothing, unless `refresh` asks
    for a new vector all the same; its vector serves as `ready` meanwhile. A text that the vector was already made from needs
    no new one. An entity without text becomes `blank`, without vector or task.
    """
    if not requests:
        return 0
    requests = sorted(requests, key=lambda request: request.entity_id)
    models = {slot.number: slot.model for slot in ([only] if only else slots.all())}
    enabled = settings.EMBEDDING_PROVIDER != "disabled"
    with_text = EmbeddingStatus.PENDING if enabled else EmbeddingStatus.DISABLED
    with transaction.atomic():
        rows = sql.fetch(
            "enqueue.upsert_embeddings",
            entity,
            slots=list(models),
            models=list(models.values()),
            dimension=settings.EMBEDDING_DIMENSION,
            ids=[request.entity_id for request in requests],
            active=[request.active for request in requests],
            hashes=[source_hash(request.text) for request in requests],
            statuses=[with_text if request.text else EmbeddingStatus.BLANK for request in requests],
            refresh=refresh,
            enabled=enabled,
        )
        if not rows:
            return 0
        work = [(entity_id, models[slot]) for entity_id, slot, has_work in rows if has_work]
        done = [(entity_id, models[slot]) for entity_id, slot, has_work in rows if not has_work]
        sql.execute(
            "enqueue.delete_tasks",
            entity,
            ids=list({entity_id for entity_id, _, _ in rows}),
            # Also the tasks of models without a slot: while processes change over one by one, the newest request counts.
            models=None if only else list(models.values()),
            done_ids=[entity_id for entity_id, _ in done],
            done_models=[model for _, model in done],
        )
        if not work:
            return 0
        asked = {request.entity_id: request for request in requests}
        sql.execute(
            "enqueue.upsert_tasks",
            entity,
            priority=priority,
            ids=[entity_id for entity_id, _ in work],
            models=[model for _, model in work],
            hashes=[source_hash(asked[entity_id].text) for entity_id, _ in work],
            versions=[asked[entity_id].version for entity_id, _ in work],
        )
        wakeup.notify_on_commit()
        return len({entity_id for entity_id, _ in work})


def requeue(
    entity: EmbeddedEntity,
    entity_ids: Sequence[uuid.UUID],
    *,
    refresh: bool,
    only: Slot | None = None,
    found_in: Slot | None = None,
) -> int:
    """Enqueues embeddings that a scan or a worker found wrong; returns how many entities got a task. `found_in` is the slot that
    has a row of each entity: the serving one, unless said otherwise.

    The texts are read after their embeddings are locked, so they are at least as new as any edit that has enqueued them. Rows
    that an unfinished write has locked are left to that write. A `refresh` voids the claim of a worker that has the text in hand,
    so it is only for what no task would put right.
    """
    if not entity_ids:
        return 0
    with transaction.atomic():
        # Every write locks the serving slot's row before the other's.
        slot = (found_in or slots.all()[0]).number
        locked = sql.fetch("enqueue.lock_unlocked", entity, slot=slot, ids=list(entity_ids))
        texts = entity.load_texts([entity_id for (entity_id,) in locked])
        requests = [EmbeddingRequest(entity_id, text) for entity_id, text in texts.items()]
        return enqueue(entity, requests, refresh=refresh, priority=Priority.BACKFILL, only=only)


def delete_tasks(entity_type: str, entity_ids: Sequence[uuid.UUID]) -> None:
    """Deletes the tasks of entities that are about to be deleted; their embeddings are deleted with the entity."""
    entity, ids = registry.get(entity_type), list(entity_ids)
    # The lock order wants the embeddings first.
    sql.fetch("enqueue.lock_embeddings", entity, ids=ids)
    sql.execute("enqueue.delete_tasks", entity, ids=ids, models=[], done_ids=[], done_models=[])
