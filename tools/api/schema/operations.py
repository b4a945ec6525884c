"""What the OpenAPI document says of each operation beyond what all have in common (auto_schema.py): `operation` decorates
the method of a view, and the functions here make its parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from django_filters import BooleanFilter, FilterSet
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from portal.json_types import JsonObject
from tools.api.pagination import CursorPages
from tools.api.schema.json_schema import (
    BOOLEAN,
    COUNT,
    TEXT,
    SerializerClass,
    answer_schema,
    described,
    or_null,
)

Handler = TypeVar("Handler", bound=Callable[..., Any])


def operation(
    operation_id: str,
    summary: str,
    description: str | None = None,
    *,
    answers: Mapping[Any, Any],
    body: object = None,
    parameters: Sequence[OpenApiParameter] = (),
    examples: Mapping[str, JsonObject] = MappingProxyType({}),
    problems: Collection[int] = (),
) -> Callable[[Handler], Handler]:
    """Describes a method of a view.

    `answers` maps statuses to serializers or schemas. `body` is what it takes: the serializer of a component, or schemas by
    media type; a body that is declared here is read before the view's transaction begins (base.py). `examples` are bodies
    of JSON by name. `problems` are statuses of refusals beside those that every such operation has.
    """

    def decorate(handler: Handler) -> Handler:
        vars(handler).update(reads_body=body is not None, problems=frozenset(problems))
        shown = [
            OpenApiExample(name, value, request_only=True, media_type="application/json")
            for name, value in examples.items()
        ]
        return extend_schema(
            operation_id=operation_id,
            summary=summary,
            description=description,
            request=body,
            parameters=[*parameters],
            responses=dict(answers),
            examples=shown or None,
        )(handler)

    return decorate


def one(serializer: SerializerClass, status: int = 200) -> dict[int, JsonObject]:
    """The answer of an operation that shows one thing."""
    return {status: answer_schema(serializer)}


def header(name: str, description: str, *statuses: int) -> OpenApiParameter:
    return OpenApiParameter(
        name, str, OpenApiParameter.HEADER, description=description, response=list(statuses)
    )


def query(
    name: str, schema: JsonObject, description: str = "", *, required: bool = False
) -> OpenApiParameter:
    return OpenApiParameter(name, schema, OpenApiParameter.QUERY, description=description, required=required)


NAMESPACE = query("namespace", TEXT, "Of a tool that is named by its tool_id; `public` without it.")
UNCHANGED = {304: OpenApiResponse(description="What you have still holds.")}
LOCATION = header("Location", "The job.", 202)
RETRY = header("Retry-After", "Seconds after which to look again.", 202)
JOB_HEADERS = (LOCATION, RETRY)


def etag(*statuses: int) -> OpenApiParameter:
    return header("ETag", "The version of this answer.", *statuses)


IF_NONE_MATCH = (
    OpenApiParameter(
        "If-None-Match", str, OpenApiParameter.HEADER, description="An ETag that you have: 304 if it still holds."
    ),
    etag(200, 304),
)  # fmt: skip


def page(item: JsonObject) -> JsonObject:
    """What a list of such items answers (pagination.py)."""
    found = described(
        results={"type": "array", "items": item},
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


def filter_parameters(filters: type[FilterSet] | None) -> list[OpenApiParameter]:
    found = []
    for name, one in filters.base_filters.items() if filters else ():
        choices = [value for value, _ in one.extra.get("choices", ())]
        schema = BOOLEAN if isinstance(one, BooleanFilter) else {**TEXT, "enum": choices} if choices else TEXT
        found.append(query(name, schema, str(one.label)))
    return found


def allowed_values(parameter: OpenApiParameter) -> list[str]:
    """The values that a parameter may have; none where it may have any."""
    schema = parameter.type
    if schema == BOOLEAN:
        return ["true", "false"]
    return list(schema.get("enum", ())) if isinstance(schema, dict) else []
