"""The history of tracked rows (CAT-8) as pages and API read it: the current tenant's events, each with the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db.models import Model, OuterRef, Q, QuerySet, Subquery

from portal.tenancy.context import current_tenant
from tools.catalogue.errors import StaleSettings
from tools.catalogue.visibility import seen
from tools.models import ManualOverride, Tool

Event = dict[str, Any]  # the columns of an event by name

# The things that a tool's history tells of: their model, and how its events refer to the tool.
_THINGS: dict[str, tuple[type[Model], str]] = {
    "override": (ManualOverride, "tool_id"),
    "tool": (Tool, "pgh_obj_id"),
}
VERBS = {"insert": "created", "update": "changed", "delete": "deleted"}
# Bookkeeping of a row, whose other fields tell the change.
BOOKKEEPING = {"id", "tenant_id", "version", "updated_by", "created_at", "download_count", "source_id"}


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """The position of an event in a tool's history, which two tables hold: the later, the greater. Raises ValueError for a
    thing that has no history."""

    at: datetime
    thing: str
    number: int

    def __post_init__(self) -> None:
        if self.thing not in _THINGS or self.at.tzinfo is None:
            raise ValueError(f"no position in a history: {self}")

    def earlier(self, thing: str) -> Q:
        """The condition for events of a thing before this position."""
        earlier = Q(pgh_created_at__lt=self.at)
        if thing == self.thing:
            return earlier | Q(pgh_created_at=self.at, pgh_id__lt=self.number)
        return earlier | Q(pgh_created_at=self.at) if thing < self.thing else earlier


@dataclass(frozen=True, slots=True)
class Entry:
    """An event of a tracked row, and the event before it of the same row."""

    model: type[Model]
    row: Event
    before: Event | None

    @property
    def verb(self) -> str:
        """created, changed or deleted."""
        return VERBS[self.row["pgh_label"]]

    @property
    def context(self) -> Mapping[str, Any]:
        """What the service recorded with the event: its actor, the request, a reset or an undo."""
        return self.row["pgh_context"] or {}

    @property
    def actor(self) -> str | None:
        """The author. A write that bypasses the services has none."""
        return self.context.get("actor")

    @property
    def position(self) -> Position:
        """Where it stands in the history of its tool."""
        thing = "tool" if self.model is Tool else "override"
        return Position(self.row["pgh_created_at"], thing, self.row["pgh_id"])

    def changes(self, ignored: set[str]) -> Iterator[tuple[str, object, object]]:
        """Yields (field, value before, value after) of each changed field that is neither bookkeeping nor `ignored`."""
        if self.before is None:
            return
        for name, value in self.row.items():
            if name.startswith("pgh_") or name in BOOKKEEPING or name in ignored:
                continue
            if value != self.before[name]:
                yield name, self.before[name], value


def entries(
    model: type[Model],
    limit: int,
    *conditions: Q,
    order: Sequence[str] = ("-pgh_created_at", "-pgh_id"),
    **which: object,
) -> list[Entry]:
    """The newest `limit` events of the rows of a tracked model that match, newest first, whether a service, a bulk statement
    or plain SQL wrote them; each with the one before it of the same row, however far back that one is."""
    older = events(model).filter(pgh_obj_id=OuterRef("pgh_obj_id"), pgh_id__lt=OuterRef("pgh_id"))
    found = events(model).filter(*conditions, **which).order_by(*order)
    with_older = found.annotate(older=Subquery(older.order_by("-pgh_id").values("pgh_id")[:1]))
    rows = list(with_older.values()[:limit])
    numbers = [row.pop("older") for row in rows]
    before = {row["pgh_id"]: row for row in events(model).filter(pgh_id__in=numbers).values()}
    return [Entry(model, row, before.get(number)) for row, number in zip(rows, numbers, strict=True)]


def tool_history(tool_id: UUID, *, limit: int, before: Position | None = None) -> list[Entry]:
    """The newest `limit` events of a tool and of its overrides before a position, newest first."""
    found = [
        entry
        for thing, (model, reference) in _THINGS.items()
        for entry in entries(
            model, limit, Q(**{reference: tool_id}), *([before.earlier(thing)] if before else [])
        )
    ]
    return sorted(found, key=lambda one: one.position, reverse=True)[:limit]


def events(model: type[Model]) -> QuerySet[Any]:
    """Those of a tracked model's rows that the caller may see, in no order: of a tool since it last came into the caller's sight."""
    event: Any = apps.get_model(model._meta.app_label, f"{model.__name__}Event")
    # Event models have a plain manager; the policy in the database stands beneath.
    found: QuerySet[Any] = event.objects.filter(tenant_id=current_tenant())
    return seen(found)


def newest_event(model: type[Model]) -> Subquery:
    """For a query of rows: the number of the newest event of each, which names the state that it is in."""
    mine = events(model).filter(pgh_obj_id=OuterRef("pk"))
    return Subquery(mine.order_by("-pgh_id").values("pgh_id")[:1])


ANY_EVENT = -1
"""For `require_event`: whatever the state of the row is."""


def require_event(row: Model, expected: int | None) -> None:
    """Raises StaleSettings unless the newest event of a locked row is the one that the author of a change has seen."""
    if expected == ANY_EVENT:
        return
    newest = events(type(row)).filter(pgh_obj_id=row.pk).order_by("-pgh_id").values_list("pgh_id", flat=True)
    if newest.first() != expected:
        raise StaleSettings
