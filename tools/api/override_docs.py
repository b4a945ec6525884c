"""What the OpenAPI document says of the operations on overrides and on the history. Decorators of the views."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from tools.api.docs import (
    BOOLEAN,
    ID,
    NAMESPACE,
    TEXT,
    TIME,
    described,
    etag,
    or_null,
    page,
    page_parameters,
    query,
)
from tools.api.serializers import ToolSerializer

_TOOL = described(id=ID, tool_id=TEXT, namespace=TEXT, name=TEXT, source=or_null(TEXT))
_OVERRIDE = described(
    tool=_TOOL, field={**TEXT, "description": "`parameters.NAME` for the description of a parameter."},
    value={"description": "What the operator wrote."}, replaced={"description": "What the source said then."},
    imported={"description": "What the source says now."},
    conflict={**BOOLEAN, "description": "The imported text has changed since, and is not what the operator wrote."}, made_by=TEXT, made_at=TIME,
)  # fmt: skip
_EVENT = described(
    id=TEXT, at=TIME, who=or_null(TEXT), thing={"type": "string", "enum": ["tool", "override"]},
    event={"type": "string", "enum": ["created", "changed", "deleted"]},
    field={**or_null(TEXT), "description": "Of an override."}, version={"anyOf": [{"type": "integer"}, {"type": "null"}]},
    changes={"type": "array", "items": described(field=TEXT, before={}, after={})},
)  # fmt: skip

list_tool_overrides = extend_schema(
    operation_id="list_tool_overrides",
    summary="What operators wrote over the imported fields of a tool",
    parameters=[NAMESPACE, etag(200)],
    responses={200: described(results={"type": "array", "items": _OVERRIDE})},
)
reset_override = extend_schema(
    operation_id="reset_override",
    summary="Brings back what the source says",
    request=None,
    parameters=[NAMESPACE, etag(200)],
    responses={200: ToolSerializer},
)
keep_override = extend_schema(
    operation_id="keep_override",
    summary="The imported text has changed, and the operator's stays",
    request=None,
    parameters=[NAMESPACE],
    responses={200: _OVERRIDE},
)
list_overrides = extend_schema(
    operation_id="list_overrides",
    summary="All overrides of tools that this key may see, newest first",
    parameters=[
        query("source", TEXT, "The slug of a source."),
        query(
            "conflicts",
            BOOLEAN,
            "`true`: only those in conflict; `false`: only the others.",
        ),
        *page_parameters(),
    ],
    responses={200: page(_OVERRIDE)},
)
list_history = extend_schema(
    operation_id="list_history",
    summary="Who changed a tool and its overrides, when, and how; newest first",
    description="Pages lead back in time only: `previous` is always null.",
    parameters=[NAMESPACE, *(one for one in page_parameters() if one.name != "count")],
    responses={200: page(_EVENT)},
)
