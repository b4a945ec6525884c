"""R20, OPS-2: what GET /metrics says of the queue, to whom, and that it says nothing of a tenant."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from embeddings.providers import ProviderError
from portal.resilience import circuit_breaker
from tests.support.database import login
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import PERMANENT

TOKEN = "a-token-of-the-test"


@pytest.fixture
def scrape(settings: Any) -> Callable[[], str]:
    settings.METRICS_TOKEN = TOKEN

    def one() -> str:
        answer = Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        return answer.content.decode()

    return one


def value(text: str, metric: str) -> float:
    [found] = re.findall(rf"^{re.escape(metric)} (\S+)$", text, flags=re.MULTILINE)
    return float(found)


def test_the_figures_are_those_of_the_table_R20(
    pipeline: Pipeline, use: Callable[..., Any], scrape: Callable[[], str]
) -> None:
    use("PoisonEmbedder")
    pipeline.add(PERMANENT)
    pipeline.work()
    for number in range(3):
        pipeline.add(f"Waits {number}.")
    pipeline.owner.execute(
        "UPDATE embeddings_embeddingtask SET next_attempt_at = now() - interval '90 s' WHERE status = 'pending'"
    )
    pipeline.owner.execute(
        "UPDATE embeddings_embeddingtask SET status = 'running', claim_id = gen_random_uuid() "
        "WHERE id = (SELECT id FROM embeddings_embeddingtask WHERE status = 'pending' LIMIT 1)"
    )
    with login("DATABASE_WORKER_URL"):
        circuit_breaker.record_failure("model-1", "passage", ProviderError("down"), at_once=True)
    text = scrape()
    assert value(text, 'portal_embedding_tasks{status="pending"}') == 2
    assert value(text, 'portal_embedding_tasks{status="running"}') == 1
    assert value(text, 'portal_embedding_tasks{status="failed"}') == 1
    assert value(text, 'portal_embedding_failed_tasks{cause="refused"}') == 1
    assert value(text, "portal_embedding_expired_leases") == 1
    assert 90 <= value(text, 'portal_embedding_wait_seconds{priority="edit"}') < 900
    assert value(text, 'portal_embedding_circuit_open{model="model-1",purpose="passage"}') == 1
    assert value(text, "portal_embedding_dead_rows") >= 0


def test_an_old_snapshot_is_seen_R7_R20(pipeline: Pipeline, scrape: Callable[[], str]) -> None:
    from tests.support.database import held_snapshot

    with held_snapshot():
        pipeline.owner.execute("SELECT pg_sleep(1)")
        assert value(scrape(), "portal_oldest_snapshot_seconds") >= 1


def test_nothing_of_a_tenant_shows_and_the_owner_of_the_sums_reads_four_columns_SEC_1(
    pipeline: Pipeline, use: Callable[..., Any], make_tenant: Callable[..., Any], scrape: Callable[[], str]
) -> None:
    use("PoisonEmbedder")
    tenants = [pipeline, Pipeline(make_tenant("secret-slug").pk, pipeline.owner)]
    pks = [one.add(f"{PERMANENT} of a secret text", namespace="secret_space") for one in tenants]
    for one in tenants:
        one.work()
    text = scrape()
    assert value(text, 'portal_embedding_tasks{status="failed"}') == 2
    for hidden in ("secret", "poison", *map(str, pks), *(str(one.tenant_id) for one in tenants)):
        assert hidden not in text
    labels = set(re.findall(r'(\w+)="', text))
    assert labels <= {"status", "priority", "cause", "model", "purpose", "le"}
    columns = pipeline.all(
        "SELECT column_name, privilege_type FROM information_schema.role_column_grants "
        "WHERE grantee = 'portal_search' AND table_name = 'embeddings_embeddingtask'"
    )
    assert {(row["column_name"], row["privilege_type"]) for row in columns} == {
        (column, "SELECT") for column in ("status", "priority", "attempts", "next_attempt_at")
    }


def test_without_the_token_there_is_nothing_to_see_SEC_1(pipeline: Pipeline, settings: Any) -> None:
    settings.METRICS_TOKEN = ""
    assert Client().get("/metrics", headers={"Authorization": "Bearer "}).status_code == 404
    settings.METRICS_TOKEN = TOKEN
    for header in ("", "Bearer ", f"Bearer {TOKEN}x", TOKEN, "Bearer ä"):
        answer = Client().get("/metrics", headers={"Authorization": header})
        assert (answer.status_code, answer.content) == (401, b"")


def test_lags_failures_and_expired_leases_are_counted_R20(
    pipeline: Pipeline, use: Callable[..., Any], scrape: Callable[[], str], settings: Any
) -> None:
    def figures() -> dict[str, float]:
        text = scrape()
        names = {
            "lags": "portal_embedding_lag_seconds_count",
            "within 30 s": 'portal_embedding_lag_seconds_bucket{le="30"}',
            "within 5 min": 'portal_embedding_lag_seconds_bucket{le="300"}',
            "seconds": "portal_embedding_lag_seconds_sum",
            "refused": 'portal_embedding_failures_total{cause="refused"}',
            "expired": "portal_embedding_lease_expiries_total",
        }
        return {name: value(text, metric) if f"{metric} " in text else 0.0 for name, metric in names.items()}

    before = figures()
    use("PoisonEmbedder")
    pipeline.add(PERMANENT)
    pipeline.add("Quick.")
    pipeline.work()
    pipeline.add("Slow.")
    pipeline.owner.execute(
        "UPDATE embeddings_embeddingtask SET wanted_at = now() - interval '100 s' WHERE status = 'pending'"
    )
    pipeline.owner.execute(
        "UPDATE embeddings_embeddingtask SET status = 'running', claim_id = gen_random_uuid(), "
        "next_attempt_at = now() - interval '1 s' WHERE status = 'pending'"
    )
    pipeline.work()
    after = figures()
    grown = {name: after[name] - before[name] for name in after}
    assert 100 <= grown.pop("seconds") < 200
    assert grown == {"lags": 2, "within 30 s": 1, "within 5 min": 2, "refused": 1, "expired": 1}
