"""From candidates to ranked hits: pure functions over what the database found. Fusion itself happens in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.search.query import Candidate, Hit


def rank(candidates: Sequence[Candidate], tools: Mapping[Any, dict[str, Any]], *, top_k: int) -> list[Hit]:
    """The best `top_k` hits, ranked by fused score times the tool's semantic weight; ties by name, then id.

    `tools` maps candidate ids to their rows; a candidate that is gone from it (deleted in between) is left out.
    """
    weighted = [
        (candidate.score * tools[candidate.tool_id]["semantic_weight"], candidate)
        for candidate in candidates
        if candidate.tool_id in tools
    ]
    weighted.sort(key=lambda pair: (-pair[0], tools[pair[1].tool_id]["name"], str(pair[1].tool_id)))
    return [
        Hit(
            rank=place,
            score=score,
            match_type=candidate.match_type,
            components={
                "similarity": candidate.similarity,
                "keyword": candidate.keyword_score,
                "semantic_rank": candidate.semantic_rank,
                "keyword_rank": candidate.keyword_rank,
                "fused": candidate.score,
                "semantic_weight": tools[candidate.tool_id]["semantic_weight"],
            },
            tool=tools[candidate.tool_id],
        )
        for place, (score, candidate) in enumerate(weighted[:top_k], 1)
    ]
