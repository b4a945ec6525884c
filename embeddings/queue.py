"""The work table's verbs: want, claim, extend, store, retry, release, fail. Each is one or two statements, conditional
on what the caller believes, so that a late or doubled worker changes nothing.

Lock order is always the embedding row first, then its task: edits and completions meet on the same two rows. A write
may lock many rows in an order of its own (an import does), so the worker never waits for one row while it holds
another: it skips what is locked. No clock but the database's decides anything here. Providers are called in worker.py,
never here.
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.conf import settings
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from pgvector import Vector

from embeddings import bell, registry, slots
from embeddings.models import EmbeddingStatus, Priority
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from embeddings.text import source_hash
from portal.tenancy.context import current_tenant, tenant_context

ERROR_LENGTH = 500

_DUE = "status <> 'failed' AND next_attempt_at <= now() AND model = ANY(%(models)s) AND entity_type = ANY(%(types)s)"

# Tasks whose claim still holds. A row that somebody else has locked is theirs now, or comes back with its lease's end.
_OURS = """
    SELECT t.id FROM embeddings_embeddingtask t
    JOIN unnest(%(tasks)s::uuid[], %(claims)s::uuid[]) AS r(id, claim_id) ON t.id = r.id AND t.claim_id = r.claim_id
    FOR UPDATE OF t SKIP LOCKED
"""


@dataclass(frozen=True, slots=True)
class Wish:
    """The source text that an entity has now (normalised), whether the entity is active, and its version if it has one."""

    entity_id: uuid.UUID
    text: str
    active: bool = True
    version: int | None = None  # diagnostic


@dataclass(frozen=True, slots=True)
class Task:
    """A claimed task. `claim_id` is the proof that it is still ours, `slot` says which model and where its vector goes."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    entity_type: str
    entity_id: uuid.UUID
    source_hash: str
    attempts: int
    claim_id: uuid.UUID
    slot: Slot


@dataclass(frozen=True, slots=True)
class Embedded:
    """A claimed task with the vector of its text: float32[384], and whether the model cut the text."""

    task: Task
    vector: np.ndarray
    truncated: bool


def want(
    entity: EmbeddedEntity,
    wishes: Sequence[Wish],
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
    if not wishes:
        return 0
    wishes = sorted(wishes, key=lambda wish: wish.entity_id)
    models = {slot.number: slot.model for slot in ([only] if only else slots.kept())}
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
                "ids": [wish.entity_id for wish in wishes],
                "active": [wish.active for wish in wishes],
                "hashes": [source_hash(wish.text) for wish in wishes],
                "statuses": [usual if wish.text else EmbeddingStatus.BLANK for wish in wishes],
                "refresh": refresh,
                "enabled": enabled,
            },
        )
        rows = cursor.fetchall()
        changed = {entity_id for entity_id, _, _ in rows}
        work = [(entity_id, models[slot]) for entity_id, slot, has_work in rows if has_work]
        done = [(entity_id, models[slot]) for entity_id, slot, has_work in rows if not has_work]
        if changed:
            # Also the tasks of models without a slot: while processes change over one by one, the newest wish counts.
            _forget(cursor, entity.type, changed, done, None if only else models.values())
        return _ask(cursor, entity.type, {wish.entity_id: wish for wish in wishes}, work, priority)


