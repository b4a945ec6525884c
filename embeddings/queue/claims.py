"""The worker's side of the work table: claim, extend, store, retry, release, fail. Each is one or two statements,
conditional on what the caller believes, so that a late or doubled worker changes nothing. The other side is wishes.py.

Lock order is always the embedding row first, then its task: edits and completions meet on the same two rows. A write
may lock many rows in an order of its own (an import does), so the worker never waits for one row while it holds
another: it skips what is locked. No clock but the database's decides anything here. Providers are called in worker.py,
never here.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from django.conf import settings
from django.db import connection, transaction
from pgvector import Vector

from embeddings import registry, slots
from embeddings.models import Priority
from embeddings.queue.counters import count_expired, count_stored
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from portal.tenancy.context import current_tenant, tenant_context

ERROR_LENGTH = 500

FULL_SCAN_SECONDS = 10.0

_DUE = """
    task.tenant_id = lane.tenant_id AND task.priority = lane.priority AND task.next_attempt_at >= lane.seen
    AND task.next_attempt_at <= now() AND task.status <> 'failed' AND task.entity_type = ANY(%(types)s)
    AND task.model = ANY(%(models)s) AND task.model <> ALL (ARRAY(
        SELECT model FROM embeddings_embeddingcircuit WHERE purpose = 'passage' AND next_try IS NOT NULL))
"""

# OFFSET keeps the planner from making a join of EXISTS, which would read the whole queue. `first` is read in the order of
# `served`, so that it locks no backfill while there are edits enough. A watermark is a little behind what was seen, since
# writes commit in another order than that of their times.
_CLAIM = f"""
    WITH lanes AS (
        SELECT tenant.id AS tenant_id, urgent.priority, COALESCE(seen.at - interval '100 ms', '-infinity') AS seen
        FROM tenancy_tenant AS tenant CROSS JOIN unnest(%(priorities)s::smallint[]) AS urgent(priority)
        LEFT JOIN unnest(%(seen_tenants)s::uuid[], %(seen_priorities)s::smallint[], %(seen_times)s::timestamptz[])
            AS seen(tenant_id, priority, at) ON seen.tenant_id = tenant.id AND seen.priority = urgent.priority
    ), served AS MATERIALIZED (
        SELECT *, (%(limit)s + count(*) OVER same - 1) / count(*) OVER same AS share FROM lanes AS lane
        WHERE EXISTS (SELECT FROM embeddings_embeddingtask AS task WHERE {_DUE} OFFSET 0)
        WINDOW same AS (PARTITION BY priority)
        ORDER BY priority, random()
    ), first AS MATERIALIZED (
        SELECT free.* FROM served AS lane CROSS JOIN LATERAL (
            SELECT id, tenant_id, priority, status, next_attempt_at FROM embeddings_embeddingtask AS task WHERE {_DUE}
            ORDER BY next_attempt_at LIMIT lane.share FOR UPDATE SKIP LOCKED
        ) AS free LIMIT %(limit)s
    ), due AS (
        SELECT id, status, min(next_attempt_at) OVER (PARTITION BY tenant_id) AS watermark
        FROM first WHERE priority = (SELECT min(priority) FROM first)
    ), abandoned AS (
        SELECT * FROM due WHERE status = 'running' LIMIT 1
    ), chosen AS (
        SELECT * FROM abandoned UNION ALL SELECT * FROM due WHERE NOT EXISTS (SELECT FROM abandoned)
    )
    UPDATE embeddings_embeddingtask AS t SET
        status = 'running', claim_id = %(claim)s, attempts = attempts + 1,
        next_attempt_at = now() + make_interval(secs => %(lease)s)
    FROM chosen WHERE t.id = chosen.id
    RETURNING t.id, tenant_id, entity_type, entity_id, source_hash, attempts, claim_id, model, chosen.status, priority, chosen.watermark
"""

# Tasks whose claim still holds. A row that somebody else has locked is theirs now, or comes back with its lease's end.
_OURS = """
    SELECT t.id FROM embeddings_embeddingtask t
    JOIN unnest(%(tasks)s::uuid[], %(claims)s::uuid[]) AS r(id, claim_id) ON t.id = r.id AND t.claim_id = r.claim_id
    FOR UPDATE OF t SKIP LOCKED
