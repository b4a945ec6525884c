"""What an agent asks and what it is answered: plain data between the entry points (REST, later MCP) and the search service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import UUID

from django.conf import settings


@dataclass(frozen=True, slots=True)
class SearchFilters:
    """What a tool must be to be ranked at all (SRC-2); None does not filter.

    Within one filter any value will do, except `tags`, of which a tool must have all. `language` is a tag, `personas` are those
    that a tool is meant for, `parameter` is the name of one of its parameters; `names` and `exclude` hold names or tool_ids.
    Retired tools are found only where `lifecycle` names them.
    """

    namespace: tuple[str, ...] | None = None
    tool_type: tuple[str, ...] | None = None
    category: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    source_protocol: tuple[str, ...] | None = None
    source: tuple[str, ...] | None = None
    routing_domain: tuple[str, ...] | None = None
    semantic_namespace: tuple[str, ...] | None = None
    sensitivity: tuple[str, ...] | None = None
    language: tuple[str, ...] | None = None
    personas: tuple[str, ...] | None = None
    parameter: tuple[str, ...] | None = None
    lifecycle: tuple[str, ...] | None = None
    embedding_status: tuple[str, ...] | None = None
    core: bool | None = None
    names: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None

    def applied(self) -> dict[str, list[str] | bool]:
        return {
            name: value if isinstance(value, bool) else list(value)
            for name in FILTER_NAMES
            if (value := getattr(self, name)) is not None
        }


FILTER_NAMES = tuple(one.name for one in fields(SearchFilters))
FLAGS = ("core",)
"""The filters that are true or false; every other one holds texts."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """`text` in natural language; `top_k` results at most."""

    text: str
    top_k: int = field(default_factory=lambda: settings.SEARCH_TOP_K)
    filters: SearchFilters = field(default_factory=SearchFilters)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool that one arm or both found. `similarity` is the raw cosine, None where only the keywords matched."""

    tool_id: UUID  # Tool.id
    score: float  # fused, at most 1; below 0 where nothing is near
    match_type: str  # semantic | keyword | both
    similarity: float | None
    keyword_score: float | None
    semantic_rank: int | None
    keyword_rank: int | None
    semantic_weight: float  # the operator's, 0.1 to 3
    is_named: bool = False  # the question is its name or tool_id, and nothing else
    # Of the question's lexemes those that it has, with their part of `keyword_score`; empty unless asked for.
    words: Mapping[str, float] = field(default_factory=dict)
    # What the steps after the fusion have added to `score`, by component (ranking.py); each step fills in its own.
    added: dict[str, float] = field(default_factory=dict)


FoundTool = dict[str, Any]
"""What a result shows of its tool, by the columns of sql/fetch_tools.sql."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked result: the tool as shown, and every component of its score."""

    rank: int
    score: float
    match_type: str
    components: dict[str, float | None]
    tool: FoundTool


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Results with how they came about; `degraded` names what was missing, `timings` are milliseconds by stage."""

    query: SearchQuery
    hits: tuple[Hit, ...]
    mode: str  # hybrid | semantic | keyword
    degraded: tuple[str, ...]
    search_id: str
    took_ms: float
    timings: dict[str, float]
