"""Answers "which tools do I need?": query vector, one candidate statement, ranking, the tools in one query.

The number of queries is fixed. The vector is made before the transaction opens; where it cannot be made the same
question is answered by keyword alone, and the answer says so (SRC-5).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import Error, connection

from embeddings import slots
from embeddings.models import EmbeddingStatus
from embeddings.slots import Slot
from metrics.search_log import new_search_id
from portal.json_types import JsonObject
from portal.tenancy.context import current_tenant, tenant_context
from portal.tenancy.rights import Rights
from tools.catalogue.filters import spellings
from tools.models import Source, ToolEmbedding
from tools.models.tool import found_by
from tools.search import ranking, refinement, result_cache, spelling
from tools.search.log import log_search
from tools.search.model_rerank.service import rerank
from tools.search.query import Candidate, FoundTool, SearchAnswer, SearchFilters, SearchQuery
from tools.search.question import QuestionEmbedding, embed
from tools.search.refinement import Refinement
from tools.search.sql import load

log = logging.getLogger(__name__)

_SEARCH_CANDIDATES = load("search_candidates.sql")
_FETCH_TOOLS = load("fetch_tools.sql")
_WEIGHTS = ranking.Weights(
    settings.SEARCH_WEIGHT_SIMILARITY, settings.SEARCH_WEIGHT_QUALITY, settings.SEARCH_WEIGHT_RECENCY
)


class SearchUnavailable(Exception):
    """The database did not answer a search, or failed at it. The message is for the caller, who has done nothing wrong: what a
    search takes is checked before."""

    def __init__(self) -> None:
        super().__init__("The database could not answer this search. Try again in a moment.")


def search(rights: Rights, query: SearchQuery) -> SearchAnswer:
    """Finds the best tools for the question among those that the caller may see. Raises SearchUnavailable alone (R11)."""
    try:
        answer = _remembered_or_found(rights, query)
    except Error as error:
        log.exception("The database failed at a search.")
        raise SearchUnavailable from error
    log_search(rights, answer)
    return answer


def _remembered_or_found(rights: Rights, query: SearchQuery) -> SearchAnswer:
    started = time.perf_counter()
    slot = slots.serving()
    key = result_cache.key_of(rights, slot, query)
    if (remembered := result_cache.find(rights, key)) is not None:
        took_ms = round((time.perf_counter() - started) * 1000, 2)
        return replace(
            remembered,
            search_id=new_search_id(rights.tenant_id),
            took_ms=took_ms,
            timings={"cache": took_ms},
            cached=True,
        )
    found_in = result_cache.moment(rights, key)
    answer = _find(rights, slot, query)
    result_cache.store(key, answer, found_in)
    return answer


def _find(rights: Rights, slot: Slot, query: SearchQuery) -> SearchAnswer:
    started = time.perf_counter()
    read, corrections = spelling.corrected(rights, query)
    spelt = time.perf_counter()
    question, degraded = embed(rights, slot, read.text)
    steps = refinement.planned(read.text, question)
    embedded = time.perf_counter()
    with tenant_context(rights.tenant_id):
        candidates = _candidates(slot, question, read, rights, steps)
        found = time.perf_counter()
        if question is not None and _vectors_are_missing(slot, candidates):
            question, degraded = None, ("vectors_missing",)
        elif steps is not None:
            refinement.refine(slot, steps, candidates)
        ranked = ranking.named_first(ranking.rerank(candidates, _WEIGHTS))[: query.top_k]
        refined = time.perf_counter()
        tools = _tools(slot, [one.candidate.tool_id for one in ranked])
    fetched = time.perf_counter()
    hits, reranking = rerank(rights, read, ranking.hits(ranked, tools, _WEIGHTS))
    ended = time.perf_counter()
    return SearchAnswer(
        query=query,
        corrected_text=read.text if corrections else None,
        corrections=corrections,
        hits=hits,
        mode=_mode(question, candidates),
        degraded=degraded,
        search_id=new_search_id(rights.tenant_id),
        took_ms=round((ended - started) * 1000, 2),
        timings={
            "spelling": round((spelt - started) * 1000, 2),
            "embed": round((embedded - spelt) * 1000, 2),
            "candidates": round((found - embedded) * 1000, 2),
            "rank": round((refined - found) * 1000, 2),
            "fetch": round((fetched - refined) * 1000, 2),
            **({"rerank": reranking.took_ms} if reranking.took_ms else {}),
        },
        reranking=reranking,
    )


def _mode(question: QuestionEmbedding | None, candidates: Sequence[Candidate]) -> str:
    """Which arms had something to say: a question of stop words alone, for example, has no keywords."""
    if question is None:
        return "keyword"
    worded = not candidates or any(candidate.keyword_rank is not None for candidate in candidates)
    return "hybrid" if worded else "semantic"


def _vectors_are_missing(slot: Slot, candidates: Sequence[Candidate]) -> bool:
    """Whether none of the tools that were searched has its vector yet, so that keywords alone have decided. Of a tool with a vector
    the similarity is known, however it was found; only an answer without any tool needs a look at the vectors."""
    if candidates:
        return all(candidate.similarity is None for candidate in candidates)
    rows = ToolEmbedding.objects.filter(slot=slot.number, active=True)
    is_ready = rows.filter(status=EmbeddingStatus.READY)
    return not is_ready.exists() and rows.exclude(status=EmbeddingStatus.BLANK).exists()


def _candidates(
    slot: Slot,
    question: QuestionEmbedding | None,
    query: SearchQuery,
    rights: Rights,
    steps: Refinement | None,
) -> list[Candidate]:
    arguments = {
        "kind": "tool",
        "query_vector": question.vector if question else None,
        "query_text": query.text,
        "max_results": settings.SEARCH_CANDIDATES,
        "filters": json.dumps(_filters(query.filters)),
        "rights": json.dumps(found_by(rights)),
        "fusion": settings.SEARCH_FUSION,
        "vector_slot": slot.number,
        "exact_limit": settings.SEARCH_EXACT_LIMIT,
        "filtered_limit": settings.SEARCH_FILTERED_LIMIT,
        "postings_budget": settings.SEARCH_POSTINGS_BUDGET,
        "rrf_k": settings.SEARCH_RRF_K,
        "min_similarity": settings.SEARCH_MIN_SIMILARITY,
        "semantic_share_min": settings.SEARCH_SEMANTIC_SHARE_MIN,
        "semantic_share_max": settings.SEARCH_SEMANTIC_SHARE_MAX,
        "with_words": bool(steps and steps.parts),
    }
    with connection.cursor() as cursor:
        cursor.execute(_SEARCH_CANDIDATES, arguments)
        return [_candidate(*row) for row in cursor.fetchall()]


def _candidate(*row: Any) -> Candidate:
    *known, words, scores = row
    candidate = Candidate(*known)
    return replace(candidate, words=dict(zip(words, scores, strict=True))) if words else candidate


def _filters(filters: SearchFilters) -> JsonObject:
    """The filters as the database takes them: texts in each of their spellings, sources by their ids."""
    given: JsonObject = {}
    for name, values in filters.applied().items():
        if not isinstance(values, list):
            given[name] = values
        elif name == "tags":  # all of them, each in any spelling
            given[name] = [spellings(value) for value in values]
        else:
            given[name] = [spelt for value in values for spelt in spellings(value)]
    if "source" in given:
        ids = Source.objects.filter(slug__in=given["source"]).values_list("pk", flat=True)
        given["source"] = [str(pk) for pk in ids]
    return given


def _tools(slot: Slot, ids: list[UUID]) -> dict[UUID, FoundTool]:
    with connection.cursor() as cursor:
        cursor.execute(_FETCH_TOOLS, {"slot": slot.number, "tenant_id": current_tenant(), "ids": ids})
        names = [column.name for column in cursor.description]
        return {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}
