"""Answers "which tools do I need?": query vector, one candidate statement, ranking, the tools in one query.

The number of queries is fixed. The vector is made before the transaction opens; where it cannot be made the same
question is answered by keyword alone, and the answer says so (SRC-5).
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

from django.conf import settings
from django.db import Error, connection

from embeddings import slots
from embeddings.models import EmbeddingStatus
from embeddings.providers import EmbeddingProvider, ProviderError, Vectors
from embeddings.providers.base import checked
from embeddings.slots import Slot
from portal.json_types import JsonObject
from portal.resilience import circuit_breaker
from portal.tenancy.context import current_tenant, tenant_context
from portal.tenancy.rights import Audience, Rights
from tools.catalogue.filters import spellings
from tools.models import Source, ToolEmbedding
from tools.models.tool import found_by
from tools.search import ranking, spelling
from tools.search.query import Candidate, FoundTool, SearchAnswer, SearchFilters, SearchQuery
from tools.search.sql import load

log = logging.getLogger(__name__)

# Nine digits tell every float32 from the next; Python's own, of the same number as a double, are twice as long to parse.
_VECTOR_TEXT = f"[{','.join(['%.9g'] * settings.EMBEDDING_DIMENSION)}]"

_SEARCH_CANDIDATES = load("search_candidates.sql")
_FETCH_TOOLS = load("fetch_tools.sql")


class SearchUnavailable(Exception):
    """The database did not answer a search, or failed at it. The message is for the caller, who has done nothing wrong: what a
    search takes is checked before."""

    def __init__(self) -> None:
        super().__init__("The database could not answer this search. Try again in a moment.")


def search(rights: Rights, query: SearchQuery) -> SearchAnswer:
    """Finds the best tools for the question among those that the caller may see. Raises SearchUnavailable alone (R11)."""
    try:
        return _search(rights, query)
    except Error as error:
        log.exception("The database failed at a search.")
        raise SearchUnavailable from error


def _search(rights: Rights, query: SearchQuery) -> SearchAnswer:
    started = time.perf_counter()
    slot = slots.serving()
    read, corrections = spelling.corrected(rights, query)
    spelt = time.perf_counter()
    vector, degraded = _query_vector(rights, slot, read.text)
    embedded = time.perf_counter()
    with tenant_context(rights.tenant_id):
        candidates = _candidates(slot, vector, read, rights)
        if vector is not None and _vectors_are_missing(slot, candidates):
            vector, degraded = None, ("vectors_missing",)
        found = time.perf_counter()
        ranked = ranking.best(candidates, top_k=query.top_k)
        tools = _tools(slot, [candidate.tool_id for candidate in ranked])
    hits = ranking.hits(ranked, tools)
    ended = time.perf_counter()
    return SearchAnswer(
        query=query,
        corrected_text=read.text if corrections else None,
        corrections=corrections,
        hits=tuple(hits),
        mode=_mode(vector, candidates),
        degraded=degraded,
        search_id=uuid.uuid4().hex,
        took_ms=round((ended - started) * 1000, 2),
        timings={
            "spelling": round((spelt - started) * 1000, 2),
            "embed": round((embedded - spelt) * 1000, 2),
            "candidates": round((found - embedded) * 1000, 2),
            "fetch": round((ended - found) * 1000, 2),
        },
    )


def _mode(vector: str | None, candidates: Sequence[Candidate]) -> str:
    """Which arms had something to say: a question of stop words alone, for example, has no keywords."""
    if vector is None:
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


def _query_vector(rights: Rights, slot: Slot, text: str) -> tuple[str | None, tuple[str, ...]]:
    """The vector in pgvector's text form, or None with the reason."""
    if not settings.SEARCH_SEMANTIC:
        return None, ("semantic_search_off",)
    if settings.EMBEDDING_PROVIDER == "disabled":
        return None, ("embedding_disabled",)
    try:
        return _embed_query(rights.audience, slot, text), ()
    except ProviderError as error:
        log.warning("Searching by keyword alone (incident %s): %s", error.incident, error)
        return None, ("embedding_unavailable",)


@lru_cache(maxsize=settings.SEARCH_QUERY_CACHE)
def _embed_query(audience: Audience, slot: Slot, text: str) -> str:
    """Asks the provider unless its circuit is open. One slow failure opens it, as the searcher waits for each (R11).

    The vector is the same for every `audience`. It is remembered for each apart, because a remembered one comes sooner, and
    that would tell whoever measures the time, or reads `Server-Timing`, what another tenant has asked (S4).
    """
    provider = slot.embedder()
    assert provider is not None  # noqa: S101 - the caller has looked at the setting
    waits = circuit_breaker.seconds_until_trial("query")
    wait = waits.get(slot.model)
    if wait is not None and (wait > 0 or not circuit_breaker.acquire_trial(slot.model, "query")):
        raise ProviderError("the circuit of the provider of query vectors is open")
    started = time.monotonic()
    try:
        vector = _call_provider(provider, text)
    except ProviderError as error:
        if not error.permanent:
            slow = time.monotonic() - started >= settings.EMBEDDING_QUERY_SLOW
            circuit_breaker.record_failure(slot.model, "query", error, at_once=slow)
        raise
    if slot.model in waits:
        circuit_breaker.record_success(slot.model, "query")
    return _VECTOR_TEXT % tuple(vector.tolist())


def _call_provider(provider: EmbeddingProvider, text: str) -> Vectors:
    try:
        vectors = provider.embed([text], "query")
    except ProviderError:
        raise
    except Exception as error:
        raise ProviderError(f"unexpected error of the provider: {type(error).__name__}: {error}") from error
    vector: Vectors = checked(vectors, 1, settings.EMBEDDING_DIMENSION)[0]
    return vector


def _candidates(slot: Slot, vector: str | None, query: SearchQuery, rights: Rights) -> list[Candidate]:
    arguments = {
        "kind": "tool",
        "query_vector": vector,
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
    }
    with connection.cursor() as cursor:
        cursor.execute(_SEARCH_CANDIDATES, arguments)
        return [Candidate(*row) for row in cursor.fetchall()]


def _filters(filters: SearchFilters) -> JsonObject:
    """The filters as the database takes them: texts in each of their spellings, sources by their ids."""
    given: JsonObject = {}
    for name, values in filters.applied().items():
        if isinstance(values, bool):
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
