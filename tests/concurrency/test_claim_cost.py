"""R7, R8: what a claim reads is bounded by what it takes, whatever stands in the queue or lies dead in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from embeddings import slots
from embeddings.queue import claims, worker
from embeddings.queue.claims import QueueWatermarks
from tests.support.database import held_snapshot, login
from tests.support.embeddings.pipeline import Pipeline

INDEX = "embedding_task_due"


def fill(pipeline: Pipeline, count: int) -> None:
    pipeline.owner.execute(
        "INSERT INTO embeddings_embeddingtask (id, tenant_id, entity_type, entity_id, model, source_hash, status, priority, "
        "attempts, last_error, next_attempt_at) SELECT gen_random_uuid(), %s, 'tool', gen_random_uuid(), 'model-1', 'x', "
        "'pending', 10, 0, '', now() - interval '1 h' + n * interval '10 ms' FROM generate_series(1, %s) AS n",
        [pipeline.tenant_id, count],
    )
    pipeline.owner.execute("VACUUM (ANALYZE) embeddings_embeddingtask")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def read(node: dict[str, Any]) -> int:
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def claim_explained(limit: int = 32, watermarks: QueueWatermarks | None = None) -> tuple[int, dict[str, Any]]:
    """What a claim reads to find its tasks, and its plan. Their update writes three indexes, which is another matter."""
    explained: list[Any] = []

    def explain(execute: Any, sql: str, params: Any, *rest: Any) -> Any:
        if not sql.lstrip().startswith("WITH lanes"):
            return execute(sql, params, *rest)
        with connection.connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params)
            explained.append(cursor.fetchone()[0][0]["Plan"])
        return execute("SELECT NULL WHERE false", None, *rest)

    with connection.execute_wrapper(explain):
        claims.claim(limit, of=slots.all(), watermarks=watermarks)
    [plan] = explained
    found = sum(
        read(node)
        for node in nodes(plan)
        if node.get("Subplan Name", "").removeprefix("CTE ") in {"served", "first"}
    )
    return found, plan


@pytest.mark.parametrize(
    "watermarks", [None, pytest.param(QueueWatermarks(), marks=pytest.mark.slow)], ids=["whole", "front"]
)
def test_a_claim_of_100_000_tasks_uses_the_partial_index_and_reads_at_most_200_buffers_R8(
    pipeline: Pipeline, watermarks: QueueWatermarks | None
) -> None:
    fill(pipeline, 100_000)
    with login("DATABASE_WORKER_URL"):
        found, plan = claim_explained(watermarks=watermarks)
    scans = [
        node
        for node in nodes(plan)
        if node.get("Relation Name") == "embeddings_embeddingtask" and "Scan" in node["Node Type"]
    ]
    assert INDEX in {node.get("Index Name") for node in scans}
    assert not [node for node in scans if node["Node Type"] == "Seq Scan"]
    assert found <= 200, found


def test_under_a_held_snapshot_a_claim_does_not_step_over_what_is_done_R7(pipeline: Pipeline) -> None:
    fill(pipeline, 4000)
    watermarks = QueueWatermarks()
    with held_snapshot(), login("DATABASE_WORKER_URL"):
        for _ in range(100):
            claims.drop(claims.claim(32, of=slots.all(), watermarks=watermarks))
        found, _ = claim_explained(watermarks=watermarks)
        # The same claim from the start of the index: without the watermarks the first assertion would fail.
        whole, _ = claim_explained()
    assert found <= 200 < whole


def test_what_a_front_has_passed_is_found_by_the_next_whole_look_R7(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(pipeline, 3)
    watermarks = QueueWatermarks()
    with login("DATABASE_WORKER_URL"):
        claims.drop(claims.claim(1, of=slots.all(), watermarks=watermarks))
        claims.drop(claims.claim(1, of=slots.all(), watermarks=watermarks))
        # As if its write had taken a minute.
        pipeline.owner.execute("UPDATE embeddings_embeddingtask SET next_attempt_at = now() - interval '2 h'")
        assert claims.claim(8, of=slots.all(), watermarks=watermarks) == []
        watermarks._clear_at = 0.0
        assert len(claims.claim(8, of=slots.all(), watermarks=watermarks)) == 1


def test_a_batch_is_at_most_six_queries_R8(pipeline: Pipeline, settings: Any) -> None:
    settings.EMBEDDING_BATCH_SIZE = 4
    for number in range(12):
        pipeline.add(f"Text {number}.")
    statements: list[str] = []

    def count(execute: Any, sql: str, *arguments: Any) -> Any:
        statements.append(sql)
        return execute(sql, *arguments)

    with login("DATABASE_WORKER_URL"), connection.execute_wrapper(count):
        assert worker.drain(batches=3).stored == 12
    starts = [place for place, sql in enumerate(statements) if sql.lstrip().startswith("WITH lanes")]
    batches = [statements[here:there] for here, there in zip(starts, [*starts[1:], None], strict=True)]
    assert len(batches) == 3
    # Between two batches a worker may look at models and circuits, once a second, and write its sums, every ten.
    looks = [
        sql
        for sql in statements
        if 'FROM "embeddings_embeddingmodel"' in sql
        or "FROM embeddings_embeddingcircuit WHERE purpose = %s" in sql
        or "INTO embeddings_embeddingtally" in sql
    ]
    for batch in batches:
        assert len([sql for sql in batch if sql not in looks]) <= 6
    assert 2 <= len(looks) <= 6
