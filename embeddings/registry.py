"""The entity types that have embeddings. The pipeline knows an entity by its type and id only; each type says here
which table holds its vectors and how its source texts are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from embeddings.models import EntityEmbedding

EmbeddingTable = type[EntityEmbedding]


@dataclass(frozen=True, slots=True)
class EmbeddedEntity:
    """One entity type.

    `load_texts(ids)` runs inside the tenant's context and returns the normalised source text of every *active* entity
    among `ids`; an id that is missing from the answer is not embedded.
    """

    type: str
    model: EmbeddingTable
    load_texts: Callable[[Iterable[UUID]], Mapping[UUID, str]]

    @property
    def table(self) -> str:
        return self.model._meta.db_table


_entities: dict[str, EmbeddedEntity] = {}


def register(entity: EmbeddedEntity) -> None:
    """Called once per type from an AppConfig.ready(); a second, different one of the same type is refused."""
    known = _entities.setdefault(entity.type, entity)
    if known != entity:
        raise ValueError(f"the entity type {entity.type!r} is registered already")


def get(entity_type: str) -> EmbeddedEntity:
    """The registered type; KeyError names an unknown one."""
    return _entities[entity_type]


def all_entities() -> list[EmbeddedEntity]:
    return list(_entities.values())
