"""The tasks that a job has enqueued, by their tag `job_id`: they are tagged, counted and untagged (sql/job_tasks.sql).

Every newer request removes the tag (enqueue.py), so a tagged task is of this job alone: no edit came since. The task of an
edit is never tagged.

No statement here waits for a row that another transaction has locked: a write may lock many rows, in an order of its own. What
is skipped is looked at again later, or belongs to that write.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from embeddings.models import Priority
from embeddings.queue import sql
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot


def tag(entity: EmbeddedEntity, job_id: UUID, slot: Slot, ids: Sequence[UUID]) -> None:
    """Tags the tasks that were just enqueued for these entities, in the same transaction.

    Left out are urgent tasks (of an edit), claimed ones (not just enqueued), and those whose embedding another transaction has
    locked (not enqueued by this one).
    """
    sql.execute(
        "job_tasks.tag",
        entity,
        job=job_id,
        slot=slot.number,
        model=slot.model,
        priority=Priority.BACKFILL,
        ids=list(ids),
    )


def count_waiting(entity: EmbeddedEntity, job_id: UUID) -> int:
    """How many entities have a task of the job."""
    [(count,)] = sql.fetch("job_tasks.count_waiting", entity, job=job_id)
    return int(count)


def tagged(entity: EmbeddedEntity, job_id: UUID, ids: Sequence[UUID]) -> set[UUID]:
    """Which of these entities have a task of the job."""
    rows = sql.fetch("job_tasks.tagged", entity, job=job_id, ids=list(ids))
    return {entity_id for (entity_id,) in rows}


def collect_failures(entity: EmbeddedEntity, job_id: UUID) -> list[tuple[UUID, str]]:
    """Untags the job's parked tasks and returns their entities and errors, so that each is counted once. An entity that is
    still being embedded in a second model is collected when both tasks are over."""
    rows = sql.fetch("job_tasks.collect_failures", entity, job=job_id)
    return list(dict(rows).items())


def untag(entity: EmbeddedEntity, job_id: UUID) -> int:
    """Removes the tag from the job's tasks, which stay queued; returns the number of their entities."""
    left = count_waiting(entity, job_id)
    sql.execute("job_tasks.untag", entity, job=job_id)
    return left
