"""The slots of embedding models, and which of them serves searches (EMB-10).

There are two slots: one serves, the other may be filled with a second model's vectors while every write enqueues both. A switch
changes which one serves, and a second one goes back, until the old slot is dropped. Vectors of two slots are never compared: a
search embeds its question with the model of the slot that it reads.

Before the first start has written a row, slot 0 serves the model that the settings name.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.db.models import QuerySet

from embeddings import registry
from embeddings.models import EmbeddingModel, EntityEmbedding
from embeddings.providers import EmbeddingProvider, ProviderError, get_provider
from portal.resilience import circuit_breaker
from portal.tenancy.context import tenant_context, tenant_ids

Row = TypeVar("Row", bound=EntityEmbedding)

CACHE_SECONDS = 0.5
"""How long a process may still search in the slot that served before a switch; its rows stay until it is dropped."""


class SlotError(Exception):
    """A change of slots that was refused; the message tells the operator why."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A model and the number of the slot with its vectors. `provider` and `url` say how the model is reached."""

    number: int
    model: str
    provider: str
    url: str
    serves: bool

    def embedder(self) -> EmbeddingProvider | None:
        """The provider of this slot's model; None when embeddings are disabled. Raises ProviderError (provider_wide) for a model
        that this process cannot load, for example one of another runtime."""
        try:
            return get_provider(provider=self.provider, model=self.model, url=self.url)
        except ImproperlyConfigured as error:
            raise ProviderError(str(error), provider_wide=True) from error


@dataclass(frozen=True, slots=True)
class Completeness:
    """How many of the serving vectors of all tenants the other slot has (`ready`), and how many have failed there."""

    total: int
    ready: int
    failed: int

    @property
    def is_complete(self) -> bool:
        """Whether few enough are missing for a switch: failed ones (EMB-10), or of edits that are just being embedded."""
        return self.total - self.ready <= settings.EMBEDDING_SWITCH_MAX_MISSING * self.total


def all() -> list[Slot]:  # noqa: A001 - read as slots.all()
    """All slots in use, the serving one first; every write enqueues for each of them."""
    return [_slot(row) for row in _rows()]


def in_use() -> set[str]:
    """The models that workers and searches ask; none while embedding is switched off."""
    return set() if settings.EMBEDDING_PROVIDER == "disabled" else {slot.model for slot in all()}


def _rows() -> list[EmbeddingModel]:
    first = EmbeddingModel(slot=0, model=settings.EMBEDDING_MODEL, serves=True)
    return list(EmbeddingModel.objects.order_by("-serves")) or [first]


def _slot(row: EmbeddingModel) -> Slot:
    # The settings name the provider and address of their own model, so that a change there takes effect without a new slot.
    if row.model == settings.EMBEDDING_MODEL:
        return Slot(row.slot, row.model, settings.EMBEDDING_PROVIDER, settings.EMBEDDING_URL, row.serves)
    return Slot(row.slot, row.model, row.provider, row.url, row.serves)


def serving() -> Slot:
    """The slot that answers searches, cached for CACHE_SECONDS, so that a search needs no query for it."""
    global _cached  # noqa: PLW0603 - one memory a process
    row, until = _cached
    if row is None or time.monotonic() >= until:
        row = _rows()[0]
        _cached = row, time.monotonic() + CACHE_SECONDS
    return _slot(row)


_cached: tuple[EmbeddingModel | None, float] = None, 0.0


def serving_rows(embeddings: QuerySet[Row]) -> QuerySet[Row]:
    """Those of the slot that serves, without what only searches read: one row an entity. Whatever lists, counts or chooses entities
    by their embedding reads these, as an entity has a row in each slot."""
    return embeddings.filter(slot=serving().number).defer("vector", "signature", "token_signs")


def clear_cache() -> None:
    """Reads at the next search of this process again which slot serves."""
    global _cached  # noqa: PLW0603 - see `serving`
    _cached = None, 0.0


