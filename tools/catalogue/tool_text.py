"""What a tool's texts are made of and in which order: the one that is embedded and the one that is searched by words. Pure;
tools/catalogue/embedding_text.py fills `ToolText` from the rows, tools/search/sql/ splits and weighs the words, docs/search.md has the figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINTS = re.compile(r"[\s_\-./:#@{}]+")
_DEFAULT_NAMESPACE = "public"


@dataclass(frozen=True, slots=True)
class ToolText:
    """The parts of a tool that carry meaning (EMB-1). `endpoint` is method and path; `parameters` are (name, description)."""

    name: str
    description: str
    endpoint: str = ""
    server: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    routing_domain: str = ""
    semantic_namespace: str = ""
    namespace: str = ""
    source_protocol: str = ""
    tool_type: str = ""
    personas: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    use_cases: tuple[str, ...] = ()
    imported_description: str = ""
    semantic_keywords: tuple[str, ...] = ()
    further_topics: tuple[str, ...] = ()  # of searchable fields that have no place above


def split_identifier(identifier: str) -> str:
    """The words of an identifier: `getUserById`, `chat.postMessage` and `list_pull_requests` as a person would write them.

    Only for the model, which has its own idea of words; the keyword arm splits in SQL (tools_words).
    """
    return " ".join(_JOINTS.sub(" ", _CAMEL.sub(" ", identifier)).split())


def embedding_source_text(tool: ToolText) -> str:
    """The text that a tool's vector is made from: the most telling first, since the model reads 256 tokens.

    One line a kind of information, empty kinds left out, nothing said twice. The two labels are worth having: the
    model was taught on sentences.
    """
    topics = _once(
        tool.category,
        *tool.tags,
        tool.routing_domain,
        tool.semantic_namespace,
        *tool.personas,
        *tool.further_topics,
    )
    origin = _once(split_identifier(tool.server), split_identifier(tool.endpoint), known=topics)
    kind = _once(
        tool.name, _namespace(tool), tool.source_protocol, tool.tool_type, known=[split_identifier(tool.name)]
    )
    lines = [
        f"{split_identifier(tool.name)}.",
        *_once(_line(tool.description), _line(tool.imported_description)),
        ", ".join(_once(*tool.semantic_keywords)),
        *_once(*(_line(question) for question in tool.use_cases)),
        _labelled("Tags", topics, ", "),
        ", ".join(origin),
        _labelled("Parameters", [_parameter(*parameter) for parameter in tool.parameters], "; "),
        ", ".join(kind),
    ]
    return "\n".join(line for line in lines if line)


def keyword_text(tool: ToolText) -> str:
    """The words beside name and description that the keyword arm searches, one kind a line.

    No labels: a word that stands in every tool would match every question. Protocol and type are such words too;
    they are filters.
    """
    lines = [
        *_once(tool.imported_description, known=[tool.description]),
        *_once(*tool.semantic_keywords, *tool.use_cases),
        *_once(
            tool.category,
            *tool.tags,
            tool.routing_domain,
            tool.semantic_namespace,
            *tool.personas,
            *tool.further_topics,
            tool.server,
        ),
        tool.endpoint,
        *(f"{name} {_line(description)}" for name, description in tool.parameters),
        _namespace(tool),
    ]
    return "\n".join(line.strip() for line in lines if line.strip())


def _namespace(tool: ToolText) -> str:
    return "" if tool.namespace == _DEFAULT_NAMESPACE else tool.namespace


def _parameter(name: str, description: str) -> str:
    described = _line(description)
    return f"{split_identifier(name)}: {described}" if described else split_identifier(name)


def _labelled(label: str, values: Iterable[str], separator: str) -> str:
    joined = separator.join(values)
    return f"{label}: {joined}" if joined else ""


def _line(text: str) -> str:
    return " ".join(text.split())


def _once(*values: str, known: Iterable[str] = ()) -> list[str]:
    """The values in their order without blank ones and repetitions, whatever their case; none that is `known` already."""
    seen = {value.strip().casefold() for value in known}
    kept = []
    for value in values:
        key = value.strip().casefold()
        if key and key not in seen:
            seen.add(key)
            kept.append(value.strip())
    return kept