"""


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


class QueueWatermarks:
    """How far a worker has seen the queue of each tenant and priority: whatever is free there is due no earlier (rule 10).

    While somebody holds an old snapshot, the entries of finished work cannot leave the index, and a claim that begins at
    its start steps over all of them. A watermark misses what was locked when it was passed, or committed long after it was
    written, so that all is looked at again every 10 seconds.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[uuid.UUID, int], datetime] = {}
        self._look_again = 0.0

    def seen(self) -> list[tuple[uuid.UUID, int, datetime]]:
        if time.monotonic() >= self._look_again:
            self._look_again = time.monotonic() + FULL_SCAN_SECONDS
            self._seen.clear()
        return [(*lane, at) for lane, at in self._seen.items()]

    def record(self, tenant_id: uuid.UUID, priority: int, at: datetime) -> None:
        """Of what was free there, `at` was due first."""
        self._seen[tenant_id, priority] = at


def claim(
    limit: int, *, of: Sequence[Slot] | None = None, watermarks: QueueWatermarks | None = None
) -> list[Task]:
    """Claims up to `limit` due tasks of all tenants for one lease, of the models in the slots `of` (all that are kept)
    whose circuit is closed; needs the worker's login. Counts the attempt.

    The most urgent priority first, and in it every tenant that has something due in equal parts, so that one tenant's
    backfill does not hold up another's. With `watermarks` it begins where the caller's last claim did.

    A task whose worker died is due again when its lease ends. It may be what killed the worker, so it is claimed
    alone: others must not die with it, and be counted, again and again.
    """
    by_model = {slot.model: slot for slot in (slots.all() if of is None else of)}
    seen = watermarks.seen() if watermarks else []
    with connection.cursor() as cursor:
        cursor.execute(
            _CLAIM,
            {
                "claim": uuid.uuid4(),
                "lease": settings.EMBEDDING_LEASE,
                "limit": limit,
                "models": list(by_model),
                "types": [entity.type for entity in registry.all_entities()],
                "priorities": Priority.values,
                "seen_tenants": [tenant_id for tenant_id, _, _ in seen],
                "seen_priorities": [priority for _, priority, _ in seen],
                "seen_times": [at for _, _, at in seen],
            },
        )
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    if watermarks:
        for _, tenant_id, *_, priority, at in rows:
            watermarks.record(tenant_id, priority, at)
    count_expired(sum(row[8] == "running" for row in rows))
    tasks: list[tuple[Any, ...]] = [(*row[:7], by_model[row[7]]) for row in rows]
    return [Task(*task) for task in tasks]


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
        # The embeddings are locked, so their tasks may be: what was ours goes, and its vector comes.
        cursor.execute(
            f"""
            WITH ours AS (
                DELETE FROM embeddings_embeddingtask t
                USING unnest(%(tasks)s::uuid[], %(hashes)s::text[]) AS r(id, source_hash)
                WHERE t.id IN ({_OURS}) AND t.id = r.id AND t.source_hash = r.source_hash
                    AND t.entity_id = ANY(%(current)s)
                RETURNING t.entity_id, extract(epoch FROM clock_timestamp() - t.wanted_at)::float8 AS lag
            )
            UPDATE {entity.table} e SET
                vector = r.vector::vector, vector_hash = r.source_hash, status = 'ready', error = '',
                model = %(model)s, truncated = r.truncated, embedded_at = now()
            FROM ours JOIN unnest(%(entities)s::uuid[], %(hashes)s::text[], %(vectors)s::text[], %(truncated)s::bool[])
                AS r(entity_id, source_hash, vector, truncated) USING (entity_id)
            WHERE e.tenant_id = %(tenant)s AND e.slot = %(slot)s AND e.entity_id = r.entity_id
            RETURNING e.entity_id, ours.lag
            """,
            {**arguments, "current": current},
        )
        stored = dict(cursor.fetchall())
    count_stored(stored.values())
    return set(stored)


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
