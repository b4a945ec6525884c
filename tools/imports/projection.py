"""How an endpoint becomes a tool: which fields an import owns. Pure but for the model's choices."""

from __future__ import annotations

from typing import Any

from portal.tenancy.models import Sensitivity
from tools.imports.specs import EndpointSpec
from tools.models import DescriptionSource, Lifecycle, Source, SourceKind, ToolType, Visibility


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


def tool_fields(spec: EndpointSpec, source: Source) -> dict[str, Any]:
    """The columns of Tool that a sync writes. A file of tools may say more of a tool than an API document can."""
    extra = dict(spec.metadata.get("tool", {}))
    given = {name: value for name, value in extra.items() if _allowed(name, value)}
    return {
        "name": spec.name,
        "description": spec.description,
        "description_source": DescriptionSource.ENDPOINT_SYNC,
        "tags": list(spec.tags),
        "parameters": spec.input_schema,
        "output": spec.output_schema,
        "annotations": spec.metadata.get("annotations", {}),
        "lifecycle": Lifecycle.DEPRECATED if spec.deprecated else Lifecycle.ACTIVE,
        "source_protocol": source.kind,
        "tool_type": ToolType.MCP if source.kind == SourceKind.MCP else ToolType.API,
        "server": source.title if source.kind != SourceKind.MANUAL else "",
        **given,
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


def _allowed(name: str, value: Any) -> bool:
    if name in _CHOICES:
        return value in _CHOICES[name]
    return name not in _LENGTHS or len(value) <= _LENGTHS[name]
