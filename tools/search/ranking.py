"""From candidates to ranked hits: pure functions over what the database found. Fusion itself happens in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from tools.search.query import Candidate, FoundTool, Hit


def best(candidates: Sequence[Candidate], *, top_k: int) -> list[Candidate]:
    """The `top_k` candidates with the highest score, best first; ties by id, so that every answer is repeatable."""
    ranked = sorted(candidates, key=lambda candidate: (-score(candidate), str(candidate.tool_id)))
    return ranked[:top_k]


def score(candidate: Candidate) -> float:
    """The fused score times the operator's semantic weight. Below zero (where nothing is near at all) it is divided, so
    that more weight never moves a tool down."""
    if candidate.score < 0:
        return candidate.score / candidate.semantic_weight
    return candidate.score * candidate.semantic_weight


def hits(ranked: Sequence[Candidate], tools: Mapping[UUID, FoundTool]) -> list[Hit]:
    """The ranked candidates with what is shown of their tools; one deleted since then is left out."""
    shown = [candidate for candidate in ranked if candidate.tool_id in tools]
    return [
        Hit(
            rank=place,
            score=score(candidate),
            match_type=candidate.match_type,
            components={
                "similarity": candidate.similarity,
                "keyword": candidate.keyword_score,
                "semantic_rank": candidate.semantic_rank,
                "keyword_rank": candidate.keyword_rank,
                "fused": candidate.score,
                "semantic_weight": candidate.semantic_weight,
            },
            tool=tools[candidate.tool_id],
        )
        for place, candidate in enumerate(shown, 1)
    ]
