"""The queue's figures in Prometheus' terms (R20): sums over all tenants, never a tenant's name, text or id."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.db import connection
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from embeddings.models import Priority
from embeddings.queue.counters import EXPIRED, FAILED, LAG, LAG_SECONDS, LAG_SUM
from portal.resilience import circuit_breaker
from portal.resilience.models import CounterSum

# What embeddings_figures() calls it: the name and help of the metric, and of its label.
_METRICS = {
    "tasks": ("portal_embedding_tasks", "Embedding tasks by status.", "status"),
    "waiting": (
        "portal_embedding_wait_seconds",
        "How long the task that is longest due waits, by priority.",
        "priority",
    ),
    "expired": (
        "portal_embedding_expired_leases",
        "Running tasks whose worker is gone, not claimed again yet.",
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
    """A collector of prometheus_client, which asks the database at each scrape."""

    def collect(self) -> Iterator[Metric]:
        families = {
            figure: GaugeMetricFamily(name, text, labels=[label] if label else None)
            for figure, (name, text, label) in _METRICS.items()
        }
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT figure, label, value FROM embeddings_figures(%s)", [settings.EMBEDDING_MAX_ATTEMPTS]
            )
            for figure, label, value in cursor.fetchall():
                said = Priority(int(label)).label.lower() if figure == "waiting" else label
                families[figure].add_metric([said] if _METRICS[figure][2] else [], value)
        yield from families.values()
        is_open = GaugeMetricFamily(
            "portal_embedding_circuit_open",
            "1 for each provider that is in trouble and not asked.",
            labels=["model", "purpose"],
        )
        for circuit in circuit_breaker.open_circuits():
            is_open.add_metric([circuit.name, circuit.purpose], 1)
        yield is_open
        yield from _counters()


def _counters() -> Iterator[Metric]:
    """What only grows: a histogram of lags, failures by cause, leases that ran out."""
    sums = {(row.name, row.label): row.value for row in CounterSum.objects.all()}
    buckets, below = [], 0.0
    for bound in [*(f"{bound:g}" for bound in LAG_SECONDS), "+Inf"]:
        below += sums.get((LAG, bound), 0.0)
        buckets.append((bound, below))
    lag = HistogramMetricFamily("portal_embedding_lag_seconds", "From the wish for a vector to the vector.")
    lag.add_metric([], buckets, sums.get((LAG_SUM, ""), 0.0))
    yield lag
    failures = CounterMetricFamily(
        "portal_embedding_failures", "Embedding tasks that were parked, by cause.", labels=["cause"]
    )
    for (figure, cause), value in sums.items():
        if figure == FAILED:
            failures.add_metric([cause], value)
    yield failures
    yield CounterMetricFamily(
        "portal_embedding_lease_expiries",
        "Tasks that were claimed again because their worker had gone.",
        value=sums.get((EXPIRED, ""), 0.0),
    )
