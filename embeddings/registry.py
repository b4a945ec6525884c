"""The entity types that have embeddings. The queue knows an entity by its type and id only; each type names here
the table of its vectors and how its source texts are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from embeddings.models import EntityEmbedding
from portal.tenancy.models import TenantModel

LABEL_LENGTH = 200


EntityTable = type[TenantModel]
EmbeddingTable = type[EntityEmbedding]


def _all_of_them(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows


@dataclass(frozen=True, slots=True)
class EmbeddedEntity:
    """One entity type.

    `rows` is the model of the entities, which has the field `active`; `model` holds their embeddings. `load_texts(ids)` runs
    inside the tenant's context and returns the normalised source text of every *active* entity among `ids`; an id that is
    missing from the answer is not embedded. `label_field` names an entity for people. `seen(rows)` leaves those that the current
    caller may see.
    """

    type: str
    rows: EntityTable
    model: EmbeddingTable
    load_texts: Callable[[Iterable[UUID]], Mapping[UUID, str]]
    label_field: str = "name"
    seen: Callable[[QuerySet[Any]], QuerySet[Any]] = _all_of_them

    @property
    def table(self) -> str:
        return self.model._meta.db_table

    def visible(self) -> QuerySet[Any]:
        """The entities of the current tenant that the caller may see."""
        return self.seen(self.rows.objects.all())

    def active(self) -> QuerySet[Any]:
        """Those of them that are active."""
        return self.visible().filter(Q(active=True))

    def labels(self, ids: Collection[UUID]) -> dict[UUID, str]:
        """What people call the entities, by id."""
        found = self.rows.objects.filter(pk__in=list(ids))
        return {pk: label[:LABEL_LENGTH] for pk, label in found.values_list("pk", self.label_field)}


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
