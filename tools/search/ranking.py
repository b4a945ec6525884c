"""From candidates to ranked hits: pure functions over what the database found. The fusion happens in SQL, the steps after it in
refinement.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from tools.search.query import Candidate, FoundTool, Hit

ADDED = ("sentences", "name_match")
"""The components that steps after the fusion add; None in an answer means that the step did not count."""
EQUAL_NAME = "equal_name"
"""The component that puts a tool first that is called as the question is. It is added last, after the operator's weight."""


def best(candidates: Sequence[Candidate], *, top_k: int) -> list[Candidate]:
    """The `top_k` candidates with the highest score, best first; ties by id, so that every answer is repeatable."""
    ranked = sorted(candidates, key=lambda candidate: (-score(candidate), candidate.tool_id))
    return ranked[:top_k]


def score(candidate: Candidate) -> float:
    """The fused score and what was added to it, times the operator's semantic weight, and what an equal name adds. A sum below
    zero (where nothing is near at all) is divided, so that more weight never moves a tool down."""
    added, weight = candidate.added, candidate.semantic_weight
    total = candidate.score + sum([added.get(name, 0.0) for name in ADDED])
    return (total / weight if total < 0 else total * weight) + added.get(EQUAL_NAME, 0.0)


def name_first(candidates: Sequence[Candidate]) -> None:
    """Lifts the candidates that are called as the question is above all others: a rule, because no weight of words makes sure of
    it."""
    named = [candidate for candidate in candidates if candidate.is_named]
    if named:
        # One more than what is needed, so that no rounding puts another first.
        lift = 1 + max(map(score, candidates)) - min(map(score, named))
        for candidate in named:
            candidate.added[EQUAL_NAME] = lift


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
                EQUAL_NAME: candidate.added.get(EQUAL_NAME),
            },
            tool=tools[candidate.tool_id],
        )
        for place, candidate in enumerate(shown, 1)
    ]
