"""Entries of the log of searches, as tests write them."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import Any
from uuid import UUID

from metrics.search_log import SearchEntry, new_search_id


def entry(tenant_id: UUID, **fields: Any) -> SearchEntry:
    """A search that found one tool, unless the fields say otherwise."""
    made = SearchEntry(
        search_id=new_search_id(tenant_id), tenant_id=tenant_id, asked_by="API key agent", query="send a mail", filters={}, top_k=20,
        mode="hybrid", degraded=[], reranked=False, results=[uuid.uuid4()], top_score=0.9, best_similarity=0.6, took_ms=10.0,
        timings={"embed": 6.0, "candidates": 3.0}, asked_at=time.monotonic(),
    )  # fmt: skip
    return replace(made, **fields)
