"""Hands each search to the log of metrics, which knows nothing of tools but their UUIDs."""

from __future__ import annotations

import time

from metrics.search_log import SearchEntry, search_log
from portal.tenancy.rights import Rights
from tools.search.query import SearchAnswer

FILTER_VALUES = 50
"""Values of a filter that are logged, at most: `names` may have a thousand."""


def log_search(rights: Rights, answer: SearchAnswer) -> None:
    """Has the search logged, after it is answered. Costs the search microseconds, and can neither fail nor delay it."""
    applied = answer.query.filters.applied()
    search_log.add(
        SearchEntry(
            search_id=answer.search_id,
            tenant_id=rights.tenant_id,
            asked_by=rights.actor,
            query=answer.query.text,
            filters={
                name: given[:FILTER_VALUES] if isinstance(given, list) else given
                for name, given in applied.items()
            },
            top_k=answer.query.top_k,
            mode=answer.mode,
            degraded=answer.degraded,
            reranked=answer.reranking.was_used,
            results=[hit.tool["id"] for hit in answer.hits],
            top_score=answer.hits[0].score if answer.hits else None,
            best_similarity=max(
                (
                    hit.components["similarity"]
                    for hit in answer.hits
                    if hit.components["similarity"] is not None
                ),
                default=None,
            ),
            took_ms=answer.took_ms,
            timings=answer.timings,
            asked_at=time.monotonic(),
        )
    )
