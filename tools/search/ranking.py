"""From candidates to ranked hits: pure functions over what the database found. The fusion happens in SQL, the steps after it in
refinement.py; here relevance, quality and recency become a score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from metrics import scores
from tools.search.query import Candidate, FoundTool, Hit

ADDED = ("sentences", "name_match")
"""The components that steps after the fusion add; None in an answer means that the step did not count."""
EQUAL_NAME = "equal_name"
"""The component that puts a tool first that is called as the question is. It is added last, after the operator's weight."""


NOTHING_NEAR = 1e-6
"""A best score that no other one can be divided by; the least that one rank alone gives by `rrf` is larger."""


class Weights(NamedTuple):
    """What relevance, quality and recency count in a score (SRC-3)."""

    similarity: float
    quality: float
    recency: float


class Ranked(NamedTuple):
    """A candidate with its score; `relevance` is its refined score where the best one has 1, `lift` what an equal name adds."""

    candidate: Candidate
    relevance: float
    score: float
    lift: float = 0.0


def refined(candidate: Candidate) -> float:
    """The fused score and what the steps after the fusion have added to it."""
    return candidate.score + sum(candidate.added.values())


def weighted(total: float, weight: float) -> float:
    """A sum times the operator's weight. Below zero (where nothing is near at all) it is divided, so that more weight never moves a
    tool down."""
    return total / weight if total < 0 else total * weight


def best(candidates: Sequence[Candidate], *, top_k: int) -> list[Candidate]:
    """The `top_k` candidates with the highest refined score times the operator's weight, best first; ties by id."""
    ranked = sorted(candidates, key=lambda one: (-weighted(refined(one), one.semantic_weight), one.tool_id))
    return ranked[:top_k]


def rerank(candidates: Sequence[Candidate], weights: Weights) -> list[Ranked]:
    """The candidates by relevance, quality and recency (SRC-3), best first; ties by the refined score and then by id, so that every
    answer is repeatable. Without any statistics the order is that of the refined scores, but for the operators' weights."""
    of_words = [refined(candidate) for candidate in candidates]
    unmeasured = _of_statistics(0, None, None, weights)
    ranked = []
    for candidate, share in zip(candidates, _relevance(of_words), strict=True):
        quality, recency = (
            _of_statistics(candidate.calls, candidate.quality, candidate.days_since_success, weights)
            if candidate.calls
            else unmeasured
        )
        total = weights.similarity * share + quality + recency
        ranked.append(Ranked(candidate, share, weighted(total, candidate.semantic_weight)))
    ranked.sort(key=lambda one: (-one.score, -refined(one.candidate), one.candidate.tool_id))
    return ranked


def named_first(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The ranked candidates, of which those that are called as the question is are lifted above all others. It is a rule, because
    no weight of words makes sure of it."""
    named = [one for one in ranked if one.candidate.is_named]
    if not named:
        return list(ranked)
    lift = 1 + ranked[0].score - named[-1].score  # with room for rounding
    lifted = [one._replace(score=one.score + lift, lift=lift) for one in named]
    return [*lifted, *(one for one in ranked if not one.candidate.is_named)]


def _relevance(refined_scores: Sequence[float]) -> list[float]:
    """The scores as shares of the best. Where the best is about 0 or less, nothing is near, and their differences count."""
    most = max(refined_scores, default=0.0)
    if most > NOTHING_NEAR:
        return [one / most for one in refined_scores]
    return [1 - (most - one) for one in refined_scores]


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
            **{name: candidate.added.get(name) for name in ADDED},
            "relevance": ranked.relevance,
            "quality": scores.quality(candidate.calls, candidate.quality),
            "recency": scores.recency(candidate.calls, candidate.days_since_success),
            "semantic_weight": candidate.semantic_weight,
            EQUAL_NAME: ranked.lift if candidate.is_named else None,
        },
        contributions={
            "relevance": relevance,
            "quality": quality,
            "recency": recency,
            "semantic_weight": ranked.score - ranked.lift - (relevance + quality + recency),
            EQUAL_NAME: ranked.lift,
        },
        tool={
            **tool,
            "average_latency_ms": candidate.average_latency_ms,
            "success_rate": candidate.success_rate,
        },
    )
