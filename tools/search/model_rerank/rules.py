"""When the best hits are close enough to be worth a model's opinion, and what an order of theirs changes: pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tools.search.query import Hit

RANKED = 5
"""So many of the best hits are shown to the model; the others keep their places."""
CLOSE, CERTAIN = 0.10, 0.90
"""Cosines (SRC-3, SRC-4): the best three lie within the first, and the best is not above the second."""


def is_unsure(hits: Sequence[Hit]) -> bool:
    """Whether the first stage leaves a choice: the best three (or two) hits have cosines that lie close together, and the highest is not
    so high that there is no doubt. By keyword alone nothing is known of that."""
    similarities = [hit.components["similarity"] for hit in hits[:3]]
    known = [one for one in similarities if one is not None]
    if len(known) < len(similarities) or len(known) < 2:
        return False
    return max(known) - min(known) <= CLOSE and max(known) <= CERTAIN


def reordered(hits: Sequence[Hit], order: Sequence[int]) -> tuple[Hit, ...]:
    """The hits with the best of them in this order (indexes, best first). Indexes that do not exist or stand twice are left out, and
    what the order does not name follows in its old order, so nothing is lost or doubled.

    Scores stay with the places, so that they still fall from hit to hit; what a hit gained or lost by it is its contribution
    `model`.
    """
    count = min(len(hits), RANKED)
    wanted = dict.fromkeys(index for index in (*order, *range(count)) if 0 <= index < count)
    best = [
        replace(
            hits[index],
            rank=hits[place].rank,
            score=hits[place].score,
            contributions={**hits[index].contributions, "model": hits[place].score - hits[index].score},
        )
        for place, index in enumerate(wanted)
    ]
    return (*best, *hits[count:])
