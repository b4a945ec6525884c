"""The signs of a text's first word pieces: what is kept of them beside the vector, to ask whether a question says what an entity
is called (docs/search.md, *Names said in other words*). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from embeddings.providers.base import TokenStates

PIECES = 12
"""Word pieces of a text that are kept: a source text begins with the name and the description."""


def word_pieces(text: str, tokens: TokenStates) -> NDArray[np.float32]:
    """The states of the pieces of words, float32 [pieces, dimension], in the order of the text; punctuation is left out."""
    worded = [any(map(str.isalnum, text[start:end])) for start, end in tokens.spans.tolist()]
    pieces: NDArray[np.float32] = tokens.states[np.array(worded, bool)].astype(np.float32)
    return pieces


def token_signs(text: str, tokens: TokenStates) -> bytes:
    """One bit a component, set if it is above zero, of the first PIECES word pieces: `dimension` / 8 bytes each, one after the
    other. Empty for a text without words."""
    return np.packbits(word_pieces(text, tokens)[:PIECES] > 0, axis=1).tobytes()


def unpacked(signs: Sequence[bytes], dimension: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The signs of several texts as +1 and -1, float32 [texts, PIECES, dimension], and which of the pieces are there, bool
    [texts, PIECES]. Raises ValueError for signs of another dimension."""
    size = dimension // 8
    padded = b"".join(one.ljust(PIECES * size, b"\0") for one in signs)
    bits = np.unpackbits(np.frombuffer(padded, np.uint8).reshape(len(signs), PIECES, size), axis=2)
    counts = np.array([len(one) // size for one in signs])
    return bits.astype(np.float32) * 2 - 1, np.arange(PIECES) < counts[:, None]
