"""What the OpenAPI document says of the operations on MCP servers. Decorators of the views in servers.py."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from tools.api.docs import (
    BOOLEAN,
    ID,
    IF_NONE_MATCH,
    TEXT,
    TEXTS,
    TIME,
    UNCHANGED,
    Json,
    described,
    etag,
    header,
    or_null,
    page,
    page_parameters,
)
from tools.api.source_docs import SLUG, TITLE, URL
from tools.models import Health

_HEADERS: Json = {
    "type": "object",
    "additionalProperties": {"type": "string", "maxLength": 200},
    "description": "Names of HTTP headers, and for each the *name* of the environment variable that holds its value.",
}
_SERVER = described(
    id=ID, slug=TEXT, title=TEXT, url=TEXT, command_id=TEXT, headers=_HEADERS,
    health={"type": "string", "enum": Health.values}, synced_at=or_null(TIME), last_error=or_null(TEXT), created_at=TIME,
    updated_at=TIME,
)  # fmt: skip
_FIELDS: Json = {
    "title": TITLE,
    "url": {**URL, "description": "Of a server over streamable HTTP."},
    "command_id": {**SLUG, "description": "Of a command that the installation allows. Either this or `url`."},
    "headers": _HEADERS,
}


def _body(required: list[str], **fields: Json) -> dict[str, Json]:
    return {
        "application/json": {
            "type": "object",
            "properties": {**fields, **_FIELDS},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }
    }


list_servers = extend_schema(
    operation_id="list_servers",
    summary="The MCP servers",
    parameters=page_parameters(),
    responses={200: page(_SERVER)},
)
create_server = extend_schema(
    operation_id="create_server",
    summary="A new MCP server",
    description="Which commands may run, and which variables may be sent, is decided where the portal is deployed.",
    request=_body(["slug"], slug=SLUG),
    parameters=[header("Location", "The new server's address.", 201), etag(201)],
    responses={201: _SERVER},
    examples=[
        OpenApiExample(
            "A server over HTTP",
            {"slug": "github", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "MCP_SECRET_GITHUB"}},
            request_only=True,
        )
    ],
)  # fmt: skip
get_server = extend_schema(
    operation_id="get_server",
    summary="One MCP server",
    description="The ETag is of what people set; `health`, `synced_at` and `last_error` change without it.",
    parameters=[IF_NONE_MATCH, etag(200, 304)],
    responses={200: _SERVER, 304: UNCHANGED},
)
update_server = extend_schema(
    operation_id="update_server",
    summary="Changes the settings that are sent",
    request=_body([]),
    parameters=[etag(200)],
    responses={200: _SERVER},
)
delete_server = extend_schema(
    operation_id="delete_server",
    summary="Deletes an MCP server that no source reads",
    request=None,
    responses={204: None},
)
test_server = extend_schema(
    operation_id="test_server",
    summary="Asks the server for its tools, and imports none",
    request=None,
    responses={
        200: described(
            reachable=BOOLEAN, seconds={"type": "number", "minimum": 0}, error=TEXT, protocol_version=TEXT, server_name=TEXT,
            server_version=TEXT, tools=TEXTS, warnings=TEXTS,
        )
    },
)  # fmt: skip
