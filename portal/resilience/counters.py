"""What workers have done since the installation began, in sums without tenants: how long wishes took, what failed and why,
and whose leases ran out.

A process adds up and writes every few seconds, so that counting costs a batch nothing; one that is killed takes its last
seconds with it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable

from django.db import connection

WRITE_SECONDS = 10.0
LAG_SECONDS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of the histogram's buckets: from a wish to its vector."""

LAG, LAG_SUM, FAILED, EXPIRED = "lag", "lag_sum", "failed", "expired"


class Tally:
    """The sums of this process that are not written yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._seconds = 0.0
        self._written = time.monotonic()

    def stored(self, lags: Iterable[float]) -> None:
        """Vectors, each so many seconds after it was asked for."""
        with self._lock:
            for lag in lags:
                bound = next((f"{bound:g}" for bound in LAG_SECONDS if lag <= bound), "+Inf")
                self._counts[LAG, bound] += 1
                self._seconds += lag

    def failed(self, cause: str) -> None:
        with self._lock:
            self._counts[FAILED, cause] += 1

    def expired(self, count: int) -> None:
        with self._lock:
            self._counts[EXPIRED, ""] += count

    def write(self, *, now: bool = False) -> None:
        """Adds the sums to the table, if it is time to; needs the worker's login."""
        if not now and time.monotonic() - self._written < WRITE_SECONDS:
            return
        with self._lock:
            counts = {key: float(count) for key, count in self._counts.items() if count}
            if self._seconds:
                counts[LAG_SUM, ""] = self._seconds
            self._counts.clear()
            self._seconds, self._written = 0.0, time.monotonic()
        if not counts:
            return
        rows = sorted(counts.items())  # one order for all processes
        with connection.cursor() as cursor:
            cursor.execute(
                """
                INSERT INTO embeddings_embeddingtally AS t (figure, label, value)
                SELECT * FROM unnest(%s::text[], %s::text[], %s::float8[])
                ON CONFLICT (figure, label) DO UPDATE SET value = t.value + excluded.value
                """,
                [
                    [figure for (figure, _), _ in rows],
                    [label for (_, label), _ in rows],
                    [value for _, value in rows],
                ],
            )


tally = Tally()
