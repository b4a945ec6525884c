"""The tasks that a job asked for, by the label `job_id` that they bear: counted, and taken back when the job is cancelled.

Every newer wish takes the label away (wishes.py), so what bears it is still this job's alone: nobody edited the entity
since. An edit's task is never labelled, and so never taken back.

Nothing here waits for a row that somebody else has locked: a write may lock many, in an order of its own. What is passed over
is looked at again, or is that write's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from embeddings import slots
from embeddings.models import EmbeddingStatus, Priority
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from portal.tenancy.context import current_tenant

# What an embedding may go back to. Anything else was owed by an earlier write, and is embedded whether or not there is a job.
RESTING = (EmbeddingStatus.FAILED, EmbeddingStatus.DISABLED, EmbeddingStatus.READY)
TAKEN_BACK = "A job that asked for it again was cancelled before its turn."


def tag(entity: EmbeddedEntity, job_id: UUID, slot: Slot, before: Mapping[UUID, str | None]) -> None:
    """Makes the tasks just asked for the job's, in the transaction of the asking; `before` holds what each entity's embedding
    was. An urgent task is somebody's edit, and a claimed one was not just asked for: neither becomes the job's. Nor does that
    of an embedding which a write has locked, and which was therefore not asked for."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH ours AS MATERIALIZED (
                SELECT entity_id FROM {entity.table}
                WHERE tenant_id = %(tenant)s AND slot = %(slot)s AND entity_id = ANY(%(ids)s)
                FOR UPDATE SKIP LOCKED
            )
            UPDATE embeddings_embeddingtask t SET job_id = %(job)s, status_before = b.status
            FROM unnest(%(ids)s::uuid[], %(statuses)s::text[]) AS b(entity_id, status) JOIN ours USING (entity_id)
            WHERE t.tenant_id = %(tenant)s AND t.entity_type = %(type)s AND t.entity_id = b.entity_id
                AND t.model = %(model)s AND t.status = 'pending' AND t.priority = %(priority)s
            """,
            {
                "job": job_id,
                "ids": list(before),
                "statuses": list(before.values()),
                "tenant": current_tenant(),
                "type": entity.type,
                "slot": slot.number,
                "model": slot.model,
                "priority": Priority.BACKFILL,
            },
        )


def count_waiting(entity: EmbeddedEntity, job_id: UUID) -> int:
    """How many entities have a task of the job."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT count(DISTINCT entity_id) FROM embeddings_embeddingtask
            WHERE tenant_id = %s AND job_id = %s AND entity_type = %s
            """,
            [current_tenant(), job_id, entity.type],
        )
        count: int = cursor.fetchone()[0]
        return count


def tagged(entity: EmbeddedEntity, job_id: UUID, ids: Sequence[UUID]) -> set[UUID]:
    """Which of these entities have a task of the job."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT DISTINCT entity_id FROM embeddings_embeddingtask
            WHERE tenant_id = %s AND job_id = %s AND entity_type = %s AND entity_id = ANY(%s)
            """,
            [current_tenant(), job_id, entity.type, list(ids)],
        )
        return {row[0] for row in cursor.fetchall()}


def collect_failures(entity: EmbeddedEntity, job_id: UUID) -> list[tuple[UUID, str]]:
    """Takes the label off the job's parked tasks and returns their entities and errors: each is counted once. One with a
    second model's task under way is collected when that is over, too."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH parked AS MATERIALIZED (
                SELECT id FROM embeddings_embeddingtask t
                WHERE t.tenant_id = %(tenant)s AND t.job_id = %(job)s AND t.entity_type = %(type)s AND t.status = 'failed'
                    AND NOT EXISTS (
                        SELECT FROM embeddings_embeddingtask o
                        WHERE o.tenant_id = t.tenant_id AND o.job_id = t.job_id AND o.entity_type = t.entity_type
                            AND o.entity_id = t.entity_id AND o.status <> 'failed')
                FOR UPDATE SKIP LOCKED
            )
            UPDATE embeddings_embeddingtask t SET job_id = NULL, status_before = NULL
            FROM parked WHERE t.id = parked.id
            RETURNING t.entity_id, t.last_error
            """,
            {"tenant": current_tenant(), "job": job_id, "type": entity.type},
        )
        return list(dict(cursor.fetchall()).items())


def take_back(entity: EmbeddedEntity, job_id: UUID, limit: int) -> list[UUID]:
    """Takes back tasks of the job that no worker has claimed, and gives the embeddings the status that they had; returns the
    entities, at most `limit`. What an embedding owes anyway, because a write left it without vector, stays queued.

    Rows that a write holds are left to that write.
    """
    models = {slot.number: slot.model for slot in slots.all()}
    arguments: dict[str, Any] = {
        "tenant": current_tenant(),
        "job": job_id,
        "type": entity.type,
        "resting": [str(status) for status in RESTING],
        "limit": limit,
        "error": TAKEN_BACK,
        "slots": list(models),
        "models": list(models.values()),
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT DISTINCT entity_id FROM embeddings_embeddingtask
            WHERE tenant_id = %(tenant)s AND job_id = %(job)s AND entity_type = %(type)s AND status = 'pending'
                AND status_before = ANY(%(resting)s) AND model = ANY(%(models)s)
            ORDER BY entity_id LIMIT %(limit)s
            """,
            arguments,
        )
        ids = [row[0] for row in cursor.fetchall()]
        for number in models:  # the serving slot's row before the other's, as every write locks them
            cursor.execute(
                f"""
                SELECT entity_id FROM {entity.table} WHERE tenant_id = %s AND slot = %s AND entity_id = ANY(%s)
                ORDER BY entity_id FOR UPDATE SKIP LOCKED
                """,
                [current_tenant(), number, ids],
            )
            if number == next(iter(models)):
                ids = [row[0] for row in cursor.fetchall()]
        # A task exists beside each row that is failed; the others rest without one.
        cursor.execute(
            """
            WITH ours AS (
                SELECT id, entity_id, model, status_before FROM embeddings_embeddingtask
                WHERE tenant_id = %(tenant)s AND job_id = %(job)s AND entity_type = %(type)s AND status = 'pending'
                    AND status_before = ANY(%(resting)s) AND entity_id = ANY(%(ids)s)
                FOR UPDATE SKIP LOCKED
            ), parked AS (
                UPDATE embeddings_embeddingtask t SET status = 'failed', last_error = %(error)s, job_id = NULL, status_before = NULL
                FROM ours WHERE t.id = ours.id AND ours.status_before = 'failed'
            ), deleted AS (
                DELETE FROM embeddings_embeddingtask t USING ours WHERE t.id = ours.id AND ours.status_before <> 'failed'
            )
            SELECT entity_id, model, status_before FROM ours
            """,
            {**arguments, "ids": ids},
        )
        taken = cursor.fetchall()
        cursor.execute(
            f"""
            UPDATE {entity.table} e SET status = b.status, error = CASE b.status WHEN 'failed' THEN %(error)s ELSE '' END
            FROM unnest(%(ids)s::uuid[], %(of)s::text[], %(before)s::text[]) AS b(entity_id, model, status)
            JOIN unnest(%(slots)s::smallint[], %(models)s::text[]) AS s(slot, model) ON s.model = b.model
            WHERE e.tenant_id = %(tenant)s AND e.entity_id = b.entity_id AND e.slot = s.slot AND e.status = 'pending'
            """,
            {
                **arguments,
                "ids": [row[0] for row in taken],
                "of": [row[1] for row in taken],
                "before": [row[2] for row in taken],
            },
        )
        return sorted({row[0] for row in taken})


def untag(entity: EmbeddedEntity, job_id: UUID) -> int:
    """The tasks that are left are nobody's in particular from now on; returns how many entities they are of."""
    left = count_waiting(entity, job_id)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE embeddings_embeddingtask SET job_id = NULL, status_before = NULL
            WHERE id IN (
                SELECT id FROM embeddings_embeddingtask WHERE tenant_id = %s AND job_id = %s AND entity_type = %s
                FOR UPDATE SKIP LOCKED)
            """,
            [current_tenant(), job_id, entity.type],
        )
    return left
