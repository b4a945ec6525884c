"""What the OpenAPI document says of the operations on sources and their documents. Decorators of the views."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema

from tools.api.docs import (
    BOOLEAN,
    COUNT,
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
    query,
)
from tools.api.job_docs import JOB, LOCATION, RETRY
from tools.api.source_serializers import SLUG_LENGTH, TITLE_LENGTH, URL_LENGTH, ImportSerializer
from tools.models import DOCUMENT_KINDS, Layer, Schedule, SourceKind

LINK: Json = {"type": "string", "format": "uri-reference"}
SLUG: Json = {"type": "string", "maxLength": SLUG_LENGTH}
TITLE: Json = {"type": "string", "maxLength": TITLE_LENGTH}
URL: Json = {"type": "string", "maxLength": URL_LENGTH}
_SCHEDULE: Json = {
    "type": "string",
    "enum": Schedule.values,
    "description": "How often it is read by itself.",
}
_SOURCE = described(
    id=ID, slug=TEXT, title=TEXT, document_title=TEXT, kind={"type": "string", "enum": SourceKind.values}, url=TEXT,
    server={**or_null(TEXT), "description": "The slug of the MCP server whose tools these are."},
    schedule=_SCHEDULE, auto_apply=BOOLEAN, sync_wins=BOOLEAN, active_tools=COUNT, synced_at=or_null(TIME),
    next_sync_at=or_null(TIME), failures={**COUNT, "description": "In a row."}, last_error=or_null(TEXT),
    created_at=TIME, updated_at=TIME,
)  # fmt: skip
_LEFT_OUT = described(operation=TEXT, reason=TEXT)
COUNTS = (
    "operations",
    "tools",
    "not_chosen",
    "added",
    "changed",
    "moved",
    "removed",
    "unchanged",
    "protected",
    "conflicts",
)
REPORT = described(
    source=TEXT, **dict.fromkeys(COUNTS, COUNT), left_out={"type": "array", "items": _LEFT_OUT}, warnings=TEXTS,
    dry_run=BOOLEAN,
)  # fmt: skip
_IMPORT_BY_ADDRESS: Json = {
    "type": "object",
    "properties": {
        "url": {**URL, "description": "Of a document; with `kind` mcp, of a server over streamable HTTP."},
        "server": {**SLUG, "description": "The slug of an MCP server, whose tools are asked for."},
        "kind": {"type": "string", "enum": [kind for kind, _ in DOCUMENT_KINDS]},
        "source": SLUG,
        "dry_run": {**BOOLEAN, "default": False},
        "confirm_removals": {**BOOLEAN, "default": False},
    },
    "oneOf": [{"required": ["url"]}, {"required": ["server"]}],
    "additionalProperties": False,
}
_CHANGES: Json = {
    "type": "object",
    "properties": {
        "title": {**or_null(TITLE), "description": "Empty: as the document says."}, "url": or_null(URL), "server": or_null(SLUG), "schedule": or_null(_SCHEDULE),
        "auto_apply": {**BOOLEAN, "description": "A scheduled sync is applied by itself, unless too much would vanish."},
        "sync_wins": {**BOOLEAN, "description": "Later syncs overwrite what operators edited."},
    },
    "additionalProperties": False,
}  # fmt: skip

list_sources = extend_schema(
    operation_id="list_sources",
    summary="The sources of the catalogue",
    parameters=page_parameters(),
    responses={200: page(_SOURCE)},
)
import_source = extend_schema(
    operation_id="import_source",
    summary="Imports a document, or the tools of an MCP server",
    description="An OpenAPI document, a list of MCP tools or a LightAPI description, as a form with `document`, or by its "
    "address. `operations` = `tools` + `not_chosen` + the length of `left_out`. A document of more than 5,000 operations is planned, and "
    "applied by a job (202). Fetching an address again for a repeated `Idempotency-Key` changes nothing.",
    request={"multipart/form-data": ImportSerializer, "application/json": _IMPORT_BY_ADDRESS},
    parameters=[
        query("dry_run", BOOLEAN, "Says what would change, and stores nothing. The same as in the body."),
        LOCATION,
        RETRY,
        query("confirm_removals", BOOLEAN, "More than a fifth of the source's endpoints may vanish. The same as in the body."),
    ],
    responses={200: REPORT, 202: JOB},
    examples=[
        OpenApiExample(
            "A document by its address",
            {"url": "https://example.com/openapi.yaml", "source": "billing", "dry_run": True},
            request_only=True, media_type="application/json",
        ),
        OpenApiExample(
            "The tools of a server", {"server": "github", "kind": "mcp"}, request_only=True, media_type="application/json"
        ),
    ],
)  # fmt: skip
get_source = extend_schema(
    operation_id="get_source",
    summary="One source",
    description="The ETag is of what people set. What a sync notes (`synced_at`, `last_error`, …) changes without it.",
    parameters=[IF_NONE_MATCH, etag(200, 304)],
    responses={200: _SOURCE, 304: UNCHANGED},
)
update_source = extend_schema(
    operation_id="update_source",
    summary="Changes the settings that are sent",
    description="A merge patch: null empties a field.",
    request={"application/json": _CHANGES},
    parameters=[etag(200)],
    responses={200: _SOURCE},
)
delete_source = extend_schema(
    operation_id="delete_source",
    summary="Deletes a source with its tools, their edits and its documents",
    request=None,
    responses={204: None},
)
test_source = extend_schema(
    operation_id="test_source",
    summary="Tries whether the source can be read",
    description="Reads it as a sync would, and stores nothing. 409 `conflict` for a source without an address.",
    request=None,
    responses={
        200: described(
            title=TEXT, version=TEXT, format_version=TEXT, operations=COUNT, tools=COUNT, left_out=COUNT, warnings=TEXTS,
            bytes=COUNT,
        )
    },
)  # fmt: skip
list_documents = extend_schema(
    operation_id="list_documents",
    summary="The documents that a source was read from, newest first",
    parameters=page_parameters(),
    responses={
        200: page(
            described(
                id=ID, name=TEXT, version={**TEXT, "description": "The API's own."}, layer={"type": "string", "enum": Layer.values},
                sha256=TEXT, size={**COUNT, "description": "Bytes."}, fetched_at=TIME, links=described(content=LINK),
            )
        )
    },
)  # fmt: skip
get_document = extend_schema(
    operation_id="get_document",
    summary="A document, to the byte",
    description="Needs a key that may see tools of every sensitivity.",
    parameters=[
        etag(200),
        header("Content-Disposition", "An attachment, with the document's file name.", 200),
    ],
    responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
)
