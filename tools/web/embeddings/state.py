"""The embedding of an entity as pages show it: the badge of a row, and the card with its state and next attempt (EMB-5).

Any entity type has the same card: its model has `name`, `active` and `embeddings`, its page is the URL `<type>`, and its card
and Refresh are `<type>-embedding` and `<type>-embedding-refresh`. No view.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from embeddings import slots
from embeddings.models import EmbeddingTask, EntityEmbedding, TaskStatus
from embeddings.registry import EmbeddedEntity
from portal.resilience import circuit_breaker
from portal.resilience.models import Circuit
from tools.catalogue.embedding_text import ENTITY as TOOL
from tools.models import ToolEmbedding
from tools.web.shell.badges import Badge

BADGES = {
    badge.status: badge
    for badge in (
        Badge("ready", "Ready", "check-circle-fill", "Found by meaning and by keyword."),
        Badge(
            "pending", "Pending", "hourglass-split", "Waiting for its vector; found by keyword until then."
        ),
        Badge("failed", "Failed", "x-octagon-fill", "Embedding failed; found by keyword only."),
        Badge("disabled", "Disabled", "slash-circle", "Embedding was switched off; found by keyword only."),
        Badge("blank", "Blank", "dash-circle-dotted", "There is no text to embed."),
        Badge("inactive", "Inactive", "power", "Inactive tools are neither embedded nor searched."),
        Badge("none", "Not embedded", "question-circle", "No embedding has been requested yet."),
    )
}


class _Embeddings(Protocol):
    def all(self) -> Iterable[EntityEmbedding]: ...


class Embedded(Protocol):
    """A row of an embedded entity type."""

    pk: UUID
    name: str
    active: bool

    @property
    def embeddings(self) -> _Embeddings: ...


def embedding_of(row: Embedded) -> EntityEmbedding | None:
    """The serving embedding of a row that was loaded `with_serving_embedding`."""
    return next(iter(row.embeddings.all()), None)


def badge_of(row: Embedded) -> Badge:
    """The badge of a row that was loaded `with_serving_embedding`."""
    if not row.active:
        return BADGES["inactive"]
    embedding = embedding_of(row)
    return BADGES[embedding.status if embedding else "none"]


def is_off() -> bool:
    """Whether nobody embeds anything."""
    return bool(settings.EMBEDDING_PROVIDER == "disabled")


def embedding_queued(pks: Iterable[UUID]) -> str:
    """The end of a message about a write to these tools: that it queued an embedding, if it did."""
    waiting = ToolEmbedding.serving().filter(entity__in=list(pks), active=True, status="pending")
    return " Embedding queued." if waiting.exists() else ""


@dataclass(frozen=True, slots=True)
class Card:
    """The embedding card of one entity. `phase` says what a waiting embedding waits for: queued, running, retrying or lost."""

    entity_type: str
    name: str
    badge: Badge
    row: EntityEmbedding | None
    task: EmbeddingTask | None
    phase: str
    max_attempts: int
    page: str
    url: str
    refresh_url: str

    @property
    def is_refreshing(self) -> bool:
        """Whether a ready vector serves while it is embedded again."""
        return self.badge.status == "ready" and self.phase in {"queued", "running", "retrying"}

    @property
    def is_waiting(self) -> bool:
        """Whether the state will change without an action of the user, so that the card polls."""
        return not self.is_off and (self.badge.is_waiting or self.is_refreshing)

    @property
    def is_off(self) -> bool:
        """Whether nobody embeds anything."""
        return is_off()

    @property
    def can_refresh(self) -> bool:
        return not self.is_off and self.badge.status not in {"blank", "inactive"}

    @property
    def has_old_vector(self) -> bool:
        """Whether there is a vector, but of an older text, which no search compares."""
        return self.row is not None and self.row.vector_hash not in {None, self.row.source_hash}

    @property
    def error(self) -> str:
        """Why the last attempt failed; empty if it did not."""
        stored = self.row.error if self.row else ""
        return (self.task.last_error if self.task else "") or stored

    @property
    def queued_at(self) -> datetime | None:
        """When the embedding was requested: until the first attempt, the task has been due since then."""
        return self.task.next_attempt_at if self.task and self.phase == "queued" else None


def card_of(row: Embedded, entity: EmbeddedEntity = TOOL) -> Card:
    """The card of a row that was loaded `with_serving_embedding`; one query for its task."""
    badge = badge_of(row)
    task = EmbeddingTask.objects.filter(
        entity_type=entity.type, entity_id=row.pk, model=slots.serving().model
    ).first()
    return Card(
        entity_type=entity.type,
        name=row.name,
        badge=badge,
        row=embedding_of(row),
        task=task,
        phase=_phase(badge, task),
        max_attempts=settings.EMBEDDING_MAX_ATTEMPTS,
        page=reverse(entity.type, args=[row.pk]),
        url=reverse(f"{entity.type}-embedding", args=[row.pk]),
        refresh_url=reverse(f"{entity.type}-embedding-refresh", args=[row.pk]),
    )


def card_context(card: Card) -> dict[str, object]:
    """The context of templates/embeddings/card.html."""
    return {"card": card, "troubles": open_passage_circuits() if card.is_waiting else []}


def open_passage_circuits() -> list[Circuit]:
    """The open circuits that keep texts from being embedded; empty while the providers are healthy."""
    stored = slots.in_use()
    return [one for one in circuit_breaker.open_circuits() if one.purpose == "passage" and one.name in stored]


def _phase(badge: Badge, task: EmbeddingTask | None) -> str:
    if task is None:
        return "lost" if badge.is_waiting else ""
    if task.status == TaskStatus.FAILED:
        return "failed"
    if task.status == TaskStatus.RUNNING and task.next_attempt_at > timezone.now():
        return "running"
    return "retrying" if task.last_error else "queued"
