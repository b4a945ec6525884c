"""The work table's verbs: want, claim, settle, fail, release. Each is one or two statements, conditional on what the
caller believes, so that a late or doubled worker changes nothing.

Lock order is always the embedding row first, then its task, rows by id: edits and completions meet on the same two
rows. No clock but the database's decides anything here. Providers are called in worker.py, never here.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.conf import settings
from django.db import connection, transaction
from pgvector import Vector

from embeddings import bell
from embeddings.models import EmbeddingStatus, Priority
from embeddings.registry import EmbeddedEntity
from embeddings.text import source_hash
from portal.tenancy.context import current_tenant

ERROR_LENGTH = 500
SERVING_SLOT = 0


@dataclass(frozen=True, slots=True)
class Wish:
    """The source text that an entity has now (normalised), and whether the entity is active."""

    entity_id: uuid.UUID
    text: str
    active: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """A claimed task. `claim_id` is the proof that it is still ours."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    entity_type: str
    entity_id: uuid.UUID
    source_hash: str
    attempts: int
    claim_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Embedded:
    """A claimed task with the vector of its text: float32[384], and whether the model cut the text."""

    task: Task
    vector: np.ndarray
    truncated: bool


def want(
    entity: EmbeddedEntity, wishes: Sequence[Wish], *, refresh: bool = False, priority: Priority = Priority.EDIT
) -> int:
    """Makes the entities' embeddings follow their texts; call it in the transaction of the write (EMB-2).

    A changed text (or a reactivated entity) becomes `pending` with a task; an unchanged one writes nothing, unless
    `refresh` asks for a new vector all the same: then a `ready` one keeps serving meanwhile. No text: `blank`, without
    vector or task. Returns how many entities have a task now because of this call.
    """
    if not wishes:
        return 0
    wishes = sorted(wishes, key=lambda wish: wish.entity_id)
    enabled = settings.EMBEDDING_PROVIDER != "disabled"
    usual = EmbeddingStatus.PENDING if enabled else EmbeddingStatus.DISABLED
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"""
            INSERT INTO {entity.table} AS e
                (id, tenant_id, entity_id, slot, active, source_hash, status, model, dimension, truncated, error)
            SELECT gen_random_uuid(), %(tenant)s, w.entity_id, %(slot)s, w.active, w.source_hash, w.status,
                   %(model)s, %(dimension)s, false, ''
            FROM unnest(%(ids)s::uuid[], %(active)s::bool[], %(hashes)s::text[], %(statuses)s::text[])
                AS w(entity_id, active, source_hash, status)
            ON CONFLICT (tenant_id, entity_id, slot) DO UPDATE SET
                active = excluded.active,
                source_hash = excluded.source_hash,
                model = CASE WHEN e.vector IS NULL THEN excluded.model ELSE e.model END,
                vector = CASE WHEN excluded.status = 'blank' THEN NULL ELSE e.vector END,
                vector_hash = CASE WHEN excluded.status = 'blank' THEN NULL ELSE e.vector_hash END,
                status = CASE
                    WHEN excluded.status = 'pending' AND e.status = 'ready' AND e.source_hash = excluded.source_hash
                    THEN 'ready' ELSE excluded.status END,
                error = ''
            WHERE %(refresh)s OR e.source_hash <> excluded.source_hash OR e.active <> excluded.active
            RETURNING e.entity_id, e.source_hash,
                e.active AND (e.status = 'pending' OR (e.status = 'ready' AND %(refresh)s)) AS has_work
            """,
            {
                "tenant": current_tenant(),
                "slot": SERVING_SLOT,
                "model": settings.EMBEDDING_MODEL,
                "dimension": settings.EMBEDDING_DIMENSION,
                "ids": [wish.entity_id for wish in wishes],
                "active": [wish.active for wish in wishes],
                "hashes": [source_hash(wish.text) for wish in wishes],
                "statuses": [usual if wish.text else EmbeddingStatus.BLANK for wish in wishes],
                "refresh": refresh,
            },
        )
        touched = cursor.fetchall()
        to_do = [(entity_id, wanted) for entity_id, wanted, has_work in touched if has_work]
        _forget(cursor, entity.type, [entity_id for entity_id, _, has_work in touched if not has_work])
        _ask(cursor, entity.type, to_do, priority)
    return len(to_do)


