"""Writes the log of searches (SRC-9). It adds nothing to an answer's time: a search puts an entry into a queue of its process, and a
thread writes what has gathered once in FLUSH_SECONDS, one statement a tenant.

The queue is bounded. Entries that do not fit, and those that the database does not take, are dropped with a warning; so is what
a killed process had not written. A search that cannot be logged is answered all the same.
"""

from __future__ import annotations

import atexit
import hmac
import json
import logging
import os
import secrets
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac

from metrics.models import LoggedSearch
from metrics.redaction import stored_query
from portal.json_types import JsonObject
from portal.tenancy.context import tenant_context, tenant_ids

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
QUEUE_LENGTH = 2000
"""Entries that wait in a process, at most: some 20 MB of the longest questions with the most results."""
PRUNE_BATCH = 10_000

# The time (4 bytes, seconds), 5 random bytes, and 7 that only this installation can make of these and the tenant.
_TIME, _HEAD, _LENGTH = 4, 9, 16

_WRITE = """
    INSERT INTO metrics_loggedsearch AS kept (
        id, tenant_id, at, asked_by, query, filters, top_k, mode, degraded, reranked, results, top_score, best_similarity, took_ms, timings)
    SELECT id, %(tenant)s, now() - make_interval(secs => age), asked_by, query, filters, top_k, mode, degraded, reranked, results,
        top_score, best_similarity, took_ms, timings
    FROM jsonb_to_recordset(%(entries)s::jsonb) AS entry (
        id uuid, age float8, asked_by text, query text, filters jsonb, top_k int2, mode text, degraded text[], reranked bool, results uuid[],
        top_score float8, best_similarity float8, took_ms float8, timings jsonb)
    ON CONFLICT (id) DO UPDATE SET
        at = excluded.at, asked_by = excluded.asked_by, query = excluded.query, filters = excluded.filters, top_k = excluded.top_k,
        mode = excluded.mode, degraded = excluded.degraded, reranked = excluded.reranked, results = excluded.results,
        top_score = excluded.top_score, best_similarity = excluded.best_similarity, took_ms = excluded.took_ms,
        timings = excluded.timings,
        selected_rank = array_position(excluded.results, kept.selected_tool),
        selected_tool = CASE WHEN kept.selected_tool = ANY (excluded.results) THEN kept.selected_tool END,
        selected_at = CASE WHEN kept.selected_tool = ANY (excluded.results) THEN kept.selected_at END
    WHERE kept.mode = ''
"""


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """A search as it is logged. `results` are tools, best first; `timings` and `took_ms` are milliseconds."""

    search_id: str
    tenant_id: UUID
    asked_by: str
    query: str
    filters: Mapping[str, object]
    top_k: int
    mode: str
    degraded: Sequence[str]
    reranked: bool
    results: Sequence[UUID]
    top_score: float | None
    best_similarity: float | None
    took_ms: float
    timings: Mapping[str, float]
    asked_at: float  # time.monotonic()

    def as_row(self) -> JsonObject:
        return {
            "id": self.search_id,
            "age": time.monotonic() - self.asked_at,
            "asked_by": self.asked_by[:200],
            "query": stored_query(self.query),
            "filters": dict(self.filters),
            "top_k": self.top_k,
            "mode": self.mode,
            "degraded": list(self.degraded),
            "reranked": self.reranked,
            "results": [str(one) for one in self.results],
            "top_score": self.top_score,
            "best_similarity": self.best_similarity,
            "took_ms": self.took_ms,
            "timings": dict(self.timings),
        }


# --- The ids ----------------------------------------------------------------------------------------------------------
def new_search_id(tenant_id: UUID) -> str:
    """An id for a search of the tenant: 32 hexadecimal digits, which begin with the time."""
    head = int(time.time()).to_bytes(_TIME, "big") + secrets.token_bytes(_HEAD - _TIME)
    return (head + _proof(tenant_id, head)).hex()


