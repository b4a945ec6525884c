"""EMB-2, EMB-3, EMB-5: what a write leaves behind for the worker, in the write's own transaction."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from django.db import connection, transaction

from embeddings.models import Priority
from embeddings.queue import enqueue as enqueue_module
from embeddings.queue.enqueue import EmbeddingRequest, enqueue, requeue, wakeup
from embeddings.text import source_hash
from portal.resilience.wakeup import Notifier
from portal.tenancy.context import tenant_context
from tests.support.embeddings.pipeline import Pipeline
from tools.catalogue import embedding_text
from tools.catalogue.tools import create_tool, sync_embeddings, update_tool
from tools.models import Tool


def written(pipeline: Pipeline) -> list[tuple[Any, ...]]:
    """The identity of every row version: one more UPDATE of one row changes it."""
    statement = """
        SELECT id, xmin::text, ctid::text FROM tools_toolembedding
        UNION ALL SELECT id, xmin::text, ctid::text FROM embeddings_embeddingtask ORDER BY id
    """
    return [tuple(row.values()) for row in pipeline.all(statement)]


def test_a_new_tool_is_pending_with_a_task_for_its_text_EMB_2_EMB_3(pipeline: Pipeline) -> None:
    pk = pipeline.add("Sends a letter.")
    row, task = pipeline.embedding(pk), pipeline.task(pk)
    assert task is not None
    assert (row["status"], row["vector"], row["model"], row["dimension"]) == ("pending", None, "model-1", 384)
    assert row["source_hash"] == task["source_hash"] == source_hash(pipeline.text(pk))
    assert (task["status"], task["attempts"], task["entity_type"], task["claim_id"]) == (
        "pending",
        0,
        "tool",
        None,
    )


def test_a_write_that_is_rolled_back_leaves_nothing_and_wakes_no_worker_EMB_2(pipeline: Pipeline) -> None:
    with mock.patch.object(wakeup, "notify") as notify:
        with tenant_context(pipeline.tenant_id):
            create_tool(actor="test", tool_id="gone", name="gone", description="Never was.")
            transaction.set_rollback(True)
        assert pipeline.tasks() == []
        assert pipeline.all("SELECT 1 FROM tools_toolembedding") == []
        notify.assert_not_called()
        pipeline.add()
        notify.assert_called_once_with()


def test_a_wakeup_that_fails_does_not_fail_the_save_EMB_2(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
        monkeypatch.setattr(enqueue_module, "wakeup", Notifier("embeddings.tasks.wake", queue="embeddings"))
        pk = pipeline.add()
    assert pipeline.status(pk) == "pending"


def test_the_tool_and_its_wish_become_visible_in_one_moment_EMB_2(pipeline: Pipeline) -> None:
    pk = pipeline.add("One.")
    with tenant_context(pipeline.tenant_id):
        update_tool(pk=pk, expected_version=1, changes={"description": "Two."}, actor="test")
        before = pipeline.embedding(pk)["source_hash"]
        assert pipeline.all("SELECT description FROM tools_tool WHERE id = %s", pk) == [
            {"description": "One."}
        ]
    assert pipeline.embedding(pk)["source_hash"] != before
    assert pipeline.embedding(pk)["source_hash"] == source_hash(pipeline.text(pk))


@pytest.mark.parametrize("state", ["pending", "ready"])
def test_an_unchanged_text_writes_nothing_EMB_2(pipeline: Pipeline, state: str) -> None:
    pk = pipeline.add("One.")
    if state == "ready":
        pipeline.work()
    assert pipeline.status(pk) == state
    before = written(pipeline)
    pipeline.change(pk, owner="somebody", core=True)  # no part of the text
    with tenant_context(pipeline.tenant_id):
        assert sync_embeddings([Tool.objects.select_related("endpoint", "source").get(pk=pk)]) == 0
    assert written(pipeline) == before


def test_layout_is_no_meaning_EMB_1(pipeline: Pipeline) -> None:
    pk = pipeline.add("Sends  a\n\n letter.")
    pipeline.work()
    before = written(pipeline)
    pipeline.edit(pk, "Sends a\nletter.\t")
    assert written(pipeline) == before


def test_an_edit_overwrites_the_one_task_with_attempts_0_and_a_void_claim_EMB_3(pipeline: Pipeline) -> None:
    pk = pipeline.add("One.")
    pipeline.owner.execute(
        "UPDATE embeddings_embeddingtask SET status = 'running', attempts = 4, claim_id = gen_random_uuid(), "
        "last_error = 'oh', next_attempt_at = now() + interval '1 hour'"
    )
    pipeline.edit(pk, "Two.")
    [task] = pipeline.tasks()
    assert (task["status"], task["attempts"], task["claim_id"], task["last_error"]) == (
        "pending",
        0,
        None,
        "",
    )
    assert task["source_hash"] == source_hash(pipeline.text(pk))
    assert pipeline.all("SELECT next_attempt_at <= now() AS due FROM embeddings_embeddingtask") == [
        {"due": True}
    ]


def test_an_edit_of_a_parked_task_gives_it_a_new_life_EMB_3(pipeline: Pipeline) -> None:
    pk = pipeline.add("One.")
    pipeline.owner.execute("UPDATE embeddings_embeddingtask SET status = 'failed', attempts = 6")
    pipeline.owner.execute("UPDATE tools_toolembedding SET status = 'failed', error = 'no'")
    pipeline.edit(pk, "Two.")
    assert (pipeline.status(pk), pipeline.embedding(pk)["error"]) == ("pending", "")
    pipeline.work()
    pipeline.check_ready(pk)


def test_a_then_b_then_a_ends_with_the_vector_of_a_EMB_3(pipeline: Pipeline, embedder: Any) -> None:
    pk = pipeline.add("A.")
    pipeline.edit(pk, "B.")
    pipeline.edit(pk, "A.")
    assert pipeline.status(pk) == "pending"
    pipeline.work()
    pipeline.check_ready(pk)
    assert len(embedder.calls) == 1


def test_back_to_the_text_of_the_vector_in_hand_is_ready_without_a_call_EMB_3(
    pipeline: Pipeline, embedder: Any
) -> None:
    pk = pipeline.add("A.")
    pipeline.work()
    pipeline.edit(pk, "B.")
    assert pipeline.status(pk) == "pending"
    pipeline.edit(pk, "A.")
    pipeline.check_ready(pk)
    assert pipeline.work().claimed == 0
    assert len(embedder.calls) == 1


def test_a_text_that_changes_keeps_its_old_vector_out_of_ready_EMB_5(pipeline: Pipeline) -> None:
    pk = pipeline.add("A.")
    pipeline.work()
    pipeline.edit(pk, "B.")
    row = pipeline.embedding(pk)
    assert row["status"] == "pending"
    assert row["vector_hash"] != row["source_hash"]


def test_refresh_keeps_a_ready_tool_ready_and_is_harmless_twice_EMB_9(
    pipeline: Pipeline, embedder: Any
) -> None:
    pk = pipeline.add("A.")
    pipeline.work()
    first = pipeline.embedding(pk)["embedded_at"]
    assert pipeline.refresh(pk) == 1
    assert pipeline.refresh(pk) == 1
    assert pipeline.status(pk) == "ready"
    assert len(pipeline.tasks()) == 1
    pipeline.work()
    pipeline.check_ready(pk)
    assert pipeline.embedding(pk)["embedded_at"] > first
    assert len(embedder.calls) == 2


def test_refresh_of_a_failed_tool_tries_again_EMB_9(pipeline: Pipeline, use: Callable[..., Any]) -> None:
    use("PoisonEmbedder")
    pk = pipeline.add("A permanent poison.")
    pipeline.work()
    assert pipeline.status(pk) == "failed"
    use("HashEmbedder")
    assert pipeline.refresh(pk) == 1
    assert pipeline.status(pk) == "pending"
    pipeline.work()
    pipeline.check_ready(pk)


def test_no_text_is_blank_without_vector_and_task_and_comes_back_EMB_5(pipeline: Pipeline) -> None:
    pk = pipeline.add("A.")
    pipeline.work()
    with tenant_context(pipeline.tenant_id):
        assert enqueue(embedding_text.ENTITY, [EmbeddingRequest(pk, "")]) == 0
    row = pipeline.embedding(pk)
    assert (row["status"], row["vector"], row["vector_hash"], row["embedded_at"]) == (
        "blank",
        None,
        None,
        None,
    )
    assert pipeline.tasks() == []
    before = written(pipeline)
    with tenant_context(pipeline.tenant_id):
        enqueue(embedding_text.ENTITY, [EmbeddingRequest(pk, "")])
    assert written(pipeline) == before
    pipeline.edit(pk, "B.")
    pipeline.work()
    pipeline.check_ready(pk)


def test_blank_while_a_task_waits_takes_the_task_away_EMB_5(pipeline: Pipeline) -> None:
    pk = pipeline.add("A.")
    with tenant_context(pipeline.tenant_id):
        enqueue(embedding_text.ENTITY, [EmbeddingRequest(pk, "")])
    assert (pipeline.status(pk), pipeline.tasks()) == ("blank", [])


class TestDisabled:
    def test_writes_go_on_without_tasks_EMB_5(self, pipeline: Pipeline, use: Callable[..., Any]) -> None:
        use("disabled")
        pk = pipeline.add("A.")
        pipeline.edit(pk, "B.")
        assert (pipeline.status(pk), pipeline.tasks()) == ("disabled", [])
        assert pipeline.refresh(pk) == 0
        assert pipeline.work().claimed == 0
        assert pipeline.embedding(pk)["source_hash"] == source_hash(pipeline.text(pk))

    def test_takes_the_task_of_an_older_text_away_EMB_5(
        self, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk = pipeline.add("A.")
        use("disabled")
        pipeline.edit(pk, "B.")
        assert (pipeline.status(pk), pipeline.tasks()) == ("disabled", [])

    def test_a_refresh_takes_no_good_vector_away_EMB_9(
        self, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk = pipeline.add("A.")
        pipeline.work()
        use("disabled")
        assert pipeline.refresh(pk) == 0
        pipeline.check_ready(pk)


class TestReactivation:
    def test_of_a_tool_whose_text_changed_meanwhile_asks_again_EMB_2(self, pipeline: Pipeline) -> None:
        pk = pipeline.add("A.")
        pipeline.work()
        pipeline.change(pk, active=False)
        pipeline.edit(pk, "B.")
        assert pipeline.tasks() == []
        assert pipeline.work().claimed == 0
        pipeline.change(pk, active=True)
        assert pipeline.status(pk) == "pending"
        pipeline.work()
        pipeline.check_ready(pk)

    def test_before_the_first_vector_does_not_leave_pending_for_ever_EMB_2(self, pipeline: Pipeline) -> None:
        pk = pipeline.add("A.")
        pipeline.change(pk, active=False)
        assert pipeline.tasks() == []
        pipeline.change(pk, active=True)
        assert pipeline.task(pk) is not None
        pipeline.work()
        pipeline.check_ready(pk)

    def test_with_the_old_text_serves_the_old_vector_at_once_EMB_2(
        self, pipeline: Pipeline, embedder: Any
    ) -> None:
        pk = pipeline.add("A.")
        pipeline.work()
        pipeline.change(pk, active=False)
        assert pipeline.embedding(pk)["active"] is False
        pipeline.change(pk, active=True)
        assert pipeline.embedding(pk)["active"] is True
        pipeline.check_ready(pk)
        assert len(embedder.calls) == 1

    def test_after_a_change_of_model_asks_for_the_new_one_EMB_10(
        self, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk = pipeline.add("A.")
        pipeline.work()
        pipeline.change(pk, active=False)
        use("HashEmbedder", EMBEDDING_MODEL="model-2")
        pipeline.change(pk, active=True)
        assert pipeline.status(pk) == "ready"
        pipeline.work()
        pipeline.check_ready(pk)
        assert pipeline.embedding(pk)["model"] == "model-2"


def test_a_failed_tool_that_is_switched_off_and_on_tries_again_EMB_2(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    use("PoisonEmbedder")
    pk = pipeline.add("A permanent poison.")
    pipeline.work()
    use("HashEmbedder")
    pipeline.change(pk, active=False)
    pipeline.change(pk, active=True)
    pipeline.work()
    pipeline.check_ready(pk)


def test_many_requests_are_four_statements_and_only_the_changed_ones_write_EMB_2(pipeline: Pipeline) -> None:
    pks = [pipeline.add(f"Text {number}.") for number in range(40)]
    pipeline.work()
    with tenant_context(pipeline.tenant_id):
        same = [EmbeddingRequest(pk, pipeline.text(pk)) for pk in pks]
        changed = [
            EmbeddingRequest(request.entity_id, "Other.") if number % 4 == 0 else request
            for number, request in enumerate(same)
        ]
        statements: list[str] = []

        def count(execute: Any, sql: str, *arguments: Any) -> Any:
            statements.append(sql)
            return execute(sql, *arguments)

        with connection.execute_wrapper(count):
            assert enqueue(embedding_text.ENTITY, changed, priority=Priority.BACKFILL) == 10
    assert len([one for one in statements if "SAVEPOINT" not in one]) == 4
    assert {task["entity_id"] for task in pipeline.tasks()} == set(pks[::4])
    assert {pipeline.status(pk) for pk in pks[1::4]} == {"ready"}


def test_an_edit_is_worked_on_before_the_backfill_EMB_8(pipeline: Pipeline, use: Callable[..., Any]) -> None:
    embedder = use("HashEmbedder", EMBEDDING_BATCH_SIZE=1)
    pks = [pipeline.add(f"Text {number}.") for number in range(5)]
    pipeline.owner.execute("UPDATE embeddings_embeddingtask SET priority = 10")
    pipeline.edit(pks[3], "Somebody waits for this.")
    with transaction.atomic(), tenant_context(pipeline.tenant_id):
        # A backfill that asks again does not push an edit back.
        requeue(embedding_text.ENTITY, [pks[3]], refresh=True)
    pipeline.work()
    assert "Somebody waits" in embedder.calls[0]


def test_a_wish_for_nothing_is_nothing(pipeline: Pipeline) -> None:
    with tenant_context(pipeline.tenant_id):
        assert enqueue(embedding_text.ENTITY, []) == 0
        assert requeue(embedding_text.ENTITY, [uuid.uuid4()], refresh=True) == 0


class TestNoOneElsesBusiness:
    """EMB-6: keeping embeddings is no edit."""

    def test_no_step_of_the_pipeline_touches_version_time_or_history_EMB_6(
        self, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        use("PoisonEmbedder", EMBEDDING_MAX_ATTEMPTS=2)
        pks = [pipeline.add("Fine."), pipeline.add("A poison."), pipeline.add("A permanent poison.")]

        def seen() -> tuple[Any, ...]:
            return (
                pipeline.all(
                    "SELECT id, version, updated_at, updated_by, xmin::text FROM tools_tool ORDER BY id"
                ),
                pipeline.all("SELECT count(*) FROM tools_toolevent"),
            )

        before = seen()
        pipeline.work()
        pipeline.make_due()
        pipeline.work()
        assert [pipeline.status(pk) for pk in pks] == ["ready", "failed", "failed"]
        pipeline.refresh(*pks)
        use("HashEmbedder")
        pipeline.work()
        assert [pipeline.status(pk) for pk in pks] == ["ready", "ready", "ready"]
        assert seen() == before