def _ask(cursor, entity_type: str, to_do: list[tuple[uuid.UUID, str]], priority: Priority) -> None:  # type: ignore[no-untyped-def]
    if not to_do:
        return
    # The running attempt of an older text loses its claim here, so its result can no longer be stored.
    cursor.execute(
        """
        INSERT INTO embeddings_embeddingtask AS t
            (id, tenant_id, entity_type, entity_id, model, source_hash, status, priority, attempts, last_error)
        SELECT gen_random_uuid(), %(tenant)s, %(type)s, w.entity_id, %(model)s, w.source_hash, 'pending', %(priority)s, 0, ''
        FROM unnest(%(ids)s::uuid[], %(hashes)s::text[]) AS w(entity_id, source_hash)
        ON CONFLICT (tenant_id, entity_type, entity_id, model) DO UPDATE SET
            source_hash = excluded.source_hash, status = 'pending', attempts = 0, claim_id = NULL, last_error = '',
            priority = LEAST(t.priority, excluded.priority), next_attempt_at = now()
        """,
        {
            "tenant": current_tenant(),
            "type": entity_type,
            "model": settings.EMBEDDING_MODEL,
            "priority": priority,
            "ids": [entity_id for entity_id, _ in to_do],
            "hashes": [wanted for _, wanted in to_do],
        },
    )
    bell.ring_on_commit()


def _forget(cursor, entity_type: str, entity_ids: list[uuid.UUID]) -> None:  # type: ignore[no-untyped-def]
    if entity_ids:
        cursor.execute(
            "DELETE FROM embeddings_embeddingtask WHERE tenant_id = %s AND entity_type = %s AND entity_id = ANY(%s)",
            [current_tenant(), entity_type, entity_ids],
        )


