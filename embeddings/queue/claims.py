"""The workers' side of the queue: claim, extend, store, drop, retry_later, release, fail. Each is one or two statements
(sql/claims.sql), conditional on what the caller believes, so that a late or doubled worker changes nothing. The other side is
enqueue.py.

Lock order is always the embedding row first, then its task: edits and completions meet on the same two rows. A write may lock
many rows in an order of its own (an import does), so a worker that holds a row never waits for another: it skips locked ones.
Only the database's clock is used. worker.py calls the providers.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.conf import settings
from django.db import transaction
from pgvector import Vector

from embeddings import registry, slots
from embeddings.models import Priority, TaskStatus
from embeddings.queue import sql
from embeddings.queue.counters import count_expired, count_stored
from embeddings.registry import EmbeddedEntity
from embeddings.slots import Slot
from portal.error_text import shorten
from portal.tenancy.context import tenant_context

FULL_SCAN_SECONDS = 10.0
"""Seconds after which a claim reads the queue from its start again."""
WATERMARK_MARGIN_SECONDS = 0.1
"""How far behind its watermark a claim starts, since writes commit in another order than that of their times."""


@dataclass(frozen=True, slots=True)
class Task:
    """A claimed task. `claim_id` is the proof that the caller still holds it, `slot` the model and the place of its vector."""

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
    """A claimed task with the vector of its text: float32[384], whether the model cut the text, and the signs of its word pieces if
    the provider gives these (token_signs.py)."""

    task: Task
    vector: np.ndarray
    truncated: bool
    token_signs: bytes | None = None


class QueueWatermarks:
    """How far a worker has read the queue of each tenant and priority: what is free there is due no earlier (RELIABILITY rule 10).

    While an old snapshot is held, the index entries of finished tasks cannot be removed, and a claim that starts at the
    beginning of the index steps over all of them. A watermark misses tasks that were locked when it passed them, or committed
    long after they were written, so it is cleared every FULL_SCAN_SECONDS.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[uuid.UUID, int], datetime] = {}
        self._clear_at = 0.0

    def seen(self) -> list[tuple[uuid.UUID, int, datetime]]:
        """Tenant, priority and time of each watermark."""
        if time.monotonic() >= self._clear_at:
            self._clear_at = time.monotonic() + FULL_SCAN_SECONDS
            self._seen.clear()
        return [(*lane, at) for lane, at in self._seen.items()]

    def record(self, tenant_id: uuid.UUID, priority: int, at: datetime) -> None:
        """Records that the first free task of this tenant and priority was due at `at`."""
        self._seen[tenant_id, priority] = at


def claim(
    limit: int, *, of: Sequence[Slot] | None = None, watermarks: QueueWatermarks | None = None
) -> list[Task]:
    """Claims up to `limit` due tasks of all tenants for one lease, of the models in the slots `of` (default: all slots) whose
    circuit is closed; needs the worker's login. Counts the attempt.

    Every tenant with due tasks has an equal share, of its most urgent priority alone, so that neither the backfill nor the edits of
    one tenant hold up another's work (SEC-5). With `watermarks` the claim starts where the caller's last one ended.

    A task whose worker died is due again when its lease ends. It may be what killed the worker, so it is claimed alone: no
    other task is to lose an attempt with it.
    """
    by_model = {slot.model: slot for slot in (slots.all() if of is None else of)}
    seen = watermarks.seen() if watermarks else []
    rows = sql.fetch(
        "claims.claim",
        claim=uuid.uuid4(),
        lease=settings.EMBEDDING_LEASE,
        limit=limit,
        margin=WATERMARK_MARGIN_SECONDS,
        models=list(by_model),
        types=[entity.type for entity in registry.all_entities()],
        priorities=Priority.values,
        seen_tenants=[tenant_id for tenant_id, _, _ in seen],
        seen_priorities=[priority for _, priority, _ in seen],
        seen_times=[at for _, _, at in seen],
    )
    tasks, expired = [], 0
    # Edits first: their vectors are made and stored before those of the others' backfills.
    rows.sort(key=lambda row: row[9])
    for id_, tenant_id, type_, entity_id, text_hash, attempts, claim_id, model, before, priority, at in rows:
        tasks.append(Task(id_, tenant_id, type_, entity_id, text_hash, attempts, claim_id, by_model[model]))
        expired += before == TaskStatus.RUNNING
        if watermarks:
            watermarks.record(tenant_id, priority, at)
    count_expired(expired)
    return tasks


