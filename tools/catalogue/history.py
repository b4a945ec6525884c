"""The events of tracked rows (CAT-8) as pages and API read them: the current tenant's, each with the one before it."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db.models import Model, OuterRef, QuerySet, Subquery

from portal.tenancy.context import current_tenant

Event = dict[str, Any]


def events(model: type[Model]) -> QuerySet[Any]:
    """Those of a tracked model's rows, in no order."""
    event: Any = apps.get_model(model._meta.app_label, f"{model.__name__}Event")
    # Event models have a plain manager; the policy in the database stands beneath.
    found: QuerySet[Any] = event.objects.filter(tenant_id=current_tenant())
    return found


def newest_event(model: type[Model]) -> Subquery:
    """For a query of rows: the number of the newest event of each, which names the state that it is in."""
    mine = events(model).filter(pgh_obj_id=OuterRef("pk"))
    return Subquery(mine.order_by("-pgh_id").values("pgh_id")[:1])


def with_before(model: type[Model], found: QuerySet[Any], limit: int) -> list[tuple[Event, Event | None]]:
    """The first `limit` of these events, each with the one before it of the same row, however far back that one is."""
    older = events(model).filter(pgh_obj_id=OuterRef("pgh_obj_id"), pgh_id__lt=OuterRef("pgh_id"))
    rows = list(
        found.annotate(older=Subquery(older.order_by("-pgh_id").values("pgh_id")[:1])).values()[:limit]
    )
    numbers = [row.pop("older") for row in rows]
    before = {row["pgh_id"]: row for row in events(model).filter(pgh_id__in=numbers).values()}
    return [(row, before.get(number)) for row, number in zip(rows, numbers, strict=True)]
