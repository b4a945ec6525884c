"""The texts of a stored tool: the one that is embedded, the one that is searched by words, and the values that its source gives.

The layout of both texts is tools/catalogue/tool_text.py's, which is pure; this module fills it from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from embeddings.registry import EmbeddedEntity
from embeddings.text import normalise
from portal.tenancy.rights import current_rights
from tools import fields
from tools.catalogue.parameter_descriptions import description_of, parameter_descriptions, parameter_places
from tools.catalogue.projection import tool_fields
from tools.catalogue.tool_text import ToolText, embedding_source_text, keyword_text
from tools.models import PARAMETER_PREFIX, Endpoint, Source, Tool, ToolEmbedding
from tools.models.tool import visible_tools


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
        further_topics=tuple(_further_topics(tool)),
    )


# The searchable fields that `tool_text` gives a place of their own.
_PLACED = {
    "name", "description", "server", "category", "subcategory", "tags", "routing_domain", "semantic_namespace", "namespace",
    "source_protocol", "tool_type", "target_personas", "parameters", "use_cases",
}  # fmt: skip


def _further_topics(tool: Tool) -> Iterable[str]:
    for name in fields.SEARCHABLE:
        if name not in _PLACED:
            value = getattr(tool, name)
            yield from value if isinstance(value, list) else [str(value)]


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


def _parameters(schema: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Names and descriptions of the inputs; a field of the body goes by its own name."""
    for place in parameter_places(schema):
        yield str(place.path[-1]), description_of(place.schema)


def source_text(tool: Tool) -> str:
    """The normalised text that the tool's embedding is made from."""
    return normalise(embedding_source_text(tool_text(tool)))


def search_text(tool: Tool) -> str:
    """The words of the tool beside its name and description, for the keyword arm."""
    return keyword_text(tool_text(tool))


def load_texts(ids: Iterable[UUID]) -> dict[UUID, str]:
    tools = Tool.objects.seen().active().filter(pk__in=list(ids)).select_related("endpoint")
    return {tool.pk: source_text(tool) for tool in tools}


def imported_values(endpoint: Endpoint, source: Source) -> dict[str, object]:
    """What the source says today of the overridable fields, as far as it says something, and of each parameter's
    description as "parameters.<name>"."""
    provided = tool_fields(endpoint, source)
    texts = parameter_descriptions(endpoint.input_schema)
    return {
        **{field: provided[field] for field in fields.OVERRIDABLE if field in provided},
        **{f"{PARAMETER_PREFIX}{name}": text for name, text in texts.items()},
    }


ENTITY = EmbeddedEntity(
    type="tool",
    rows=Tool,
    model=ToolEmbedding,
    load_texts=load_texts,
    seen=lambda tools: tools.filter(visible_tools(current_rights())),
)
