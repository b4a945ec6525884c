"""The REST endpoint of a tool's history: who changed what, when, and from what to what (CAT-8)."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Model, Q
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from portal.tenancy.models import Scope
from tools.api.fields import Json, refuse_unknown
from tools.api.history.serializers import EventSerializer
from tools.api.pagination import CursorPages, invalid_cursor
from tools.api.schema import operations as docs
from tools.api.schema.json_schema import answer_schema
from tools.api.tools.lookup import OneToolView
from tools.catalogue import history
from tools.models import ManualOverride, Tool

_VERBS = {"insert": "created", "update": "changed", "delete": "deleted"}
# What an event may tell of: its model, and how that one refers to the tool.
_THINGS: dict[str, tuple[type[Model], str]] = {
    "override": (ManualOverride, "tool_id"),
    "tool": (Tool, "pgh_obj_id"),
}
# Bookkeeping of a row; its meaning is told by the other fields.
_SILENT = {
    "id", "tenant_id", "version", "updated_by", "created_at", "download_count", "source_id", "endpoint_id", "made_at", "made_by",
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """Where an event stands: the later, the greater."""

    at: datetime
    thing: str
    number: int

    def before(self, thing: str) -> Q:
        """The events of a thing that stand before this place."""
        earlier = Q(pgh_created_at__lt=self.at)
        if thing == self.thing:
            return earlier | Q(pgh_created_at=self.at, pgh_id__lt=self.number)
        return earlier | Q(pgh_created_at=self.at) if thing < self.thing else earlier

    def cursor(self) -> str:
        return base64.urlsafe_b64encode(f"{self.at.isoformat()} {self.thing} {self.number}".encode()).decode()

    @classmethod
    def of_cursor(cls, cursor: str) -> _Place:
        """Raises ValueError for what `cursor` has not made."""
        at, thing, number = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split(" ")
        place = cls(
            datetime.fromisoformat(at), thing, int(number) if re.fullmatch("[0-9]{1,18}", number) else -1
        )
        if thing not in _THINGS or place.number < 0 or place.at.tzinfo is None:
            raise ValueError(cursor)
        return place


def history_of(pk: UUID, *, before: _Place | None, limit: int) -> list[tuple[_Place, Json]]:
    """The events of a tool and of its overrides, the newest first: at most `limit`, before a place."""
    found: list[tuple[_Place, Json]] = []
    for thing, (model, reference) in _THINGS.items():
        events = history.events(model).filter(**{reference: pk})
        if before is not None:
            events = events.filter(before.before(thing))
        for row, older in history.with_before(model, events.order_by("-pgh_created_at", "-pgh_id"), limit):
            found.append((_Place(row["pgh_created_at"], thing, row["pgh_id"]), _shown(thing, row, older)))
    return sorted(found, key=lambda one: one[0], reverse=True)[:limit]


def _shown(thing: str, row: Json, before: Json | None) -> Json:
    context = row["pgh_context"] or {}
    fields = (name for name in row if not name.startswith("pgh_") and name not in _SILENT)
    changed = [name for name in fields if row[name] != before[name]] if before else []
    return {
        "id": f"{thing}-{row['pgh_id']}",
        "at": row["pgh_created_at"],
        "who": context.get("actor"),
        "thing": thing,
        "event": _VERBS[row["pgh_label"]],
        "field": row.get("field"),
        "version": row.get("version"),
        "changes": [
            {"field": name, "before": (before or {}).get(name), "after": row[name]} for name in changed
        ],
    }


class ToolHistoryView(OneToolView):
    """What happened to a tool and to its overrides."""

    required_scope = Scope.TOOLS_READ

    @docs.operation(
        "list_history",
        "Who changed a tool and its overrides, when, and how; newest first",
        "Pages lead back in time only: `previous` is always null.",
        parameters=[docs.NAMESPACE, *(one for one in docs.page_parameters() if one.name != "count")],
        answers={200: docs.page(answer_schema(EventSerializer))},
    )
    def get(self, request: Request, ref: str) -> Response:
        asked = request.query_params
        refuse_unknown(asked, {"limit", "cursor", "namespace"})
        limit = CursorPages().get_page_size(request)
        try:
            before = _Place.of_cursor(asked["cursor"]) if "cursor" in asked else None
        except ValueError as error:
            raise invalid_cursor() from error
        found = history_of(self.find_tool(ref).pk, before=before, limit=limit + 1)
        cursor = found[limit - 1][0].cursor() if len(found) > limit else None
        following = cursor and replace_query_param(request.build_absolute_uri(), "cursor", cursor)
        return Response(
            {
                "results": EventSerializer([event for _, event in found[:limit]], many=True).data,
                "next": following,
                "previous": None,  # two tables hold the events, and their pages lead back in time only
                "next_cursor": cursor,
            },
            headers={"Link": f'<{following}>; rel="next"'} if following else None,
        )
