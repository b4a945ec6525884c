"""What is done to the fused candidates before the best are taken: each step reads what it needs, and adds a component to the
scores (docs/search.md, *After the fusion*). The sums are pure (sentences.py, name_match.py).

The steps need the question's word pieces, and scores that are shares of the best: by keyword alone, by another provider than the
model in this process, and with SEARCH_FUSION=rrf there are none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.conf import settings
from django.db import connection

from embeddings.providers.base import TokenStates
from embeddings.slots import Slot
from portal.tenancy.context import current_tenant
from tools.search import ranking, sentences
from tools.search.name_match import name_match
from tools.search.query import Candidate
from tools.search.question import QuestionEmbedding, vector_text
from tools.search.sql import load

_SENTENCES = load("search_sentences.sql")
_SIGNS = load("search_signs.sql")
NAMED = 50
"""The best candidates, among which the match of names decides."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """The steps that a question is to take: its sentences, if it has several, and its word pieces for the match of names."""

    text: str
    tokens: TokenStates
    parts: tuple[sentences.Sentence, ...]


def planned(text: str, question: QuestionEmbedding | None) -> Refinement | None:
    """The steps for a question, or None where there are none."""
    if settings.SEARCH_FUSION != "score" or question is None or question.tokens is None:
        return None
    parts = sentences.of(text, question.tokens) if settings.SEARCH_SENTENCES else ()
    if not parts and not settings.SEARCH_NAME_MATCH:
        return None
    return Refinement(text, question.tokens, parts)


def refine(slot: Slot, steps: Refinement, candidates: Sequence[Candidate]) -> None:
    """Lets each step add its component to the candidates."""
    if steps.parts and candidates:
        _by_sentences(slot, steps.parts, candidates)
    if settings.SEARCH_NAME_MATCH:
        _by_names(slot, steps, candidates)


def _by_sentences(slot: Slot, parts: Sequence[sentences.Sentence], candidates: Sequence[Candidate]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            _SENTENCES,
            {
                "tenant_id": current_tenant(),
                "slot": slot.number,
                "ids": [candidate.tool_id for candidate in candidates],
                "sentences": [part.text for part in parts],
                "vectors": [vector_text(part.vector) for part in parts],
            },
        )
        rows = cursor.fetchall()
    said = {place: frozenset(words) for place, _, words, _ in rows if place is not None}
    unknown = [np.nan] * len(parts)
    found = {pk: (frozenset(name), cosines or unknown) for _, pk, name, cosines in rows if pk is not None}
    candidates = [candidate for candidate in candidates if candidate.tool_id in found]
    evidence = sentences.Evidence(
        lexemes=[said[place] for place in range(1, len(parts) + 1)],
        cosines=np.array([found[candidate.tool_id][1] for candidate in candidates]),
        words=[candidate.words for candidate in candidates],
        names=[found[candidate.tool_id][0] for candidate in candidates],
    )
    best = sentences.best_sentence(
        evidence,
        sentences.Share(
            settings.SEARCH_SEMANTIC_SHARE_MIN,
            settings.SEARCH_SEMANTIC_SHARE_MAX,
            settings.SEARCH_MIN_SIMILARITY,
        ),
    )
    if best is None:
        return
    weight = settings.SEARCH_SENTENCES
    for candidate, score in zip(candidates, best.tolist(), strict=True):
        candidate.added["sentences"] = weight * (score - candidate.score)


def _by_names(slot: Slot, steps: Refinement, candidates: Sequence[Candidate]) -> None:
    best = ranking.best(candidates, top_k=NAMED)
    with connection.cursor() as cursor:
        cursor.execute(
            _SIGNS,
            {
                "tenant_id": current_tenant(),
                "slot": slot.number,
                "ids": [candidate.tool_id for candidate in best],
            },
        )
        signs: dict[object, bytes | None] = dict(cursor.fetchall())
    match = name_match(steps.text, steps.tokens, [signs.get(candidate.tool_id) for candidate in best])
    if match is not None:
        for candidate, score in zip(best, match.tolist(), strict=True):
            candidate.added["name_match"] = settings.SEARCH_NAME_MATCH * score
