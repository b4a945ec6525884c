"""Does a question say in other words what a tool is called? The signs of a tool's first word pieces (embeddings/token_signs.py)
against the question's own word pieces (docs/search.md). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from embeddings.providers.base import TokenStates
from embeddings.token_signs import unpacked, word_pieces


def name_match(
    question: str, tokens: TokenStates, signs: Sequence[bytes | None]
) -> NDArray[np.float64] | None:
    """How well the question says what each tool is called, 0 for the worst of these tools to 1 for the best, float [tools].

    For each piece of the tool the nearest piece of the question counts, and their mean for the tool. None where they cannot be
    told apart: a tool without signs, for example one that was embedded before there were any, is to lose nothing by it.
    """
    asked = word_pieces(question, tokens)
    if not signs or not all(signs) or not len(asked):
        return None
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    pieces, there = unpacked([one for one in signs if one], asked.shape[1])
    texts, most, dimension = pieces.shape
    # Cosines but for the length of the signs, which is the same of all.
    nearest = (asked @ pieces.reshape(-1, dimension).T).max(axis=0).reshape(texts, most)
    means: NDArray[np.float64] = (nearest * there).sum(axis=1) / there.sum(axis=1)
    spread = means.max() - means.min()
    return (means - means.min()) / spread if spread > 0 else None
