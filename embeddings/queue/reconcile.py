"""Finds embeddings that are pending without a task, whatever bug or restore left them so, and those that a new slot does not
have yet (EMB-10). Deletes what is left over: the vectors of a slot that was dropped, the tasks of entities that are gone and of
models without a slot, and such models' circuits.

Runs every few minutes from beat and at the start of a worker; a healthy catalogue costs one index scan a tenant and slot.
"""

from __future__ import annotations

from uuid import UUID

from embeddings import registry, slots
from embeddings.queue import sql
from embeddings.queue.enqueue import requeue
from embeddings.slots import Slot
from portal.resilience import circuit_breaker
from portal.tenancy.context import tenant_context, tenant_ids

BATCH_SIZE = 1000


def reconcile() -> int:
    """Enqueues what is `pending` without a task, and what one slot has and another lacks, in every tenant; returns how many. Needs
    the worker's login."""
    serving, *others = slots.all()
    slots.clear_dropped()
    models = [slot.model for slot in (serving, *others)]
    # The serving slot lacks rows, too, if it was switched to while the other had nothing ready.
    pairs = [(slot, serving) for slot in (serving, *others)] + [(serving, other) for other in others]
    circuit_breaker.close_all(keep=models)
    repaired = 0
    for tenant_id in tenant_ids():
        for entity in registry.all_entities():
            with tenant_context(tenant_id):
                sql.execute("reconcile.prune_tasks", entity, models=models)
            for slot, reference in pairs:
                repaired += _repair(tenant_id, entity, slot, reference)
    return repaired


def _repair(tenant_id: UUID, entity: registry.EmbeddedEntity, slot: Slot, reference: Slot) -> int:
    """Enqueues in batches by id, each a transaction: a row that cannot be repaired now does not hold up the rest."""
    repaired, after = 0, UUID(int=0)
    while True:
        with tenant_context(tenant_id):
            found = sql.fetch(
                "reconcile.find_unqueued",
                entity,
                slot=slot.number,
                model=slot.model,
                reference=reference.number,
                after=after,
                limit=BATCH_SIZE,
            )
            ids = [entity_id for (entity_id,) in found]
            if ids:
                repaired += requeue(entity, ids, refresh=True, only=slot, found_in=reference)
        if len(ids) < BATCH_SIZE:
            return repaired
        after = ids[-1]