def _ask(
    cursor: CursorWrapper,
    entity_type: str,
    wishes: Mapping[uuid.UUID, Wish],
    work: Sequence[tuple[uuid.UUID, str]],
    priority: Priority,
) -> int:
    if work:
        # The running attempt of an older text loses its claim here, so its result can no longer be stored.
        cursor.execute(
            """
            INSERT INTO embeddings_embeddingtask AS t (id, tenant_id, entity_type, entity_id, model, source_hash,
                source_version, status, priority, attempts, last_error)
            SELECT gen_random_uuid(), %(tenant)s, %(type)s, w.entity_id, w.model, w.source_hash,
                w.source_version, 'pending', %(priority)s, 0, ''
            FROM unnest(%(ids)s::uuid[], %(models)s::text[], %(hashes)s::text[], %(versions)s::int[])
                AS w(entity_id, model, source_hash, source_version)
            ON CONFLICT (tenant_id, entity_type, entity_id, model) DO UPDATE SET
                source_hash = excluded.source_hash, source_version = excluded.source_version,
                status = 'pending', attempts = 0, claim_id = NULL, last_error = '',
                next_attempt_at = now(),
                priority = CASE t.status WHEN 'failed' THEN excluded.priority ELSE LEAST(t.priority, excluded.priority) END
            """,
            {
                "tenant": current_tenant(),
                "type": entity_type,
                "priority": priority,
                "ids": [entity_id for entity_id, _ in work],
                "models": [model for _, model in work],
                "hashes": [source_hash(wishes[entity_id].text) for entity_id, _ in work],
                "versions": [wishes[entity_id].version for entity_id, _ in work],
            },
        )
        bell.ring_on_commit()
    return len({entity_id for entity_id, _ in work})


def ask_again(
    entity: EmbeddedEntity,
    entity_ids: Sequence[uuid.UUID],
    *,
    refresh: bool,
    priority: Priority = Priority.BACKFILL,
    only: Slot | None = None,
) -> int:
    """`want` for those who found an embedding out of step, rather than for the write that changes it.

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
            [current_tenant(), slots.kept()[0].number, list(entity_ids)],
        )
        texts = entity.load_texts([row[0] for row in cursor.fetchall()])
        wishes = [Wish(entity_id, text) for entity_id, text in texts.items()]
        return want(entity, wishes, refresh=refresh, priority=priority, only=only)


def _forget(
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


def claim(limit: int, *, but: Container[str] = ()) -> list[Task]:
    """Claims up to `limit` due tasks of all tenants for one lease, of the models that have a slot and are not among `but`;
    needs the worker's login. Counts the attempt.

    The most urgent priority first, and in it every tenant that has something due in equal parts, so that one tenant's
    backfill does not hold up another's.

    A task whose worker died is due again when its lease ends. It may be what killed the worker, so it is claimed
    alone: others must not die with it, and be counted, again and again.
    """
    by_model = {slot.model: slot for slot in slots.kept() if slot.model not in but}
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH served AS MATERIALIZED (
                SELECT id, (%(limit)s + count(*) OVER () - 1) / count(*) OVER () AS share FROM tenancy_tenant AS tenant
                WHERE EXISTS (SELECT FROM embeddings_embeddingtask WHERE tenant_id = tenant.id AND {_DUE})
                ORDER BY random() LIMIT %(limit)s
            ), first AS MATERIALIZED (
                SELECT task.* FROM served CROSS JOIN LATERAL (
                    SELECT id, status, priority FROM embeddings_embeddingtask WHERE tenant_id = served.id AND {_DUE}
                    ORDER BY priority, next_attempt_at LIMIT served.share FOR UPDATE SKIP LOCKED
                ) AS task
            ), due AS (
                SELECT id, status FROM first WHERE priority = (SELECT min(priority) FROM first) LIMIT %(limit)s
            ), abandoned AS (
                SELECT id FROM due WHERE status = 'running' LIMIT 1
            )
            UPDATE embeddings_embeddingtask t SET
                status = 'running', claim_id = %(claim)s, attempts = attempts + 1,
                next_attempt_at = now() + make_interval(secs => %(lease)s)
            WHERE id IN (SELECT id FROM abandoned UNION ALL
                         SELECT id FROM due WHERE NOT EXISTS (SELECT FROM abandoned))
            RETURNING id, tenant_id, entity_type, entity_id, source_hash, attempts, claim_id, model
            """,
            {
                "claim": uuid.uuid4(),
                "lease": settings.EMBEDDING_LEASE,
                "limit": limit,
                "models": list(by_model),
                "types": [entity.type for entity in registry.all_entities()],
            },
        )
        rows: list[tuple[Any, ...]] = [(*row[:-1], by_model[row[-1]]) for row in cursor.fetchall()]
        return [Task(*row) for row in rows]