def issued_within(seconds: float, tenant_id: UUID, search_id: UUID) -> bool:
    """Whether `new_search_id` has made this id for this tenant so many seconds ago at most."""
    head, proof = search_id.bytes[:_HEAD], search_id.bytes[_HEAD:]
    age = time.time() - int.from_bytes(head[:_TIME], "big")
    return age <= seconds and hmac.compare_digest(proof, _proof(tenant_id, head))


def _proof(tenant_id: UUID, head: bytes) -> bytes:
    digest = salted_hmac("metrics.search_id", tenant_id.bytes + head, algorithm="sha256").digest()
    return digest[: _LENGTH - _HEAD]


# --- The queue --------------------------------------------------------------------------------------------------------
class SearchLog:
    """The entries of this process that are not written yet, and the thread that writes them; a fork starts without both."""

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._entries: deque[SearchEntry] = deque(maxlen=QUEUE_LENGTH)
        self._dropped = 0
        self._gathered = threading.Event()
        self._lock = threading.Lock()  # of the start, and of a flush
        self._thread: threading.Thread | None = None

    def add(self, entry: SearchEntry) -> None:
        """Has the entry written soon, unless SEARCH_LOG is off. It neither waits nor raises."""
        if settings.SEARCH_LOG == "off":
            return
        if len(self._entries) == QUEUE_LENGTH:
            self._dropped += 1  # the oldest
        self._entries.append(entry)
        self._gathered.set()
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._flush_for_ever, name="search-log", daemon=True)
                self._thread.start()
                atexit.register(self._flush_and_close)

    def _flush_for_ever(self) -> None:
        while True:
            self._gathered.wait()
            time.sleep(FLUSH_SECONDS)
            self._gathered.clear()
            self._flush_and_close()

    def _flush_and_close(self) -> None:
        self.flush()
        connection.close()  # back to the pool

    def flush(self) -> int:
        """Writes what has gathered; returns how many entries that was. It raises nothing: what cannot be written is dropped."""
        with self._lock:
            if self._dropped:
                log.warning("Not logged, %d of the searches: too many waited to be written.", self._dropped)
                self._dropped = 0
            by_tenant: defaultdict[UUID, list[SearchEntry]] = defaultdict(list)
            while self._entries:
                entry = self._entries.popleft()
                by_tenant[entry.tenant_id].append(entry)
            return sum(_written(entries) for entries in by_tenant.values())


search_log = SearchLog()


def _written(entries: Sequence[SearchEntry]) -> int:
    """Writes a tenant's entries if that can be done; returns how many were written."""
    try:
        write(entries)
    except Exception as error:  # noqa: BLE001 - whatever it is, the next entries are written
        reason = str(error).partition("\n")[0]
        log.warning("Not logged, %d of the searches: %s: %s", len(entries), type(error).__name__, reason)
        return 0
    return len(entries)


def write(entries: Sequence[SearchEntry]) -> None:
    """Writes entries of one tenant to the database, in one statement. An entry that is there already is left as it is."""
    rows = []
    for entry in entries:
        rows.append(_storable(json.dumps(entry.as_row(), ensure_ascii=False)))
        time.sleep(0)  # gives way to a search that waits for the interpreter's lock
    tenant_id = entries[0].tenant_id
    with tenant_context(tenant_id), connection.cursor() as cursor:
        cursor.execute(_WRITE, {"tenant": tenant_id, "entries": f"[{','.join(rows)}]"})


def _storable(text: str) -> str:
    """The JSON without NULs and lone surrogates, which jsonb refuses."""
    return text.replace("\\u0000", "\ufffd").encode(errors="replace").decode()


def prune_searches() -> int:
    """Deletes searches that are older than SEARCH_LOG_DAYS in every tenant; returns how many. Needs the worker's login."""
    pruned = 0
    for tenant_id in tenant_ids():
        while True:
            with tenant_context(tenant_id):
                old = LoggedSearch.objects.filter(at__lt=Now() - timedelta(days=settings.SEARCH_LOG_DAYS))
                deleted = LoggedSearch.objects.filter(
                    pk__in=old.order_by("at").values("pk")[:PRUNE_BATCH]
                ).delete()[0]
            pruned += deleted
            if deleted < PRUNE_BATCH:
                break
    return pruned
