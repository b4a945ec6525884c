"""A question of several sentences is ranked by the whole of it and by the sentence that suits a tool best (docs/search.md,
*Sentences*). Pure: numpy over what the database found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embeddings.providers.base import TokenStates

MOST = 8
"""Sentences of a question that are looked at, the first ones."""
LEAST_LEXEMES = 2
"""Lexemes of a sentence, at least: "Thanks!" asks for nothing."""
NAMED_MATCHES = 5
"""The best keyword matches, whose names decide the share of the vectors, as for the whole question."""

_ENDS = re.compile(r"(?<=[.?!;。？！])\s+|\n+")  # noqa: RUF001 - the marks of Chinese and Japanese
_WORD = re.compile(r"\w+")
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Share:
    """The bounds of the vectors' weight, and the cosine under which nothing is near (the settings SEARCH_SEMANTIC_SHARE_MIN,
    _MAX and SEARCH_MIN_SIMILARITY)."""

    lowest: float
    highest: float
    min_similarity: float


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with the normalised mean of its own word pieces' states, float32 [dimension]: no further run of the model."""

    text: str
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of the sentences and the candidates.

    `lexemes`: of each sentence. `cosines`: float [candidates, sentences], NaN without a vector. `words`: of each candidate the
    question's lexemes that it has, with BM25F weight times rarity. `names`: the lexemes of each candidate's name.
    """

    lexemes: Sequence[frozenset[str]]
    cosines: NDArray[np.float64]
    words: Sequence[Mapping[str, float]]
    names: Sequence[frozenset[str]]


def split(text: str) -> list[Span]:
    """Where the sentences stand in the question, the blanks between them left out; fewer than two if it is one sentence."""
    spans, start = [], 0
    for end in _ENDS.finditer(text):
        spans.append((start, end.start()))
        start = end.end()
    spans.append((start, len(text)))
    return [span for span in spans if text[slice(*span)].strip()]


def of(text: str, tokens: TokenStates) -> tuple[Sentence, ...]:
    """The question's first sentences that the model has read and that may have enough lexemes; none if it is one sentence."""
    spans = split(text)
    found: list[Sentence] = []
    for start, end in spans if len(spans) > 1 else ():
        own = tokens.states[(tokens.spans[:, 0] >= start) & (tokens.spans[:, 0] < end)].astype(np.float32)
        total = own.sum(axis=0)
        length = np.linalg.norm(total)
        if length > 0 and len(_WORD.findall(text, start, end)) >= LEAST_LEXEMES:
            found.append(Sentence(text[start:end], total / length))
    return tuple(found[:MOST]) if len(found) > 1 else ()


def best_sentence(evidence: Evidence, share: Share) -> NDArray[np.float64] | None:
    """For each candidate the score of the sentence that suits it best, float [candidates], at most 1. None if fewer than two
    sentences say something.

    Each sentence is scored as the whole question is: each arm by its best among the candidates, weighted by the share of the
    names that the sentence spells out.
    """
    told = [place for place, own in enumerate(evidence.lexemes) if len(own) >= LEAST_LEXEMES]
    if len(told) < 2 or np.isnan(evidence.cosines).all():
        return None
    best: NDArray[np.float64] = np.max([_scores(evidence, place, share) for place in told], axis=0)
    return best


def _scores(evidence: Evidence, place: int, share: Share) -> NDArray[np.float64]:
    own = evidence.lexemes[place]
    cosines = evidence.cosines[:, place]
    meaning: NDArray[np.float64] = np.where(np.isnan(cosines), np.nanmean(cosines), cosines) / max(
        float(np.nanmax(cosines)), share.min_similarity
    )
    words = np.array([sum(score for word, score in has.items() if word in own) for has in evidence.words])
    most = words.max()
    if most <= 0:
        return meaning
    weight = _share(own, words, evidence.names, share)
    score: NDArray[np.float64] = weight * meaning + (1 - weight) * words / most
    return score


def _share(
    own: frozenset[str], words: NDArray[np.float64], names: Sequence[frozenset[str]], share: Share
) -> float:
    """The weight of the vectors for one sentence: the rule of tools/search/sql (`trust`), by its own best keyword matches."""
    best = [place for place in np.argsort(-words, kind="stable")[:NAMED_MATCHES] if words[place] > 0]
    spelled = [len(names[place] & own) / len(names[place]) for place in best if names[place]]
    if not spelled:
        return share.highest
    return share.highest - (share.highest - share.lowest) * sum(spelled) / len(spelled)
