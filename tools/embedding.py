"""What a tool means: the text that is embedded, the words that are searched, and where an imported value stands.

The layout of both texts is tools/search/text.py's, which is pure; this module fills it from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from embeddings.registry import EmbeddedEntity
from embeddings.text import normalise
from tools.models import Tool, ToolEmbedding
from tools.search.text import ToolText, embedding_source_text, keyword_text


def tool_text(tool: Tool) -> ToolText:
    """The parts of a tool that carry meaning (EMB-1): never ids, users or times."""
    endpoint = tool.endpoint
    return ToolText(
        name=tool.name,
        description=tool.description,
        endpoint=f"{endpoint.method.upper()} {endpoint.path}".strip() if endpoint else "",
        server=tool.server,
        category=" ".join(part for part in (tool.category, tool.subcategory) if part),
        tags=tuple(tool.tags),
        routing_domain=tool.routing_domain,
        semantic_namespace=tool.semantic_namespace,
        namespace=tool.namespace,
        source_protocol=tool.source_protocol,
        tool_type=tool.tool_type,
        personas=tuple(tool.target_personas),
        parameters=tuple(_parameters(tool.parameters)),
        use_cases=tuple(tool.use_cases),
        imported_description=endpoint.description if endpoint else "",
        semantic_keywords=tuple(_keywords(tool)),
    )


def _keywords(tool: Tool) -> Iterable[str]:
    """The source's own keywords, and the operation's name as written where making it legal took words away."""
    if tool.endpoint is None:
        return
    for word in tool.endpoint.metadata.get("routing", {}).get("semanticKeywords", ()):
        yield str(word)
    written = str(tool.endpoint.metadata.get("operation_id") or "")
    if _letters(written) != _letters(tool.endpoint.name):
        yield written


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _parameters(schema: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Names and descriptions of the inputs; those of a JSON body stand one level down, perhaps behind a reference."""
    definitions = schema.get("$defs") or {}
    for name, described in _properties(schema, definitions):
        yield name, _description(described)
        if name == "body":
            for inner, inner_described in _properties(described, definitions):
                yield inner, _description(inner_described)


def _properties(schema: Any, definitions: Mapping[str, Any], depth: int = 3) -> Iterable[tuple[str, Any]]:
    if not isinstance(schema, dict) or depth == 0:
        return
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from _properties(definitions.get(reference.removeprefix("#/$defs/")), definitions, depth - 1)
    for part in schema.get("allOf") or ():
        yield from _properties(part, definitions, depth - 1)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        # PostgreSQL reorders the keys of an object, so the order must be ours: what is required first, then by name.
        required = schema.get("required")
        first = (
            {str(name): place for place, name in enumerate(required)} if isinstance(required, list) else {}
        )
        for name in sorted(properties, key=lambda name: (first.get(name, len(first)), name)):
            yield name, properties[name]


def _description(described: Any) -> str:
    text = described.get("description") if isinstance(described, dict) else None
    return text if isinstance(text, str) else ""


def source_text(tool: Tool) -> str:
    """The normalised text that the tool's embedding is made from."""
    return normalise(embedding_source_text(tool_text(tool)))


def search_text(tool: Tool) -> str:
    """The words of the tool beside its name and description, for the keyword arm."""
    return keyword_text(tool_text(tool))


def load_texts(ids: Iterable[UUID]) -> dict[UUID, str]:
    tools = Tool.objects.filter(pk__in=list(ids), active=True).select_related("endpoint")
    return {tool.pk: source_text(tool) for tool in tools}


def imported_value(tool: Tool, field: str) -> Any:
    """What the source says today for an overridable field of an endpoint-backed tool."""
    if tool.endpoint is None:
        raise ValueError(f"{tool} has no endpoint, so nothing was imported")
    return getattr(tool.endpoint, field)


ENTITY = EmbeddedEntity(type="tool", model=ToolEmbedding, load_texts=load_texts)
