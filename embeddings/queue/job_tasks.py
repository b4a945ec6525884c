"""The tasks that a job has enqueued, by their tag: `job_id`. They are tagged, counted, and untagged again.

Every newer request removes the tag (enqueue.py), so a tagged task is of this job alone: no edit came since. The task of an
edit is never tagged.

No statement here waits for a row that another transaction has locked: a write may lock many rows, in an order of its own. What
is skipped is looked at again later, or belongs to that write.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import connection

from embeddings.models import Priority
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from portal.tenancy.context import current_tenant


def tag(entity: EmbeddedEntity, job_id: UUID, slot: Slot, ids: Sequence[UUID]) -> None:
    """Tags the tasks that were just enqueued for these entities, in the same transaction.

    Left out are urgent tasks (of an edit), claimed ones (not just enqueued), and those whose embedding another transaction has
    locked (not enqueued by this one).
    """
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH ours AS MATERIALIZED (
                SELECT entity_id FROM {entity.table}
                WHERE tenant_id = %(tenant)s AND slot = %(slot)s AND entity_id = ANY(%(ids)s)
                FOR UPDATE SKIP LOCKED
            )
            UPDATE embeddings_embeddingtask t SET job_id = %(job)s
            FROM ours
            WHERE t.tenant_id = %(tenant)s AND t.entity_type = %(type)s AND t.entity_id = ours.entity_id
                AND t.model = %(model)s AND t.status = 'pending' AND t.priority = %(priority)s
            """,
            {
                "job": job_id,
                "ids": list(ids),
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
            UPDATE embeddings_embeddingtask t SET job_id = NULL
            FROM parked WHERE t.id = parked.id
            RETURNING t.entity_id, t.last_error
            """,
            {"tenant": current_tenant(), "job": job_id, "type": entity.type},
        )
        return list(dict(cursor.fetchall()).items())


def untag(entity: EmbeddedEntity, job_id: UUID) -> int:
    """Removes the tag from the job's tasks, which stay queued; returns the number of their entities."""
    left = count_waiting(entity, job_id)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE embeddings_embeddingtask SET job_id = NULL
            WHERE id IN (
                SELECT id FROM embeddings_embeddingtask WHERE tenant_id = %s AND job_id = %s AND entity_type = %s
                FOR UPDATE SKIP LOCKED)
            """,
            [current_tenant(), job_id, entity.type],
        )
    return left
