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
    Retired tools are found only where `lifecycle` names them. Bounds of statistics let a tool pass of which the figure is not known,
    unless `measured`; rates and quality lie between 0 and 1.
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
    max_average_latency_ms: float | None = None
    min_success_rate: float | None = None
    min_quality: float | None = None
    measured: bool | None = None
    names: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None

    def applied(self) -> dict[str, list[str] | bool | float]:
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name in FILTER_NAMES
            if (value := getattr(self, name)) is not None
        }


FILTER_NAMES = tuple(one.name for one in fields(SearchFilters))
FLAGS = ("core", "measured")
"""The filters that are true or false."""
NUMBERS = ("max_average_latency_ms", "min_success_rate", "min_quality")
"""The filters that are a number; what is neither here nor in FLAGS holds texts."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """`text` in natural language; `top_k` results at most; `correct` lets typing mistakes be corrected."""

    text: str
    top_k: int = field(default_factory=lambda: settings.SEARCH_TOP_K)
    filters: SearchFilters = field(default_factory=SearchFilters)
    correct: bool = True
    rerank: str = field(default_factory=lambda: settings.SEARCH_RERANK)  # none | auto | llm | cross-encoder
    intent: str = "select"  # select | browse; who browses waits for no model


@dataclass(frozen=True, slots=True)
class Reranking:
    """What a model did to the order of the best hits (SRC-4); milliseconds that the search waited for it.

    `outcome` is `changed` or `confirmed`; `not_asked` (by the request), `not_configured`, `not_needed` (nothing is close, or the caller
    browses), `too_late` (its order serves the next time), `busy` or `failed`: then the first order stands.
    """

    kind: str  # none | llm | cross-encoder
    outcome: str
    took_ms: float = 0.0

    @property
    def was_used(self) -> bool:
        return self.outcome in ("changed", "confirmed")


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
    # The statistics of its calls; a tool without any has no figure.
    calls: int = 0
    success_rate: float | None = None
    average_latency_ms: float | None = None
    quality: float | None = None
    days_since_success: float | None = None
    is_named: bool = False  # the question is its name or tool_id, and nothing else
    # Of the question's lexemes those that it has, with their part of `keyword_score`; empty unless asked for.
    words: Mapping[str, float] = field(default_factory=dict)
    # What the steps after the fusion have added to `score`, by component (ranking.py); each step fills in its own.
    added: dict[str, float] = field(default_factory=dict)


FoundTool = dict[str, Any]
"""What a result shows of its tool, by the columns of sql/fetch_tools.sql."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A word as it was typed, and what was searched for instead."""

    typed: str
    corrected: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked result: the tool as shown, and every component of its score."""

    rank: int
    score: float
    match_type: str
    components: dict[str, float | None]
    contributions: dict[str, float]  # their sum is the score
    tool: FoundTool


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Results with how they came about; `corrected_text` is what was searched for if that is not what was asked; `degraded` names
    what was missing, `timings` are milliseconds by stage."""

    query: SearchQuery
    corrected_text: str | None
    corrections: tuple[Correction, ...]
    hits: tuple[Hit, ...]
    mode: str  # hybrid | semantic | keyword
    degraded: tuple[str, ...]
    search_id: str
    took_ms: float
    timings: dict[str, float]
    reranking: Reranking = Reranking("none", "not_asked")
    cached: bool = False  # remembered from an earlier search; nothing has changed since