def extend(tasks: Sequence[Task]) -> None:
    """The heartbeat: a new lease for the tasks that are still ours."""
    _change_ours(
        "UPDATE embeddings_embeddingtask SET next_attempt_at = now() + make_interval(secs => %(lease)s)",
        tasks,
    )


def store(entity: EmbeddedEntity, results: Sequence[Embedded]) -> int:
    """Stores the vectors of one tenant's tasks in one slot that are still ours and still wanted, and deletes those tasks;
    returns how many.

    The compare-and-set is on the embedding's tenant, id, active and source hash, the fence on the task's claim id and
    hash. A result that fails either is dropped without a trace: somebody newer is responsible (EMB-4).
    """
    if not results:
        return 0
    tenant_id = results[0].task.tenant_id
    stored = _store(tenant_id, entity, results, "SKIP LOCKED")
    # A write that is not over may have locked a row: wait for it, holding no other.
    left = [result for result in results if result.task.entity_id not in stored]
    return len(stored) + sum(len(_store(tenant_id, entity, [result], "")) for result in left)


def _store(
    tenant_id: uuid.UUID, entity: EmbeddedEntity, results: Sequence[Embedded], if_locked: str
) -> set[uuid.UUID]:
    with tenant_context(tenant_id), connection.cursor() as cursor:
        arguments: dict[str, Any] = {
            "tenant": tenant_id,
            "slot": results[0].task.slot.number,
            "model": results[0].task.slot.model,
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
            FOR UPDATE OF e {if_locked}
            """,
            arguments,
        )
        current = [row[0] for row in cursor.fetchall()]
        cursor.execute(
            f"""
            DELETE FROM embeddings_embeddingtask t
            USING unnest(%(tasks)s::uuid[], %(hashes)s::text[]) AS r(id, source_hash)
            WHERE t.id IN ({_OURS}) AND t.id = r.id AND t.source_hash = r.source_hash AND t.entity_id = ANY(%(current)s)
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
            WHERE e.tenant_id = %(tenant)s AND e.slot = %(slot)s AND e.entity_id = r.entity_id
                AND e.entity_id = ANY(%(ours)s)
            """,
            {**arguments, "ours": ours},
        )
        return set(ours)


def drop(tasks: Sequence[Task]) -> None:
    """Deletes tasks that are still ours but whose entity is gone or inactive: there is nothing to embed."""
    _change_ours("DELETE FROM embeddings_embeddingtask", tasks)


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


def release(tasks: Sequence[Task], *, error: str = "", delay: float = 0) -> None:
    """Gives claims back without counting the attempt: the provider's trouble, or our own shutdown (RELIABILITY 15)."""
    _change_ours(
        """
        UPDATE embeddings_embeddingtask SET status = 'pending', claim_id = NULL, last_error = %(error)s,
            attempts = GREATEST(attempts - 1, 0), next_attempt_at = now() + make_interval(secs => %(delay)s)
        """,
        tasks,
        error=error[:ERROR_LENGTH],
        delay=delay,
    )


def _change_ours(statement: str, tasks: Sequence[Task], **arguments: Any) -> None:
    if not tasks:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            f"{statement} WHERE id IN ({_OURS})",
            {
                **arguments,
                "lease": settings.EMBEDDING_LEASE,
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
            [current_tenant(), task.entity_id, task.slot.number, task.source_hash],
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
                [error[:ERROR_LENGTH], current_tenant(), task.entity_id, task.slot.number, task.source_hash],
            )


def forget(entity_type: str, entity_ids: Sequence[uuid.UUID]) -> None:
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
        _forget(cursor, entity_type, ids, [], [])