def ensure_slot() -> str:
    """Gives the settings' model a slot if it has none; returns a sentence for the operator, or "". Raises SlotError if both slots
    are in use.

    The first model serves at once. The workers' reconciler fills a second one, which serves after a switch.
    """
    if settings.EMBEDDING_PROVIDER == "disabled":
        return ""
    model = settings.EMBEDDING_MODEL
    with transaction.atomic():
        rows = {
            row.slot: row for row in EmbeddingModel.objects.select_for_update(no_key=True).order_by("slot")
        }
        known = next((row for row in rows.values() if row.model == model), None)
        if known is not None:
            if (known.provider, known.url) != (settings.EMBEDDING_PROVIDER, settings.EMBEDDING_URL):
                # The errors were of the former provider or address.
                circuit_breaker.close_all(keep=[row.model for row in rows.values() if row.model != model])
            EmbeddingModel.objects.filter(pk=known.pk).update(
                provider=settings.EMBEDDING_PROVIDER, url=settings.EMBEDDING_URL
            )
            return ""
        free = next((number for number in (0, 1) if number not in rows), None)
        if free is None:
            raise SlotError(
                f"EMBEDDING_MODEL={model} has no slot: both slots are in use, by {rows[0].model} and {rows[1].model}. "
                "Drop the one that does not serve: manage.py embedding_model drop"
            )
        if rows:
            _clear(free)
        EmbeddingModel.objects.create(
            slot=free,
            model=model,
            provider=settings.EMBEDDING_PROVIDER,
            url=settings.EMBEDDING_URL,
            serves=not rows,
        )
    if not rows:
        return ""
    return (
        f"The workers now make vectors of {model} beside those of {next(iter(rows.values())).model}, which serve until "
        "you switch: manage.py embedding_model switch"
    )


def completeness() -> Completeness | None:
    """The completeness of the slot that does not serve, over all tenants; None if there is none."""
    slots = all()
    return _counted(*slots) if len(slots) > 1 else None


def _counted(now: Slot, then: Slot) -> Completeness:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT total, ready, failed FROM embeddings_completeness(%s::smallint, %s::smallint)",
            [now.number, then.number],
        )
        return Completeness(*cursor.fetchone())


def switch(to: str = "") -> Slot:
    """Makes the other slot serve; the present one stays, so that a second switch goes back. `to` names the expected model, so that
    a repeated request does not go back. Raises SlotError if the other slot is not complete."""
    with transaction.atomic():
        now, then = _lock_both(
            "There is no second model to switch to. Set EMBEDDING_MODEL to it and start the portal again."
        )
        if to == now.model:
            return now
        _check_model(then, to)
        found = _counted(now, then)
        if not found.is_complete:
            raise SlotError(
                f"{then.model} is not complete: {found.ready:,} of {found.total:,} vectors are ready, {found.failed:,} failed."
            )
        EmbeddingModel.objects.filter(slot=now.number).update(serves=False)
        EmbeddingModel.objects.filter(slot=then.number).update(serves=True)
    clear_cache()
    return then


def drop(model: str = "") -> Slot:
    """Frees the slot that does not serve; `clear_dropped` deletes its vectors and tasks. `model` names the expected model. Raises
    SlotError."""
    with transaction.atomic():
        _, gone = _lock_both("Only one model has vectors, and it serves.")
        _check_model(gone, model)
        EmbeddingModel.objects.filter(slot=gone.number).delete()
    return gone


def _lock_both(otherwise: str) -> list[Slot]:
    """Locks and returns the serving slot and the other one. Raises SlotError with the message `otherwise` if there is only one."""
    list(EmbeddingModel.objects.select_for_update(no_key=True).order_by("slot"))
    slots = all()
    if len(slots) < 2:
        raise SlotError(otherwise)
    return slots


def _check_model(slot: Slot, model: str) -> None:
    if model not in {"", slot.model}:
        raise SlotError(f"The second model is {slot.model} now, and not {model}.")


def clear_dropped() -> None:
    """Deletes the vectors and tasks of slots without a model. Needs a login that may list the tenants (the worker's or the owner's)."""
    for number in {0, 1} - {slot.number for slot in all()}:
        _clear(number)


def _clear(number: int) -> None:
    """Deletes the vectors and tasks of a slot without a model, in one transaction a tenant. Rows that a write adds meanwhile are
    deleted the next time; a slot that gets a model meanwhile is left alone."""
    for tenant_id, entity in product(tenant_ids(), registry.all_entities()):
        with tenant_context(tenant_id), connection.cursor() as cursor:
            cursor.execute(
                f"""
                DELETE FROM {entity.table} WHERE tenant_id = %s AND slot = %s
                    AND NOT EXISTS (SELECT 1 FROM embeddings_embeddingmodel WHERE slot = %s)
                """,
                [tenant_id, number, number],
            )
            cursor.execute(
                """
                DELETE FROM embeddings_embeddingtask WHERE tenant_id = %s AND entity_type = %s AND NOT model = ANY(%s)
                """,
                [tenant_id, entity.type, [slot.model for slot in all()]],
            )
