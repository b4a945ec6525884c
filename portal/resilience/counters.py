"""Sums that all processes of the installation share, without tenants, for `GET /metrics`.

A process adds up in memory and writes every few seconds, so that counting costs the work nothing; a killed process loses its
last seconds.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict

from django.db import connection

WRITE_SECONDS = 10.0

# models.CounterSum: the column `figure` holds the name of the counter.
_ADD = """
    INSERT INTO embeddings_embeddingtally AS t (figure, label, value)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::float8[])
    ON CONFLICT (figure, label) DO UPDATE SET value = t.value + excluded.value
"""


class Counters:
    """The sums of this process that are not written yet. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._written = time.monotonic()

    def add(self, name: str, value: float = 1, *, label: str = "") -> None:
        """Adds `value` to the counter `name` with this label."""
        with self._lock:
            self._sums[name, label] += value

    def write(self, *, now: bool = False) -> None:
        """Adds the sums to the table, every WRITE_SECONDS or `now`; needs the worker's login."""
        if not now and time.monotonic() - self._written < WRITE_SECONDS:
            return
        with self._lock:
            # One order for all processes, so that two of them never deadlock.
            rows = sorted((name, label, value) for (name, label), value in self._sums.items() if value)
            self._sums.clear()
            self._written = time.monotonic()
        if rows:
            with connection.cursor() as cursor:
                cursor.execute(_ADD, [list(column) for column in zip(*rows, strict=True)])
