"""What should be embedded: the write side of the work table, in the transaction of each write (EMB-2). The other side is
claims.py.

Lock order is always the embedding row first, then its task: edits and completions meet on the same two rows. No clock
but the database's decides anything here.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from embeddings import registry, slots
from embeddings.models import EmbeddingStatus, Priority
from embeddings.queue import wakeup
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from embeddings.text import source_hash
from portal.tenancy.context import current_tenant


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """The source text that an entity has now (normalised), whether the entity is active, and its version if it has one."""

    entity_id: uuid.UUID
    text: str
    active: bool = True
    version: int | None = None  # diagnostic


def enqueue(
    entity: EmbeddedEntity,
    requests: Sequence[EmbeddingRequest],
    *,
    refresh: bool = False,
    priority: Priority = Priority.EDIT,
    only: Slot | None = None,
) -> int:
    """Makes the entities' embeddings follow their texts in every slot that is kept, or in `only` this one; call it in the
    transaction of the write (EMB-2).

    A changed text (or a reactivated entity) becomes `pending` with a task; an unchanged one writes nothing, unless
    `refresh` asks for a new vector all the same. A vector that means the text serves as `ready` meanwhile, and one that
    came back to its old text needs no new one. No text: `blank`, without vector or task. Returns how many entities
    have a task now because of this call.
    """
    if not requests:
        return 0
    requests = sorted(requests, key=lambda request: request.entity_id)
    models = {slot.number: slot.model for slot in ([only] if only else slots.all())}
    enabled = settings.EMBEDDING_PROVIDER != "disabled"
    usual = EmbeddingStatus.PENDING if enabled else EmbeddingStatus.DISABLED
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"""
            INSERT INTO {entity.table} AS e
                (id, tenant_id, entity_id, slot, active, source_hash, status, model, dimension, truncated, error)
            SELECT gen_random_uuid(), %(tenant)s, w.entity_id, s.slot, w.active, w.source_hash, w.status,
                   s.model, %(dimension)s, false, ''
            FROM unnest(%(ids)s::uuid[], %(active)s::bool[], %(hashes)s::text[], %(statuses)s::text[])
                AS w(entity_id, active, source_hash, status)
            CROSS JOIN unnest(%(slots)s::smallint[], %(models)s::text[]) WITH ORDINALITY AS s(slot, model, place)
            ORDER BY w.entity_id, s.place
            ON CONFLICT (tenant_id, entity_id, slot) DO UPDATE SET
                active = excluded.active,
                source_hash = excluded.source_hash,
                status = CASE WHEN e.vector_hash = excluded.source_hash THEN 'ready' ELSE excluded.status END,
                model = CASE WHEN e.vector IS NULL THEN excluded.model ELSE e.model END,
                vector = CASE WHEN excluded.status = 'blank' THEN NULL ELSE e.vector END,
                vector_hash = CASE WHEN excluded.status = 'blank' THEN NULL ELSE e.vector_hash END,
                embedded_at = CASE WHEN excluded.status = 'blank' THEN NULL ELSE e.embedded_at END,
                truncated = e.truncated AND excluded.status <> 'blank',
                error = ''
            WHERE %(refresh)s OR e.source_hash <> excluded.source_hash OR e.active <> excluded.active
            RETURNING e.entity_id, e.slot, e.active AND %(enabled)s AND (e.status = 'pending' OR (e.status = 'ready' AND (
                %(refresh)s OR e.model <> (%(models)s::text[])[array_position(%(slots)s::smallint[], e.slot)]))) AS has_work
            """,
            {
                "tenant": current_tenant(),
                "slots": list(models),
                "models": list(models.values()),
                "dimension": settings.EMBEDDING_DIMENSION,
                "ids": [request.entity_id for request in requests],
                "active": [request.active for request in requests],
                "hashes": [source_hash(request.text) for request in requests],
                "statuses": [usual if request.text else EmbeddingStatus.BLANK for request in requests],
                "refresh": refresh,
                "enabled": enabled,
            },
        )
        rows = cursor.fetchall()
        changed = {entity_id for entity_id, _, _ in rows}
        work = [(entity_id, models[slot]) for entity_id, slot, has_work in rows if has_work]
        done = [(entity_id, models[slot]) for entity_id, slot, has_work in rows if not has_work]
        if changed:
            # Also the tasks of models without a slot: while processes change over one by one, the newest request counts.
            _delete_tasks(cursor, entity.type, changed, done, None if only else models.values())
        return _upsert_tasks(
            cursor, entity.type, {request.entity_id: request for request in requests}, work, priority
        )


def _upsert_tasks(
    cursor: CursorWrapper,
    entity_type: str,
    requests: Mapping[uuid.UUID, EmbeddingRequest],
    work: Sequence[tuple[uuid.UUID, str]],
    priority: Priority,
) -> int:
    if work:
        # Each row has a time of its own, so that a long write's are not all at one place of the index (claims.QueueWatermarks).
        # The running attempt of an older text loses its claim here, so its result can no longer be stored.
        cursor.execute(
            """
            INSERT INTO embeddings_embeddingtask AS t (id, tenant_id, entity_type, entity_id, model, source_hash,
                source_version, status, priority, attempts, last_error, next_attempt_at, wanted_at)
            SELECT gen_random_uuid(), %(tenant)s, %(type)s, w.entity_id, w.model, w.source_hash,
                w.source_version, 'pending', %(priority)s, 0, '', clock_timestamp(), clock_timestamp()
            FROM unnest(%(ids)s::uuid[], %(models)s::text[], %(hashes)s::text[], %(versions)s::int[])
                AS w(entity_id, model, source_hash, source_version)
            ON CONFLICT (tenant_id, entity_type, entity_id, model) DO UPDATE SET
                source_hash = excluded.source_hash, source_version = excluded.source_version,
                status = 'pending', attempts = 0, claim_id = NULL, last_error = '', job_id = NULL,
                next_attempt_at = excluded.next_attempt_at, wanted_at = excluded.wanted_at,
                priority = CASE t.status WHEN 'failed' THEN excluded.priority ELSE LEAST(t.priority, excluded.priority) END
            """,
            {
                "tenant": current_tenant(),
                "type": entity_type,
                "priority": priority,
                "ids": [entity_id for entity_id, _ in work],
                "models": [model for _, model in work],
                "hashes": [source_hash(requests[entity_id].text) for entity_id, _ in work],
                "versions": [requests[entity_id].version for entity_id, _ in work],
            },
        )
        wakeup.notify_on_commit()
    return len({entity_id for entity_id, _ in work})


def requeue(
    entity: EmbeddedEntity,
    entity_ids: Sequence[uuid.UUID],
    *,
    refresh: bool,
    priority: Priority = Priority.BACKFILL,
    only: Slot | None = None,
) -> int:
    """`enqueue` for those who found an embedding out of step, rather than for the write that changes it.

    The texts are read after their embeddings are locked, so they are at least as new as any edit that has asked; rows
    of a write that is not over are left to that write.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT entity_id FROM {entity.table} WHERE tenant_id = %s AND slot = %s AND entity_id = ANY(%s)
            FOR UPDATE SKIP LOCKED
            """,
            # Every write locks the serving slot's row before the other's, and every entity has one.
            [current_tenant(), slots.all()[0].number, list(entity_ids)],
        )
        texts = entity.load_texts([row[0] for row in cursor.fetchall()])
        requests = [EmbeddingRequest(entity_id, text) for entity_id, text in texts.items()]
        return enqueue(entity, requests, refresh=refresh, priority=priority, only=only)


def _delete_tasks(
    cursor: CursorWrapper,
    entity_type: str,
    entity_ids: Iterable[uuid.UUID],
    done: Sequence[tuple[uuid.UUID, str]],
    models: Iterable[str] | None,
) -> None:
    """Deletes the entities' tasks of no model among `models` (None: of whichever), and those of `done` pairs."""
    cursor.execute(
        """
        DELETE FROM embeddings_embeddingtask
        WHERE tenant_id = %(tenant)s AND entity_type = %(type)s AND entity_id = ANY(%(ids)s) AND (
            NOT model = ANY(%(models)s::text[])
            OR (entity_id, model) IN (SELECT * FROM unnest(%(done_ids)s::uuid[], %(done_models)s::text[])))
        """,
        {
            "tenant": current_tenant(),
            "type": entity_type,
            "ids": list(entity_ids),
            "models": None if models is None else list(models),
            "done_ids": [entity_id for entity_id, _ in done],
            "done_models": [model for _, model in done],
        },
    )


def delete_tasks(entity_type: str, entity_ids: Sequence[uuid.UUID]) -> None:
    """Deletes the tasks of entities that are being deleted (their embeddings go with the row)."""
    ids = list(entity_ids)
    with connection.cursor() as cursor:
        # Their embeddings will be locked anyway; the lock order wants them first.
        cursor.execute(
            f"""
            SELECT FROM {registry.get(entity_type).table} WHERE tenant_id = %s AND entity_id = ANY(%s)
            ORDER BY entity_id FOR UPDATE
            """,
            [current_tenant(), ids],
        )
        _delete_tasks(cursor, entity_type, ids, [], [])
