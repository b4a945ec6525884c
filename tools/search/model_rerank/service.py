"""Asks a model for the order of the best hits, within SEARCH_RERANK_BUDGET (SRC-4).

The call runs in a thread of this process. Where it is not back in time the search is answered without it, and the call goes on until
SEARCH_RERANK_TIMEOUT; its order is stored in the cache, and serves the next search with this question and these tools. A call that
is under way is not made twice. No connection to the database is held meanwhile.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from functools import cache
from typing import Protocol

from django.conf import settings
from django.db import connection

from portal.outbound.json_server import JsonServer
from portal.resilience import circuit_breaker
from portal.tenancy.rights import Rights
from tools.search import shared_cache
from tools.search.model_rerank import rules
from tools.search.model_rerank.cross_encoder import CrossEncoder
from tools.search.model_rerank.llm import LanguageModel
from tools.search.query import Hit, Reranking, SearchQuery

log = logging.getLogger(__name__)

CALLS = 4
"""Calls of a process at a time, at most. Beyond them a search is answered without the model."""
LLM, CROSS_ENCODER, AUTO, NONE = "llm", "cross-encoder", "auto", "none"
NOT_ASKED = Reranking(NONE, "not_asked")


class Judge(Protocol):
    name: str

    def order(self, question: str, tools: Sequence[str]) -> list[int]:
        """Indexes of the tools' texts, best first."""
        ...


@cache
def judges() -> dict[str, Judge]:
    """The models that are configured, by kind; the first one serves `auto`."""
    found: dict[str, Judge] = {}
    if settings.SEARCH_RERANK_URL:
        server = JsonServer(settings.SEARCH_RERANK_URL, "SEARCH_RERANK_URL", settings.SEARCH_RERANK_API_KEY)
        found[LLM] = LanguageModel(server, settings.SEARCH_RERANK_MODEL, settings.SEARCH_RERANK_TIMEOUT)
    if settings.SEARCH_CROSS_ENCODER:
        found[CROSS_ENCODER] = CrossEncoder(settings.SEARCH_CROSS_ENCODER)
    return found


def rerank(rights: Rights, query: SearchQuery, hits: Sequence[Hit]) -> tuple[tuple[Hit, ...], Reranking]:
    """The hits as a model orders the best of them, and what became of it. It raises nothing: without an order the hits stay as
    they are."""
    if query.rerank == NONE:
        return tuple(hits), NOT_ASKED
    kind = next(iter(judges()), NONE) if query.rerank == AUTO else query.rerank
    judge = judges().get(kind)
    if judge is None:
        return tuple(hits), Reranking(NONE, "not_configured")
    if len(hits) < 2 or (query.rerank == AUTO and (query.intent == "browse" or not rules.is_unsure(hits))):
        return tuple(hits), Reranking(kind, "not_needed")
    began = time.perf_counter()
    order, outcome = _order(rights, kind, judge, query.text, hits[: rules.RANKED])
    took_ms = round((time.perf_counter() - began) * 1000, 2)
    if order is None:
        return tuple(hits), Reranking(kind, outcome, took_ms)
    changed = rules.reordered(hits, order)
    if [hit.tool["id"] for hit in changed] == [hit.tool["id"] for hit in hits]:
        return tuple(hits), Reranking(kind, "confirmed", took_ms)
    return changed, Reranking(kind, "changed", took_ms)


def _order(
    rights: Rights, kind: str, judge: Judge, question: str, hits: Sequence[Hit]
) -> tuple[list[int] | None, str]:
    """Indexes of the hits, best first, or None and the reason."""
    until = time.monotonic() + settings.SEARCH_RERANK_BUDGET / 1000
    texts = [f"{hit.tool['name']}: {hit.tool['description']}" for hit in hits]
    parts = [kind, judge.name, question, texts]
    key = shared_cache.key_of(rights.audience, "model-rerank", parts)
    known = shared_cache.remembered(key)
    if isinstance(known, list):
        return known, ""
    call = _calls.start(key, judge, question, texts)
    if call is None:
        return None, "busy"
    try:
        return call.result(max(until - time.monotonic(), 0)), ""
    except TooLate:
        return None, "too_late"
    except Exception:  # noqa: BLE001 - logged where it was raised; a search does not fail by it
        return None, "failed"


class _Calls:
    """The calls of this process that are under way, each once; a fork starts without any."""

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._pool = ThreadPoolExecutor(CALLS, "model-rerank")
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[list[int]]] = {}

    def start(self, key: str, judge: Judge, question: str, texts: Sequence[str]) -> Future[list[int]] | None:
        """The call of this key, which may be under way already; None where as many are as may be."""
        with self._lock:
            if (found := self._under_way.get(key)) is not None:
                return found
            if len(self._under_way) >= CALLS:
                return None
            call = self._under_way[key] = self._pool.submit(self._run, key, judge, question, texts)
            return call

    def _run(self, key: str, judge: Judge, question: str, texts: Sequence[str]) -> list[int]:
        try:
            order = circuit_breaker.call(
                judge.name,
                "rerank",
                lambda: judge.order(question, texts),
                slow_seconds=settings.SEARCH_RERANK_TIMEOUT,
            )
        except circuit_breaker.CircuitOpen:
            raise
        except Exception as error:
            log.warning("The model %s gave no order: %s: %s", judge.name, type(error).__name__, error)
            raise
        else:
            shared_cache.remember(key, order, seconds=settings.SEARCH_RERANK_CACHE_SECONDS)
            return order
        finally:
            connection.close()  # back to the pool
            with self._lock:
                del self._under_way[key]


_calls = _Calls()
