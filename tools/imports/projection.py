"""How an endpoint becomes a tool: which fields an import owns. Pure but for the model's choices."""

from __future__ import annotations

from typing import Any

from portal.tenancy.models import Sensitivity
from tools.imports.specs import EndpointSpec
from tools.models import DescriptionSource, Endpoint, Lifecycle, Source, SourceKind, ToolType, Visibility


def endpoint_fields(spec: EndpointSpec) -> dict[str, Any]:
    """The columns of Endpoint that a spec fills; always the same ones."""
    return {
        "method": spec.method,
        "path": spec.path,
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        "tags": list(spec.tags),
        "input_schema": spec.input_schema,
        "output_schema": spec.output_schema,
        "metadata": spec.metadata,
        "deprecated": spec.deprecated,
    }


def tool_fields(endpoint: EndpointSpec | Endpoint, source: Source) -> dict[str, Any]:
    """The columns of Tool that a sync writes. A file of tools may say more of a tool than an API document can."""
    return {
        "name": endpoint.name,
        "description": endpoint.description,
        "description_source": DescriptionSource.ENDPOINT_SYNC,
        "tags": list(endpoint.tags),
        "parameters": endpoint.input_schema,
        "output": endpoint.output_schema,
        "annotations": endpoint.metadata.get("annotations", {}),
        "lifecycle": Lifecycle.DEPRECATED if endpoint.deprecated else Lifecycle.ACTIVE,
        "source_protocol": source.kind,
        "tool_type": ToolType.MCP if source.kind == SourceKind.MCP else ToolType.API,
        "server": source.title if source.kind != SourceKind.MANUAL else "",
        **endpoint.metadata.get("tool", {}),
    }


_CHOICES: dict[str, list[str]] = {
    "sensitivity": Sensitivity.values,
    "lifecycle": Lifecycle.values,
    "visibility": Visibility.values,
    "tool_type": ToolType.values,
}
_LENGTHS = {
    "category": 100, "subcategory": 100, "routing_domain": 100, "semantic_namespace": 100, "owner": 200,
    "server": 300, "source_protocol": 20,
}  # fmt: skip


def unfit(spec: EndpointSpec) -> str | None:
    """Why no tool can be made of what a file says of it; a value that was quietly dropped could widen who sees the tool."""
    for name, value in spec.metadata.get("tool", {}).items():
        if name in _CHOICES and value not in _CHOICES[name]:
            return f"its {name} {value!r} is none of {', '.join(_CHOICES[name])}"
        if name in _LENGTHS and len(value) > _LENGTHS[name]:
            return f"its {name} is longer than {_LENGTHS[name]} characters"
    return None
