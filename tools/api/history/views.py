"""The REST endpoint of a tool's history: who changed what, when, and from what to what (CAT-8)."""

from __future__ import annotations

import base64
import re
from datetime import datetime
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from portal.json_types import JsonObject
from portal.tenancy.models import Scope
from tools.api.fields import ComputedField, refuse_unknown
from tools.api.pagination import CursorPages, invalid_cursor
from tools.api.schema import operations as docs
from tools.api.schema.json_schema import TEXT, answer_schema, described
from tools.api.tools.lookup import OneToolView
from tools.catalogue.history import Entry, Position, tool_history

# Fields that the API does not show as changes.
_IGNORED = {"endpoint_id", "made_at", "made_by"}


def _cursor_of(position: Position) -> str:
    text = f"{position.at.isoformat()} {position.thing} {position.number}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _position_of(cursor: str) -> Position:
    """Raises ValueError for a cursor that `_cursor_of` has not made."""
    at, thing, number = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split(" ")
    if not re.fullmatch("[0-9]{1,18}", number):
        raise ValueError(cursor)
    return Position(datetime.fromisoformat(at), thing, int(number))


class EventSerializer(serializers.Serializer[Any]):
    """What happened to a tool or to one of its overrides."""

    id = ComputedField(TEXT)
    at = serializers.DateTimeField(source="position.at")
    who = serializers.CharField(source="actor", allow_null=True)
    thing = serializers.ChoiceField(["tool", "override"], source="position.thing")
    event = serializers.ChoiceField(["created", "changed", "deleted"], source="verb")
    field = serializers.CharField(source="row.field", allow_null=True, help_text="Of an override.")
    version = serializers.IntegerField(source="row.version", allow_null=True)
    changes = ComputedField({"type": "array", "items": described(field=TEXT, before={}, after={})})

    def get_id(self, entry: Entry) -> str:
        return f"{entry.position.thing}-{entry.position.number}"

    def get_changes(self, entry: Entry) -> list[JsonObject]:
        changes = entry.changes(_IGNORED)
        return [{"field": name, "before": before, "after": after} for name, before, after in changes]


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
            before = _position_of(asked["cursor"]) if "cursor" in asked else None
        except ValueError as error:
            raise invalid_cursor() from error
        found = tool_history(self.find_tool(ref).pk, limit=limit + 1, before=before)
        cursor = _cursor_of(found[limit - 1].position) if len(found) > limit else None
        following = cursor and replace_query_param(request.build_absolute_uri(), "cursor", cursor)
        return Response(
            {
                "results": EventSerializer(found[:limit], many=True).data,
                "next": following,
                "previous": None,  # two tables hold the events, and their pages lead back in time only
                "next_cursor": cursor,
            },
            headers={"Link": f'<{following}>; rel="next"'} if following else None,
        )
