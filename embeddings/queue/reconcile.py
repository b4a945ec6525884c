"""The net under the net: finds embeddings that wait without a task, whatever bug or restore left them so, and those that a
newly taken slot does not have yet (EMB-10). Deletes what nobody will come back to: what a slot that was given up still
holds, tasks of entities that are gone and of models that nobody keeps, and such models' circuits.

Runs every few minutes from beat and at the start of a worker; a healthy catalogue costs one index scan a tenant and slot.
"""

from __future__ import annotations

from uuid import UUID

from django.db import connection

from embeddings import registry, slots
from embeddings.queue.enqueue import requeue
from embeddings.slots import Slot
from portal.resilience import circuit_breaker
from portal.tenancy.context import current_tenant, tenant_context, tenant_ids

LIMIT = 1000


def reconcile() -> int:
    """Queues what is `pending` without a live task, and what only the serving slot has, in every tenant; returns how many.
    Needs the worker's login."""
    serving, *others = slots.all()
    slots.clear_dropped()
    models = [slot.model for slot in (serving, *others)]
    circuit_breaker.close_all(keep=models)
    repaired = 0
    for tenant_id in tenant_ids():
        for entity in registry.all_entities():
            with tenant_context(tenant_id):
                _prune(entity, models)
            for slot in (serving, *others):
                repaired += _repair(tenant_id, entity, slot, serving)
    return repaired


def _prune(entity: registry.EmbeddedEntity, models: list[str]) -> None:
    """Tasks without an embedding: a write that asks makes both at once. What is locked is somebody's, and left to them."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            DELETE FROM embeddings_embeddingtask WHERE id IN (
                SELECT t.id FROM embeddings_embeddingtask t
                WHERE t.tenant_id = %(tenant)s AND t.entity_type = %(type)s AND (
                    NOT t.model = ANY(%(models)s)
                    OR NOT EXISTS (
                        SELECT 1 FROM {entity.table} e WHERE e.tenant_id = t.tenant_id AND e.entity_id = t.entity_id))
                FOR UPDATE SKIP LOCKED)
            """,
            {"tenant": current_tenant(), "type": entity.type, "models": models},
        )


def _repair(tenant_id: UUID, entity: registry.EmbeddedEntity, slot: Slot, serving: Slot) -> int:
    """In batches, each a transaction, by id: what cannot be repaired now does not hold up what can."""
    repaired, after = 0, UUID(int=0)
    while True:
        with tenant_context(tenant_id):
            ids = _orphans(entity, slot, serving, after)
            if ids:
                repaired += requeue(entity, ids, refresh=True, only=slot)
        if len(ids) < LIMIT:
            return repaired
        after = ids[-1]


def _orphans(entity: registry.EmbeddedEntity, slot: Slot, serving: Slot, after: UUID) -> list[UUID]:
    # In the serving slot `e` and `o` are the same row, so only a waiting one is found.
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT e.entity_id FROM {entity.table} e LEFT JOIN {entity.table} o
                ON o.tenant_id = e.tenant_id AND o.entity_id = e.entity_id AND o.slot = %(slot)s
            WHERE e.tenant_id = %(tenant)s AND e.active AND e.slot = %(serving)s AND e.entity_id > %(after)s
                AND (o.id IS NULL OR o.source_hash <> e.source_hash OR NOT o.active OR o.status = 'pending')
                AND NOT EXISTS (
                    SELECT 1 FROM embeddings_embeddingtask t
                    WHERE t.tenant_id = e.tenant_id AND t.entity_type = %(type)s AND t.entity_id = e.entity_id
                        AND t.model = %(model)s AND t.status <> 'failed')
            ORDER BY e.entity_id LIMIT %(limit)s
            """,
            {
                "tenant": current_tenant(),
                "slot": slot.number,
                "serving": serving.number,
                "after": after,
                "type": entity.type,
                "model": slot.model,
                "limit": LIMIT,
            },
        )
        return [row[0] for row in cursor.fetchall()]
