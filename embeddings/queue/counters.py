"""What the workers count: how long requests took, what failed and why, whose leases ran out. embeddings/prometheus.py shows it."""

from __future__ import annotations

from collections.abc import Iterable

from portal.resilience.counters import Counters

LAG_SECONDS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of the histogram's buckets: seconds from a request to its vector."""
LAG, LAG_SUM, FAILED, EXPIRED = "lag", "lag_sum", "failed", "expired"

counters = Counters()


def count_stored(lags: Iterable[float]) -> None:
    """Counts stored vectors by their lag in seconds."""
    for lag in lags:
        bucket = next((f"{bound:g}" for bound in LAG_SECONDS if lag <= bound), "+Inf")
        counters.add(LAG, label=bucket)
        counters.add(LAG_SUM, lag)


def count_failed(cause: str) -> None:
    """Counts a parked task: `refused`, `attempts_used` or `worker_ended`."""
    counters.add(FAILED, label=cause)


def count_expired(tasks: int) -> None:
    """Counts tasks that were claimed again because the lease of their worker had ended."""
    counters.add(EXPIRED, tasks)
