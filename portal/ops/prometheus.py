"""`GET /metrics`: the metrics that Prometheus scrapes, behind a token of their own (docs/prometheus.md)."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from embeddings.prometheus import QueueCollector

_registry = CollectorRegistry(auto_describe=False)
_registry.register(QueueCollector())


def metrics(request: HttpRequest) -> HttpResponse:
    """Answers with the metrics in Prometheus' text format: 404 without METRICS_TOKEN, 401 for a wrong bearer token."""
    if not settings.METRICS_TOKEN:
        raise Http404
    given = request.headers.get("Authorization", "")
    if not constant_time_compare(given, f"Bearer {settings.METRICS_TOKEN}"):
        return HttpResponse("", status=401, headers={"WWW-Authenticate": "Bearer"})
    return HttpResponse(
        generate_latest(_registry), content_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"}
    )
