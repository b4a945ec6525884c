"""What the OpenAPI document says of each operation beyond what all have in common (schema.py). Decorators of the views."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from embeddings.models import EmbeddingStatus
from portal.tenancy.models import Scope, Sensitivity
from tools.api.pages import CursorPages
from tools.api.serializers import (
    NewToolSerializer,
    SearchSerializer,
    ToolEditSerializer,
    ToolSerializer,
)
from tools.catalogue.filters import ToolFilter
from tools.search.query import FILTER_NAMES

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
BOOLEAN: Json = {"type": "boolean"}
COUNT: Json = {"type": "integer", "minimum": 0}
TEXTS: Json = {"type": "array", "items": TEXT}
ID: Json = {"type": "string", "format": "uuid"}
TIME: Json = {"type": "string", "format": "date-time"}


def described(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def header(name: str, description: str, *statuses: int) -> OpenApiParameter:
    return OpenApiParameter(
        name, str, OpenApiParameter.HEADER, description=description, response=list(statuses)
    )


def query(name: str, schema: Json, description: str = "", **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, schema, OpenApiParameter.QUERY, description=description, **more)


NAMESPACE = query("namespace", TEXT, "Of a tool that is named by its tool_id; `public` without it.")
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", str, OpenApiParameter.HEADER, description="An ETag that you have: 304 if it still holds."
)
UNCHANGED = OpenApiResponse(description="What you have still holds.")


def etag(*statuses: int) -> OpenApiParameter:
    return header("ETag", "The version of this answer.", *statuses)


def page(of: Json) -> Json:
    """What a list answers (pages.py)."""
    found = described(
        results={"type": "array", "items": of},
        next=or_null({"type": "string", "format": "uri"}),
        previous=or_null({"type": "string", "format": "uri"}),
        next_cursor=or_null(TEXT),
    )
    found["properties"]["total"] = {**COUNT, "description": "Only with `count=true`."}
    return found


def page_parameters() -> list[OpenApiParameter]:
    return [
        query("limit", {"type": "integer", "minimum": 1, "maximum": CursorPages.max_page_size, "default": CursorPages.page_size}),
        query("cursor", TEXT, "`next_cursor` of the page before."),
        query("count", BOOLEAN, "Adds `total`."),
        header("Link", 'The neighbouring pages: rel="next", rel="prev".', 200),
    ]  # fmt: skip


# --- Search -----------------------------------------------------------------------------------------------------------
_FOUND_TOOL = described(
    id=ID, tool_id=TEXT, namespace=TEXT, name=TEXT, description=TEXT, server=TEXT,
    source=or_null(TEXT), category=TEXT, tags=TEXTS, tool_type=TEXT, source_protocol=TEXT, routing_domain=TEXT,
    sensitivity={"type": "string", "enum": Sensitivity.values}, average_latency_ms=or_null({"type": "number"}),
    success_rate=or_null({"type": "number"}), embedding_status=or_null(TEXT),
)  # fmt: skip
_ANSWER = described(
    query=TEXT,
    results={
        "type": "array",
        "items": described(
            rank={"type": "integer", "minimum": 1},
            score={"type": "number"},
            match_type={"type": "string", "enum": ["semantic", "keyword", "both"]},
            components={"type": "object", "description": "How the score came about."},
            tool=_FOUND_TOOL,
        ),
    },
    metadata=described(
        result_count=COUNT, mode=TEXT, degraded=TEXTS, reranked=BOOLEAN, used_llm_rerank=BOOLEAN,
        filters_applied={"type": "object"}, took_ms={"type": "number"}, search_id=TEXT,
    ),
)  # fmt: skip
_TIMING = header("Server-Timing", "Milliseconds of each stage.", 200)
search_by_get = extend_schema(
    operation_id="search_by_get",
    summary="Which tools serve this need? (for curl and caches)",
    parameters=[
        query(
            "query",
            {"type": "string", "minLength": 1, "maxLength": settings.SEARCH_QUERY_MAX_LENGTH},
            required=True,
        ),
        query(
            "top_k",
            {
                "type": "integer",
                "minimum": 1,
                "maximum": settings.SEARCH_TOP_K_MAX,
                "default": settings.SEARCH_TOP_K,
            },
        ),
        *(query(name, TEXTS, "Several, or one with commas.") for name in FILTER_NAMES),
        IF_NONE_MATCH,
        _TIMING,
        etag(200, 304),
    ],
    responses={200: _ANSWER, 304: UNCHANGED},
)
search_by_post = extend_schema(
    operation_id="search_by_post",
    summary="Which tools serve this need?",
    request=SearchSerializer,
    parameters=[_TIMING],
    responses={200: _ANSWER},
    examples=[
        OpenApiExample(
            "A need with a filter",
            {"query": "refund a customer's last payment", "top_k": 5, "tags": ["billing"]},
            request_only=True,
        )
    ],
)

# --- Tools ------------------------------------------------------------------------------------------------------------
_TOOL: Json = {"$ref": "#/components/schemas/Tool"}


def _filters() -> list[OpenApiParameter]:
    described = []
    for name, one in ToolFilter.base_filters.items():
        schema: Json = dict(TEXT)
        if choices := one.extra.get("choices"):
            schema["enum"] = [value for value, _ in choices]
        elif name == "has_override":
            schema = BOOLEAN
        described.append(query(name, schema, str(one.label)))
    return described


list_tools = extend_schema(
    operation_id="list_tools",
    summary="The catalogue, page by page",
    parameters=[*_filters(), *page_parameters()],
    responses={200: page(_TOOL)},
)
create_tool = extend_schema(
    operation_id="create_tool",
    summary="A tool written by hand",
    request=NewToolSerializer,
    parameters=[header("Location", "The new tool's address.", 201), etag(201)],
    responses={201: ToolSerializer},
    examples=[
        OpenApiExample(
            "A small tool",
            {"tool_id": "send_mail", "name": "Send mail", "description": "Sends an e-mail to one person."},
            request_only=True,
        )
    ],
)
get_tool = extend_schema(
    operation_id="get_tool",
    summary="One tool, by UUID or tool_id",
    description="The ETag is of the tool's own version. `embedding_status` changes without it; ask for `/embedding` to follow that.",
    parameters=[NAMESPACE, IF_NONE_MATCH, etag(200, 304)],
    responses={200: ToolSerializer, 304: UNCHANGED},
)
update_tool = extend_schema(
    operation_id="update_tool",
    summary="Changes the fields that are sent",
    request=ToolEditSerializer,
    parameters=[NAMESPACE, etag(200)],
    responses={200: ToolSerializer},
)
delete_tool = extend_schema(
    operation_id="delete_tool",
    summary="Deletes a tool written by hand",
    request=None,
    parameters=[NAMESPACE],
    responses={204: None},
)

# --- Embeddings, keys ----------------------------------------------------------------------------------------
_EMBEDDING = described(
    status={"type": "string", "enum": EmbeddingStatus.values}, model=TEXT, dimension=COUNT, source_hash=TEXT, current=BOOLEAN,
    truncated=BOOLEAN, embedded_at=or_null(TIME), error=or_null(TEXT),
)  # fmt: skip
get_embedding = extend_schema(
    operation_id="get_embedding",
    summary="How the embedding of a tool stands",
    parameters=[NAMESPACE],
    responses={200: _EMBEDDING},
)
refresh_embedding = extend_schema(
    operation_id="refresh_embedding",
    summary="Asks for a new vector",
    request=None,
    parameters=[NAMESPACE],
    responses={202: _EMBEDDING},
)
get_me = extend_schema(
    operation_id="get_me",
    summary="Which key is this, and what may it do",
    responses={
        200: described(
            name=TEXT,
            scopes={"type": "array", "items": {"type": "string", "enum": Scope.values}},
            max_sensitivity={"type": "string", "enum": Sensitivity.values},
            limits=described(requests_per_minute=or_null({"type": "integer", "minimum": 1})),
        )
    },
)
