"""Finds embeddings that are not of their entity's text and that no task will put right, whatever bug, outage or restore left
them so (RELIABILITY rule 14): pending without a task, made while embedding was switched off, failed without the task that tells
why, of another model, without the signs of its word pieces (embedded before they were kept), or missing in a new slot (EMB-10). It also reads the texts themselves again, some at each run, for what a
write forgot to enqueue. Deletes what is left over: the vectors of a slot that was dropped, the tasks of entities that are gone
and of models without a slot, and such models' circuits.

Runs every few minutes from beat and at the start of a worker; a healthy catalogue costs one index scan a tenant and slot, and
BATCH_SIZE texts a tenant.
"""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db.models import Q

from embeddings import registry, slots
from embeddings.models import EmbeddingStatus, Priority
from embeddings.providers.base import ProviderError, TokenProvider
from embeddings.queue import sql
from embeddings.queue.enqueue import EmbeddingRequest, enqueue, requeue
from embeddings.slots import Slot
from embeddings.text import source_hash
from portal.resilience import circuit_breaker
from portal.tenancy.context import tenant_context, tenant_ids

BATCH_SIZE = 1000
_NOTHING = UUID(int=0)
# By tenant and type, the last entity whose text this process has looked at.
_looked_at: dict[tuple[UUID, str], UUID] = {}


def reconcile() -> int:
    """Enqueues what has work to be done and no task that does it, in every tenant; returns how many. Needs the worker's login."""
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
            repaired += _compare_texts(tenant_id, entity, serving)
    return repaired


def _repair(tenant_id: UUID, entity: registry.EmbeddedEntity, slot: Slot, reference: Slot) -> int:
    """Enqueues in batches by id, each a transaction: a row that cannot be repaired now does not hold up the rest."""
    repaired, after = 0, _NOTHING
    # What was switched off stays so while it is.
    is_off = settings.EMBEDDING_PROVIDER == "disabled"
    waiting = [EmbeddingStatus.PENDING, *([] if is_off else [EmbeddingStatus.DISABLED])]
    signed = _gives_word_pieces(slot)
    while True:
        with tenant_context(tenant_id):
            found = sql.fetch(
                "reconcile.find_unqueued",
                entity,
                slot=slot.number,
                model=slot.model,
                signed=signed,
                reference=reference.number,
                waiting=waiting,
                after=after,
                limit=BATCH_SIZE,
            )
            ids = [entity_id for (entity_id,) in found]
            if ids:
                repaired += requeue(entity, ids, refresh=True, only=slot, found_in=reference)
        if len(ids) < BATCH_SIZE:
            return repaired
        after = ids[-1]


def _gives_word_pieces(slot: Slot) -> bool:
    """Whether the workers can be asked for the signs that are missing: by this process's own provider."""
    try:
        return isinstance(slot.embedder(), TokenProvider)
    except ProviderError:
        return False


def _compare_texts(tenant_id: UUID, entity: registry.EmbeddedEntity, serving: Slot) -> int:
    """Enqueues those of the next BATCH_SIZE active entities whose embedding is missing or of another text than theirs."""
    place = tenant_id, entity.type
    with tenant_context(tenant_id):
        after = _looked_at.pop(place, _NOTHING)
        rows = entity.active().filter(pk__gt=after).order_by("pk")
        ids = list(rows.values_list("pk", flat=True)[:BATCH_SIZE])
        if len(ids) == BATCH_SIZE:
            _looked_at[place] = ids[-1]
        embeddings = entity.model.objects.filter(Q(entity_id__in=ids), slot=serving.number)
        columns = ("entity_id", "active", "status", "source_hash")
        stored = {pk: row for pk, *row in embeddings.values_list(*columns)}
        texts = entity.load_texts(ids)
        missing = [EmbeddingRequest(pk, text) for pk, text in texts.items() if pk not in stored]
        repaired = enqueue(entity, missing, priority=Priority.BACKFILL)
        # Of another text, or of one that an edit has enqueued since the row was read: then a refresh would take its task from the
        # worker that is at it, and have the text embedded twice.
        other = [pk for pk, text in texts.items() if pk in stored and not _is_of(text, *stored[pk])]
        repaired += requeue(entity, sorted(other), refresh=False)
        # Of this text, but with the status of the contrary.
        wrong = [pk for pk, text in texts.items() if pk in stored and _is_blank_by_mistake(text, *stored[pk])]
        return repaired + requeue(entity, sorted(wrong), refresh=True)


def _is_of(text: str, active: bool, status: str, wanted: str) -> bool:  # noqa: FBT001 - a row's columns
    """Whether an embedding with these columns wants the vector of this text."""
    return active and wanted == source_hash(text)


def _is_blank_by_mistake(text: str, active: bool, status: str, wanted: str) -> bool:  # noqa: FBT001 - as above
    return _is_of(text, active, status, wanted) and (status == EmbeddingStatus.BLANK) == bool(text)
