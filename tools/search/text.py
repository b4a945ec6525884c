from __future__ import annotations
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolText:
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


def embedding_source_text(tool: ToolText) -> str:
    return f"{tool.name}. {tool.description}"


def keyword_text(tool: ToolText) -> str:
    return " ".join(tool.tags)