def claim(limit: int) -> list[Task]:
    """Claims up to `limit` due tasks of all tenants for one lease; needs the worker's login.

    A task whose worker died is due again when its lease ends. The attempt is counted here.
    """
    claim_id = uuid.uuid4()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE embeddings_embeddingtask SET
                status = 'running', claim_id = %(claim)s, attempts = attempts + 1,
                next_attempt_at = now() + make_interval(secs => %(lease)s)
            WHERE id IN (
                SELECT id FROM embeddings_embeddingtask
                WHERE status <> 'failed' AND next_attempt_at <= now() AND model = %(model)s
                ORDER BY priority, next_attempt_at
                LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
            RETURNING id, tenant_id, entity_type, entity_id, source_hash, attempts, claim_id
            """,
            {
                "claim": claim_id,
                "lease": settings.EMBEDDING_LEASE,
                "limit": limit,
                "model": settings.EMBEDDING_MODEL,
            },
        )
        return [Task(*row) for row in cursor.fetchall()]


def store(entity: EmbeddedEntity, results: Sequence[Embedded]) -> int:
    """Stores the vectors of tasks that are still ours and still wanted, and deletes those tasks; returns how many.

    The compare-and-set is on the embedding's tenant, id, active and source hash, the fence on the task's claim id and
    hash. A result that fails either is dropped without a trace: somebody newer is responsible (EMB-4).
    """
    with transaction.atomic(), connection.cursor() as cursor:
        arguments = {
            "tenant": current_tenant(),
            "slot": SERVING_SLOT,
            "model": settings.EMBEDDING_MODEL,
            "entities": [result.task.entity_id for result in results],
            "hashes": [result.task.source_hash for result in results],
            "tasks": [result.task.id for result in results],
            "claims": [result.task.claim_id for result in results],
            "vectors": [Vector(result.vector).to_text() for result in results],
            "truncated": [result.truncated for result in results],
        }
        cursor.execute(
            f"""
            SELECT e.entity_id FROM {entity.table} e
            JOIN unnest(%(entities)s::uuid[], %(hashes)s::text[]) AS r(entity_id, source_hash)
                ON e.entity_id = r.entity_id AND e.source_hash = r.source_hash
            WHERE e.tenant_id = %(tenant)s AND e.slot = %(slot)s AND e.active
            ORDER BY e.entity_id FOR UPDATE OF e
            """,
            arguments,
        )
        current = [row[0] for row in cursor.fetchall()]
        cursor.execute(
            """
            DELETE FROM embeddings_embeddingtask t
            USING unnest(%(tasks)s::uuid[], %(claims)s::uuid[], %(hashes)s::text[], %(entities)s::uuid[])
                AS r(id, claim_id, source_hash, entity_id)
            WHERE t.id = r.id AND t.claim_id = r.claim_id AND t.source_hash = r.source_hash
                AND r.entity_id = ANY(%(current)s)
            RETURNING t.entity_id
            """,
            {**arguments, "current": current},
        )
        ours = [row[0] for row in cursor.fetchall()]
        cursor.execute(
            f"""
            UPDATE {entity.table} e SET
                vector = r.vector::vector, vector_hash = r.source_hash, status = 'ready', error = '',
                model = %(model)s, truncated = r.truncated, embedded_at = now()
            FROM unnest(%(entities)s::uuid[], %(hashes)s::text[], %(vectors)s::text[], %(truncated)s::bool[])
                AS r(entity_id, source_hash, vector, truncated)
            WHERE e.tenant_id = %(tenant)s AND e.slot = %(slot)s AND e.active AND e.entity_id = r.entity_id
                AND e.source_hash = r.source_hash AND e.entity_id = ANY(%(ours)s)
            """,
            {**arguments, "ours": ours},
        )
        return cursor.rowcount


def drop(tasks: Sequence[Task]) -> None:
    """Deletes tasks that are still ours but whose entity is gone or inactive: there is nothing to embed."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            DELETE FROM embeddings_embeddingtask t USING unnest(%s::uuid[], %s::uuid[]) AS r(id, claim_id)
            WHERE t.id = r.id AND t.claim_id = r.claim_id
            """,
            [[task.id for task in tasks], [task.claim_id for task in tasks]],
        )


def retry_later(task: Task, *, error: str, delay: float) -> None:
    """The task's own trouble: wait `delay` seconds, then try again, if it is still ours."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE embeddings_embeddingtask SET status = 'pending', claim_id = NULL, last_error = %s,
                next_attempt_at = now() + make_interval(secs => %s)
            WHERE id = %s AND claim_id = %s
            """,
            [error[:ERROR_LENGTH], delay, task.id, task.claim_id],
        )


def release(tasks: Sequence[Task], *, error: str, delay: float) -> None:
    """Gives claims back without counting the attempt: the provider's trouble, or our own shutdown (RELIABILITY 15)."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE embeddings_embeddingtask t SET status = 'pending', claim_id = NULL, last_error = %(error)s,
                attempts = GREATEST(t.attempts - 1, 0), next_attempt_at = now() + make_interval(secs => %(delay)s)
            FROM unnest(%(tasks)s::uuid[], %(claims)s::uuid[]) AS r(id, claim_id)
            WHERE t.id = r.id AND t.claim_id = r.claim_id
            """,
            {
                "error": error[:ERROR_LENGTH],
                "delay": delay,
                "tasks": [task.id for task in tasks],
                "claims": [task.claim_id for task in tasks],
            },
        )


def fail(entity: EmbeddedEntity, task: Task, *, error: str) -> None:
    """Parks the task with its reason, and says so beside the vector, if claim and text are still the current ones."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT 1 FROM {entity.table}
            WHERE tenant_id = %s AND entity_id = %s AND slot = %s AND source_hash = %s FOR UPDATE
            """,
            [current_tenant(), task.entity_id, SERVING_SLOT, task.source_hash],
        )
        cursor.execute(
            """
            UPDATE embeddings_embeddingtask SET status = 'failed', claim_id = NULL, last_error = %s
            WHERE id = %s AND claim_id = %s AND source_hash = %s
            """,
            [error[:ERROR_LENGTH], task.id, task.claim_id, task.source_hash],
        )
        if cursor.rowcount == 1:
            # A vector that still means the current text goes on serving: only its refresh failed.
            cursor.execute(
                f"""
                UPDATE {entity.table} SET error = %s,
                    status = CASE WHEN vector_hash = source_hash THEN 'ready' ELSE 'failed' END
                WHERE tenant_id = %s AND entity_id = %s AND slot = %s AND source_hash = %s
                """,
                [error[:ERROR_LENGTH], current_tenant(), task.entity_id, SERVING_SLOT, task.source_hash],
            )


def forget(entity_type: str, entity_ids: Sequence[uuid.UUID]) -> None:
    """Deletes the tasks of entities that are being deleted (their embeddings go with the row)."""
    with connection.cursor() as cursor:
        _forget(cursor, entity_type, list(entity_ids))
