"""The embedding of a tool as pages show it: the badge of a list, and the card with what happens next (EMB-5). No view."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from embeddings import slots
from embeddings.models import EmbeddingTask, TaskStatus
from portal.resilience import circuit_breaker
from portal.resilience.circuit_breaker import OpenCircuit
from tools.catalogue import embedding_text
from tools.models import Tool, ToolEmbedding


@dataclass(frozen=True, slots=True)
class Badge:
    """A status as icon, word and style; `hint` is a sentence about it."""

    status: str
    word: str
    icon: str
    hint: str

    @property
    def is_waiting(self) -> bool:
        return self.status == "pending"


BADGES = {
    badge.status: badge
    for badge in (
        Badge("ready", "Ready", "check-circle-fill", "Found by meaning and by keyword."),
        Badge("pending", "Pending", "hourglass-split", "Waiting for its vector; found by keyword meanwhile."),
        Badge("failed", "Failed", "x-octagon-fill", "No vector could be made; found by keyword only."),
        Badge("disabled", "Disabled", "slash-circle", "Embedding is switched off; found by keyword only."),
        Badge("blank", "Blank", "dash-circle-dotted", "There is no text to embed."),
        Badge("inactive", "Inactive", "power", "Inactive tools are neither embedded nor searched."),
        Badge("none", "Not embedded", "question-circle", "Nobody has asked for a vector yet."),
    )
}


def embedding_of(tool: Tool) -> ToolEmbedding | None:
    """The serving embedding of a tool that was loaded `with_serving_embedding`."""
    rows: Iterable[ToolEmbedding] = tool.embeddings.all()
    return next(iter(rows), None)


def badge_of(tool: Tool) -> Badge:
    if not tool.active:
        return BADGES["inactive"]
    row = embedding_of(tool)
    return BADGES[row.status if row else "none"]


@dataclass(frozen=True, slots=True)
class Card:
    """Everything the embedding card says. `phase` tells what a waiting one waits for: queued, running, retrying or lost."""

    tool: Tool
    badge: Badge
    row: ToolEmbedding | None
    task: EmbeddingTask | None
    phase: str
    max_attempts: int

    @property
    def is_refreshing(self) -> bool:
        """A ready vector serves while a newer one is made."""
        return self.badge.status == "ready" and self.phase in {"queued", "running", "retrying"}

    @property
    def is_waiting(self) -> bool:
        """Whether something will change by itself, so that asking again makes sense."""
        return self.badge.is_waiting or self.is_refreshing

    @property
    def can_refresh(self) -> bool:
        return self.badge.status not in {"blank", "disabled", "inactive"}

    @property
    def is_current(self) -> bool:
        return (
            self.row is not None
            and self.row.vector_hash is not None
            and self.row.vector_hash == self.row.source_hash
        )

    @property
    def serves_old_vector(self) -> bool:
        """There is a vector, but of an older text."""
        return self.row is not None and self.row.vector_hash is not None and not self.is_current

    @property
    def error(self) -> str:
        """Why the last attempt failed, in the words of whoever failed; empty if none did."""
        kept = self.row.error if self.row else ""
        return (self.task.last_error if self.task else "") or kept

    @property
    def queued_at(self) -> datetime | None:
        """When the present wish was made: until the first attempt that is also when it became due."""
        return self.task.next_attempt_at if self.task and self.phase == "queued" else None


def card_of(tool: Tool) -> Card:
    """The card of a tool that was loaded `with_serving_embedding`; one query for its task."""
    row = embedding_of(tool)
    badge = badge_of(tool)
    task = EmbeddingTask.objects.filter(
        entity_type=embedding_text.ENTITY.type, entity_id=tool.pk, model=slots.serving().model
    ).first()
    return Card(tool, badge, row, task, _phase(badge, task), settings.EMBEDDING_MAX_ATTEMPTS)


def open_passage_circuits() -> list[OpenCircuit]:
    """Why no vectors of tools can be made at the moment; empty while the providers are well."""
    kept = {slot.model for slot in slots.all()}
    return [one for one in circuit_breaker.open_circuits() if one.purpose == "passage" and one.name in kept]


def _phase(badge: Badge, task: EmbeddingTask | None) -> str:
    if task is None:
        return "lost" if badge.is_waiting else ""
    if task.status == TaskStatus.FAILED:
        return "failed"
    if task.status == TaskStatus.RUNNING and task.next_attempt_at > timezone.now():
        return "running"
    return "retrying" if task.last_error else "queued"
