"""A backfill beside what else goes on: a second model (EMB-10), writes that hold rows, and a restored database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection

from embeddings import slots
from embeddings.backfill.scan import ScanOptions, scan
from portal.jobs import services
from portal.tenancy.context import tenant_context
from tests.support.database import login
from tests.support.embeddings.pipeline import Pipeline
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import queued_by, ready_tools
from tests.support.threads import in_thread
from tests.support.waiting import wait_until_blocks
from tools.catalogue import embedding_text


@pytest.fixture
def two_models(pipeline: Pipeline, use: Callable[..., Any]) -> Iterator[list[Any]]:
    """Four tools with vectors of model-1, which serves, and none of model-2, which has the other slot."""
    for name in ("model-1", "model-2"):
        use("ModelEmbedder", EMBEDDING_MODEL=name)
        with login("DATABASE_ADMIN_URL"):
            slots.ensure_slot()
        if name == "model-1":
            pks = ready_tools(pipeline, 4)
    yield pks
    pipeline.owner.execute("DELETE FROM embeddings_embeddingmodel")
    slots.clear_cache()


def vectors(pipeline: Pipeline) -> set[tuple[int, str, int]]:
    rows = pipeline.all(
        "SELECT slot, status, count(*)::int AS n FROM tools_toolembedding GROUP BY slot, status ORDER BY slot, status"
    )
    return {(row["slot"], row["status"], row["n"]) for row in rows}


def test_a_tool_with_two_models_is_one_item_that_is_done_when_both_are_EMB_10(
    harness: JobHarness, pipeline: Pipeline, two_models: list[Any]
) -> None:
    harness.make("disabled", *two_models[:2])
    pk = harness.start(batch_size=3)
    harness.run_until_queued()
    assert harness.tagged() == 6  # two of the serving model, four of the other
    assert harness.finish(pk) == "succeeded"
    assert harness.counts(pk) == (4, 4, 0, 0)
    assert vectors(pipeline) == {(0, "ready", 4), (1, "ready", 4)}


def test_cancelled_it_leaves_the_tasks_of_both_slots_to_the_workers_EMB_10(
    harness: JobHarness, pipeline: Pipeline, two_models: list[Any]
) -> None:
    harness.make("disabled", *two_models[:2])
    pk = queued_by(harness, pipeline)
    harness.do(services.cancel, pk)
    harness.run()
    assert (harness.state(pk), harness.tagged()) == ("cancelled", 0)
    assert vectors(pipeline) == {(0, "pending", 2), (0, "ready", 2), (1, "pending", 4)}
    pipeline.work()
    assert vectors(pipeline) == {(0, "ready", 4), (1, "ready", 4)}


def locked(pipeline: Pipeline, table: str, column: str, pk: Any) -> psycopg.Connection[Any]:
    """A write that is not over: it holds the tool's row in this table."""
    other = psycopg.connect(pipeline.owner.info.dsn, password=pipeline.owner.info.password)
    other.execute(f"SELECT 1 FROM {table} WHERE {column} = %s FOR UPDATE", [pk])  # type: ignore[arg-type]
    return other


def test_an_edit_that_waits_for_a_backfill_of_its_tool_never_deadlocks_with_it_R6(pipeline: Pipeline) -> None:
    """The backfill has made the tool's embedding, for which the edit waits. Its commit checks that the tool is there; where the
    edit holds the tool FOR UPDATE instead of FOR NO KEY UPDATE, each waits for the other, and one of them fails."""
    pk = pipeline.add()
    pipeline.owner.execute("TRUNCATE tools_toolembedding, embeddings_embeddingtask")
    with ExitStack() as threads, tenant_context(pipeline.tenant_id):
        scan(embedding_text.ENTITY, [pk], ScanOptions(), job_id=uuid4())
        mine = connection.connection.info.backend_pid
        threads.enter_context(in_thread(lambda: pipeline.edit(pk, "Edited meanwhile.")))
        wait_until_blocks(mine, pipeline.owner, "the edit waits for the backfill")
    pipeline.check_consistent()
    pipeline.work()
    assert pipeline.status(pk) == "ready"


@pytest.mark.parametrize("table", ["tools_toolembedding", "embeddings_embeddingtask"])
def test_a_cancel_waits_for_no_write_that_is_not_over_R6(
    harness: JobHarness, pipeline: Pipeline, table: str
) -> None:
    """A wait would end in the login's lock timeout, and the job in its queue again."""
    pks = ready_tools(pipeline, 3)
    pk = queued_by(harness, pipeline, failed=pks)
    with locked(pipeline, table, "entity_id", pks[1]):
        harness.do(services.cancel, pk)
        harness.run()
        assert harness.state(pk) == "cancelled"
    assert [pipeline.status(one) for one in pks] == ["pending", "pending", "pending"]
    assert harness.tagged() == (
        table == "embeddings_embeddingtask"
    )  # the locked task keeps its tag until it is done
    pipeline.check_consistent()
    pipeline.work()
    for one in pks:
        pipeline.check_ready(one)
    assert harness.tagged() == 0


def test_a_scan_leaves_a_tool_that_a_write_holds_to_that_write_R1(
    harness: JobHarness, pipeline: Pipeline
) -> None:
    pks = ready_tools(pipeline, 3)
    harness.make("failed", *pks)
    pk = harness.start()
    with locked(pipeline, "tools_toolembedding", "entity_id", pks[1]):
        harness.run(stop=(stop := threading.Event()), on_progress=lambda _: stop.set())
        assert harness.tagged() == 2
    assert harness.finish(pk) == "succeeded"
    assert harness.counts(pk) == (3, 2, 0, 1)
    assert pipeline.status(pks[1]) == "failed"
