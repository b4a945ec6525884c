"""How an endpoint becomes a tool: which fields an import owns, and what operators' overrides make of them. Pure but for the
model's choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from portal.json_types import JsonObject
from portal.tenancy.models import Sensitivity
from tools.catalogue.parameter_descriptions import with_descriptions
from tools.models import (
    PARAMETER_PREFIX,
    DescriptionSource,
    Endpoint,
    Lifecycle,
    Source,
    SourceKind,
    Tool,
    ToolType,
)


class EndpointContent(Protocol):
    """What a document says of one endpoint: an EndpointSpec of tools/imports/formats/specs.py, which describes the fields."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def input_schema(self) -> JsonObject: ...
    @property
    def output_schema(self) -> JsonObject | None: ...
    @property
    def metadata(self) -> JsonObject: ...
    @property
    def deprecated(self) -> bool: ...


def tool_fields(
    endpoint: EndpointContent | Endpoint, source: Source, overrides: Mapping[str, object] | None = None
) -> JsonObject:
    """The columns of Tool that a sync writes: what the source says, and over it the values of `overrides` by field (SYN-5).

    A file of tools or a LightAPI description may say more of a tool than an API document can; only what is said is a field.
    """
    fields = {
        "name": endpoint.name,
        "description": endpoint.description,
        "description_source": DescriptionSource.ENDPOINT_SYNC,
        "tags": in_one_line(list(endpoint.tags)),
        "parameters": endpoint.input_schema,
        "output": endpoint.output_schema,
        "annotations": endpoint.metadata.get("annotations", {}),
        "lifecycle": Lifecycle.DEPRECATED if endpoint.deprecated else Lifecycle.ACTIVE,
        "routing_domain": "",
        "sensitivity": Sensitivity.INTERNAL,
        "source_protocol": source.kind,
        "tool_type": ToolType.MCP if source.kind == SourceKind.MCP else ToolType.API,
        "server": source.display_title if source.kind != SourceKind.MANUAL else "",
        **{name: in_one_line(value) for name, value in endpoint.metadata.get("tool", {}).items()},
    }
    if not overrides:
        return fields
    texts = {
        name.removeprefix(PARAMETER_PREFIX): str(value)
        for name, value in overrides.items()
        if name.startswith(PARAMETER_PREFIX)
    }
    if texts:
        fields["parameters"] = with_descriptions(fields["parameters"], texts)
    # What the source no longer says stays the operator's all the same.
    fields |= {name: value for name, value in overrides.items() if not name.startswith(PARAMETER_PREFIX)}
    if "description" in overrides:
        fields["description_source"] = DescriptionSource.MANUAL
    return fields


def is_provided(field: str, endpoint: EndpointContent | Endpoint, source: Source) -> bool:
    """Whether the source says something of this field of an override."""
    return field.startswith(PARAMETER_PREFIX) or field in tool_fields(endpoint, source)


def field_default(field: str) -> Any:
    """The value of a field, or of a parameter's description, that the source does not provide."""
    return "" if field.startswith(PARAMETER_PREFIX) else _COLUMNS[field].get_default()


def dropped_fields(before: EndpointContent | Endpoint, after: EndpointContent | Endpoint) -> JsonObject:
    """The fields that a source provided `before` and no longer does, with their defaults."""
    gone = before.metadata.get("tool", {}).keys() - after.metadata.get("tool", {}).keys() - _ALWAYS_PROVIDED
    return {name: field_default(name) for name in gone}


_ALWAYS_PROVIDED = {"routing_domain", "sensitivity", "lifecycle", "tool_type", "server", "source_protocol"}
_COLUMNS = {column.name: column for column in Tool._meta.concrete_fields}


def in_one_line(value: object) -> object:
    """A list of texts with each on one line, as forms show them, one a line; any other value as it is."""
    if not isinstance(value, list):
        return value
    return [" ".join(one.splitlines()) if isinstance(one, str) else one for one in value]


def validation_error(spec: EndpointContent) -> str | None:
    """Why no tool can be made of what a file says of it; a value that was quietly dropped could widen who sees the tool."""
    for name, value in spec.metadata.get("tool", {}).items():
        column = _COLUMNS.get(name)
        if column is None:
            continue
        choices = [str(choice) for choice, _ in column.flatchoices]
        if choices and value not in choices:
            return f"its {name} {value!r} is none of {', '.join(choices)}"
        if column.max_length and len(value) > column.max_length:
            return f"its {name} is longer than {column.max_length} characters"
    return None