def extend(tasks: Sequence[Task]) -> None:
    """The heartbeat: renews the lease of the tasks that the caller still holds."""
    sql.execute("claims.extend", **_claims_of(tasks), lease=settings.EMBEDDING_LEASE)


def store(entity: EmbeddedEntity, results: Sequence[Embedded]) -> int:
    """Stores the vectors of one tenant's tasks in one slot and deletes those tasks; returns how many were stored.

    The compare-and-set is on the embedding's tenant, id, active and source hash, the fence on the task's claim id and hash. A
    result that fails either is dropped without a trace: a newer request or claim is responsible for it (EMB-4).
    """
    if not results:
        return 0
    tenant_id = results[0].task.tenant_id
    stored = _store(tenant_id, entity, results, "claims.lock_current_unlocked")
    # An unfinished write may have locked a row: wait for it, holding no other.
    left = [result for result in results if result.task.entity_id not in stored]
    return len(stored) + sum(
        len(_store(tenant_id, entity, [result], "claims.lock_current")) for result in left
    )


def _store(
    tenant_id: uuid.UUID, entity: EmbeddedEntity, results: Sequence[Embedded], lock: str
) -> set[uuid.UUID]:
    slot = results[0].task.slot
    wanted = {
        "slot": slot.number,
        "entities": [result.task.entity_id for result in results],
        "hashes": [result.task.source_hash for result in results],
    }
    with tenant_context(tenant_id):
        current = [entity_id for (entity_id,) in sql.fetch(lock, entity, **wanted)]
        stored = sql.fetch(
            "claims.store",
            entity,
            **wanted,
            **_claims_of([result.task for result in results]),
            current=current,
            model=slot.model,
            vectors=[Vector(result.vector).to_text() for result in results],
            signs=[result.token_signs for result in results],
            truncated=[result.truncated for result in results],
        )
    count_stored(lag for _, lag in stored)
    return {entity_id for entity_id, _ in stored}


def drop(tasks: Sequence[Task]) -> None:
    """Deletes the tasks that the caller still holds, as their entity is gone or inactive."""
    if tasks:
        sql.execute("claims.drop", **_claims_of(tasks))


def retry_later(task: Task, *, error: str, delay: float) -> None:
    """Lets a task that the caller still holds wait `delay` seconds before its next attempt."""
    sql.execute("claims.retry_later", task=task.id, claim=task.claim_id, error=shorten(error), delay=delay)


def release(tasks: Sequence[Task], *, error: str = "", delay: float = 0) -> None:
    """Gives tasks back without counting the attempt: the provider is in trouble, or this process ends (RELIABILITY rule 15)."""
    if tasks:
        sql.execute("claims.release", **_claims_of(tasks), error=shorten(error), delay=delay)


def _claims_of(tasks: Sequence[Task]) -> dict[str, list[uuid.UUID]]:
    return {"tasks": [task.id for task in tasks], "claims": [task.claim_id for task in tasks]}


def fail(entity: EmbeddedEntity, task: Task, *, error: str) -> None:
    """Parks a task that the caller still holds, and records the error beside the vector if the text is still the same."""
    reason = shorten(error)
    row = {"entity": task.entity_id, "slot": task.slot.number, "hash": task.source_hash}
    with transaction.atomic():
        sql.fetch("claims.lock_failed", entity, **row)
        if sql.execute("claims.park", task=task.id, claim=task.claim_id, hash=task.source_hash, error=reason):
            sql.execute("claims.fail", entity, **row, error=reason)
