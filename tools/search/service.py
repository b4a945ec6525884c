"""Answers "which tools do I need?": query vector, one candidate statement, ranking, the tools in one query.

The number of queries is fixed. The vector is made before the transaction opens; where it cannot be made the same
question is answered by keyword alone, and the answer says so (SRC-5).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection

from embeddings import slots
from embeddings.providers import EmbeddingProvider, ProviderError, Vectors
from embeddings.providers.validation import checked
from embeddings.slots import Slot
from portal.resilience import circuit_breaker
from portal.tenancy.context import current_tenant, tenant_context
from portal.tenancy.rights import Rights
from tools.models import Source
from tools.search import ranking
from tools.search.query import Candidate, SearchAnswer, SearchFilters, SearchQuery

log = logging.getLogger(__name__)

# What a filter is called in the question, and the parameter of tools_search_candidates that it fills.
_SQL_FILTERS = {
    "namespace": "namespaces",
    "tool_type": "tool_types",
    "category": "categories",
    "tags": "all_tags",
    "source_protocol": "source_protocols",
    "source": "source_ids",
    "routing_domain": "routing_domains",
    "sensitivity": "sensitivities",
    "names": "only_names",
    "exclude": "except_names",
}

# Nine digits tell every float32 from the next; Python's own, of the same number as a double, are twice as long to parse.
_VECTOR_TEXT = f"[{','.join(['%.9g'] * settings.EMBEDDING_DIMENSION)}]"

# What a result shows. A correlated status, not a join: before the first ANALYZE a join reads every embedding of the
# tenant. Plain SQL, because composing this query takes the ORM longer than PostgreSQL needs to answer it.
_TOOLS = """
SELECT tool.id, tool.tool_id, tool.namespace, tool.name, tool.description, tool.server, tool.category, tool.tags,
       tool.tool_type, tool.source_protocol, tool.routing_domain, tool.sensitivity, source.slug AS source__slug,
       (SELECT embedding.status FROM tools_toolembedding AS embedding
        WHERE embedding.tenant_id = tool.tenant_id AND embedding.entity_id = tool.id AND embedding.slot = %s) AS embedding_status
FROM tools_tool AS tool LEFT JOIN tools_source AS source ON source.tenant_id = tool.tenant_id AND source.id = tool.source_id
WHERE tool.tenant_id = %s AND tool.id = ANY(%s)
"""


def search(rights: Rights, query: SearchQuery) -> SearchAnswer:
    """Finds the best tools for the question among those that the caller may see. Raises only what the database raises."""
    started = time.perf_counter()
    slot = slots.serving()
    vector, degraded = _query_vector(slot, query.text)
    embedded = time.perf_counter()
    with tenant_context(rights.tenant_id):
        candidates = _candidates(slot, vector, query, rights)
        found = time.perf_counter()
        ranked = ranking.best(candidates, top_k=query.top_k)
        tools = _tools(slot, [candidate.tool_id for candidate in ranked])
    hits = ranking.hits(ranked, tools)
    ended = time.perf_counter()
    return SearchAnswer(
        query=query,
        hits=tuple(hits),
        mode=_mode(vector, candidates),
        degraded=degraded,
        search_id=uuid.uuid4().hex,
        took_ms=round((ended - started) * 1000, 2),
        timings={
            "embed": round((embedded - started) * 1000, 2),
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


def _query_vector(slot: Slot, text: str) -> tuple[str | None, tuple[str, ...]]:
    """The vector in pgvector's text form, or None with the reason."""
    if not settings.SEARCH_SEMANTIC:
        return None, ("semantic_search_off",)
    if settings.EMBEDDING_PROVIDER == "disabled":
        return None, ("embedding_disabled",)
    try:
        return _embedded(slot, text), ()
    except ProviderError as error:
        log.warning("Searching by keyword alone: %s", error)
        return None, ("embedding_unavailable",)


@lru_cache(maxsize=settings.SEARCH_QUERY_CACHE)
def _embedded(slot: Slot, text: str) -> str:
    """Asks the provider unless its circuit is open. One slow failure opens it, as the searcher waits for each (R11)."""
    provider = slot.embedder()
    assert provider is not None  # noqa: S101 - the caller has looked at the setting
    waits = circuit_breaker.seconds_until_trial("query")
    wait = waits.get(slot.model)
    if wait is not None and (wait > 0 or not circuit_breaker.acquire_trial(slot.model, "query")):
        raise ProviderError("the provider of query vectors is in trouble, and not asked for a while")
    started = time.monotonic()
    try:
        vector = _asked(provider, text)
    except ProviderError as error:
        if not error.permanent:
            slow = time.monotonic() - started >= settings.EMBEDDING_QUERY_SLOW
            circuit_breaker.record_failure(slot.model, "query", error, at_once=slow)
        raise
    if slot.model in waits:
        circuit_breaker.record_success(slot.model, "query")
    return _VECTOR_TEXT % tuple(vector.tolist())


def _asked(provider: EmbeddingProvider, text: str) -> Vectors:
    try:
        vectors = provider.embed([text], "query")
    except ProviderError:
        raise
    except Exception as error:
        raise ProviderError(f"unexpected error of the provider: {type(error).__name__}: {error}") from error
    vector: Vectors = checked(vectors, 1, settings.EMBEDDING_DIMENSION)[0]
    return vector


def _candidates(slot: Slot, vector: str | None, query: SearchQuery, rights: Rights) -> list[Candidate]:
    arguments: dict[str, Any] = {
        "query_vector": vector,
        "query_text": query.text,
        "max_results": max(
            settings.SEARCH_CANDIDATES_MIN, settings.SEARCH_CANDIDATES_PER_RESULT * query.top_k
        ),
        "fusion": settings.SEARCH_FUSION,
        "vector_slot": slot.number,
        "exact_limit": settings.SEARCH_EXACT_LIMIT,
        **_filter_arguments(_within(rights, query.filters)),
    }
    named = ", ".join(f"{name} => %({name})s{_CASTS.get(name, '')}" for name in arguments)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id, score, match_type, similarity, keyword_score, semantic_rank, keyword_rank, semantic_weight"  # noqa: S608
            f" FROM tools_search_candidates({named})",
            arguments,
        )
        return [Candidate(*row) for row in cursor.fetchall()]


def _within(rights: Rights, filters: SearchFilters) -> SearchFilters:
    """The filters, narrowed to the sensitivities that the caller may see. Without a bound they cost no filter."""
    if rights.sees_all_sensitivities:
        return filters
    asked = filters.sensitivity
    allowed = tuple(one for one in rights.sensitivities if asked is None or one in asked)
    return replace(filters, sensitivity=allowed)


_CASTS = {"query_vector": "::vector", "source_ids": "::uuid[]"}


def _filter_arguments(filters: SearchFilters) -> dict[str, Any]:
    applied: dict[str, Any] = {_SQL_FILTERS[name]: values for name, values in filters.applied().items()}
    if "source_ids" in applied:
        applied["source_ids"] = list(
            Source.objects.filter(slug__in=applied["source_ids"]).values_list("pk", flat=True)
        )
    return applied


def _tools(slot: Slot, ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(_TOOLS, [slot.number, current_tenant(), ids])
        names = [column.name for column in cursor.description]
        return {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}
