"""From candidates to ranked hits: pure functions over what the database found. The fusion happens in SQL, the steps after it in
refinement.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from tools.search.query import Candidate, FoundTool, Hit

ADDED = ("sentences", "name_match")
"""The components that steps after the fusion add; None in an answer means that the step did not count."""


def best(candidates: Sequence[Candidate], *, top_k: int) -> list[Candidate]:
    """The `top_k` candidates with the highest score, best first; ties by id, so that every answer is repeatable."""
    ranked = sorted(
        candidates,
        key=lambda candidate: (-score(candidate), str(candidate.tool_id)),
    )
    return ranked[:top_k]


def score(candidate: Candidate) -> float:
    """The fused score and what was added to it, times the operator's semantic weight, and what an equal name is lifted by. A sum
    below zero (where nothing is near at all) is divided, so that more weight never moves a tool down."""
    total = candidate.score + sum(candidate.added.values())
    weight = candidate.semantic_weight
    return (total / weight if total < 0 else total * weight) + candidate.lift


def named_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, of which those that are called as the question is are lifted above all others. It is a rule, because no
    weight of words makes sure of it."""
    named = [score(candidate) for candidate in candidates if candidate.is_named]
    if not named:
        return list(candidates)
    lift = 1 + max(map(score, candidates)) - min(named)  # with room for rounding
    return [replace(one, lift=lift) if one.is_named else one for one in candidates]


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
                **{name: candidate.added.get(name) for name in ADDED},
                "semantic_weight": candidate.semantic_weight,
                "equal_name": candidate.lift if candidate.is_named else None,
            },
            tool=tools[candidate.tool_id],
        )
        for place, candidate in enumerate(shown, 1)
    ]
