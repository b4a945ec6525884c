"""The metrics of the queue for Prometheus (R20): sums over all tenants, never a tenant's name, text or id."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.db import connection
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from embeddings.models import Priority
from embeddings.queue.counters import EXPIRED, FAILED, LAG, LAG_SECONDS, LAG_SUM
from portal.resilience import circuit_breaker
from portal.resilience.models import CounterSum

# By the row of embeddings_figures(): the name and help of the metric, and the name of its label.
_METRICS = {
    "tasks": ("portal_embedding_tasks", "Embedding tasks by status.", "status"),
    "waiting": (
        "portal_embedding_wait_seconds",
        "How long the task that is longest due waits, by priority.",
        "priority",
    ),
    "expired": (
        "portal_embedding_expired_leases",
        "Running tasks whose lease has ended and which are not claimed again yet.",
        "",
    ),
    "failed": ("portal_embedding_failed_tasks", "Parked embedding tasks by cause.", "cause"),
    "dead_rows": ("portal_embedding_dead_rows", "Dead rows in the table of tasks.", ""),
    "oldest_snapshot": (
        "portal_oldest_snapshot_seconds",
        "Age of the oldest transaction that holds back the clearing of dead rows.",
        "",
    ),
}


class QueueCollector:
    """A collector of prometheus_client that queries the database at each scrape."""

    def collect(self) -> Iterator[Metric]:
        families = {
            row: GaugeMetricFamily(name, text, labels=[label] if label else None)
            for row, (name, text, label) in _METRICS.items()
        }
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT figure, label, value FROM embeddings_figures(%s)", [settings.EMBEDDING_MAX_ATTEMPTS]
            )
            for row, label, value in cursor.fetchall():
                word = Priority(int(label)).label.lower() if row == "waiting" else label
                families[row].add_metric([word] if _METRICS[row][2] else [], value)
        yield from families.values()
        is_open = GaugeMetricFamily(
            "portal_embedding_circuit_open",
            "1 for each provider whose circuit is open.",
            labels=["model", "purpose"],
        )
        for circuit in circuit_breaker.open_circuits():
            is_open.add_metric([circuit.name, circuit.purpose], 1)
        yield is_open
        yield from _counters()


def _counters() -> Iterator[Metric]:
    """The counters of queue/counters.py: a histogram of lags, failures by cause, expired leases."""
    sums = {(row.name, row.label): row.value for row in CounterSum.objects.all()}
    buckets, below = [], 0.0
    for bound in [*(f"{bound:g}" for bound in LAG_SECONDS), "+Inf"]:
        below += sums.get((LAG, bound), 0.0)
        buckets.append((bound, below))
    lag = HistogramMetricFamily(
        "portal_embedding_lag_seconds", "From the request for a vector to the vector."
    )
    lag.add_metric([], buckets, sums.get((LAG_SUM, ""), 0.0))
    yield lag
    failures = CounterMetricFamily(
        "portal_embedding_failures", "Embedding tasks that were parked, by cause.", labels=["cause"]
    )
    for (name, cause), value in sums.items():
        if name == FAILED:
            failures.add_metric([cause], value)
    yield failures
    yield CounterMetricFamily(
        "portal_embedding_lease_expiries",
        "Tasks that were claimed again because their lease had ended.",
        value=sums.get((EXPIRED, ""), 0.0),
    )
