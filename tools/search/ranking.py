"""From candidates to ranked hits: pure functions over what the database found. Fusion itself happens in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from metrics import scores
from tools.search.query import Candidate, FoundTool, Hit


class Weights(NamedTuple):
    """What relevance, quality and recency count in a score (SRC-3)."""

    similarity: float
    quality: float
    recency: float


class Ranked(NamedTuple):
    """A candidate with its score; `relevance` is its fused score where the best one has 1."""

    candidate: Candidate
    relevance: float
    score: float


def rerank(candidates: Sequence[Candidate], weights: Weights) -> list[Ranked]:
    """The candidates by relevance, quality and recency (SRC-3), best first; ties by the fused score and then by id, so that every
    answer is repeatable. Without any statistics the order is that of the fused scores, but for the operators' weights."""
    unmeasured = _of_statistics(0, None, None, weights)
    ranked = []
    for candidate, share in zip(candidates, _relevance(candidates), strict=True):
        quality, recency = (
            _of_statistics(candidate.calls, candidate.quality, candidate.days_since_success, weights)
            if candidate.calls
            else unmeasured
        )
        total = weights.similarity * share + quality + recency
        # Below zero the operator's weight divides, so that more weight never moves a tool down.
        weight = candidate.semantic_weight
        ranked.append(Ranked(candidate, share, total / weight if total < 0 else total * weight))
    ranked.sort(key=lambda one: (-one.score, -one.candidate.score, one.candidate.tool_id))
    return ranked


def _relevance(candidates: Sequence[Candidate]) -> list[float]:
    """The fused scores as shares of the best. Where the best is not above 0, nothing is near, and their differences count."""
    best = max((candidate.score for candidate in candidates), default=0.0)
    if best > 0:
        return [candidate.score / best for candidate in candidates]
    return [1 + candidate.score - best for candidate in candidates]


def _of_statistics(
    calls: int, quality: float | None, days_since_success: float | None, weights: Weights
) -> tuple[float, float]:
    """What quality and recency add to a score."""
    return (
        weights.quality * scores.quality(calls, quality),
        weights.recency * scores.recency(calls, days_since_success),
    )


def hits(ranked: Iterable[Ranked], tools: Mapping[UUID, FoundTool], weights: Weights) -> list[Hit]:
    """What is shown of the ranked candidates and of their tools; a tool deleted since then is left out."""
    shown = [one for one in ranked if one.candidate.tool_id in tools]
    return [_hit(place, one, tools[one.candidate.tool_id], weights) for place, one in enumerate(shown, 1)]


def _hit(place: int, ranked: Ranked, tool: FoundTool, weights: Weights) -> Hit:
    candidate = ranked.candidate
    relevance = weights.similarity * ranked.relevance
    quality, recency = _of_statistics(
        candidate.calls, candidate.quality, candidate.days_since_success, weights
    )
    return Hit(
        rank=place,
        score=ranked.score,
        match_type=candidate.match_type,
        components={
            "similarity": candidate.similarity,
            "keyword": candidate.keyword_score,
            "semantic_rank": candidate.semantic_rank,
            "keyword_rank": candidate.keyword_rank,
            "fused": candidate.score,
            "relevance": ranked.relevance,
            "quality": scores.quality(candidate.calls, candidate.quality),
            "recency": scores.recency(candidate.calls, candidate.days_since_success),
            "semantic_weight": candidate.semantic_weight,
        },
        contributions={
            "relevance": relevance,
            "quality": quality,
            "recency": recency,
            "semantic_weight": ranked.score - (relevance + quality + recency),
        },
        tool={
            **tool,
            "average_latency_ms": candidate.average_latency_ms,
            "success_rate": candidate.success_rate,
        },
    )
