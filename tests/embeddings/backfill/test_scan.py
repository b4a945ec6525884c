"""EMB-8: the scan that finds what is not as it should be; and the reconciler, which finds what waits for nobody."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from embeddings.backfill.scan import ScanOptions, ScanResult, StatusCounts, count_by_status, scan
from embeddings.queue.reconcile import reconcile
from portal.tenancy.context import tenant_context
from tests.support.database import login
from tests.support.embeddings.pipeline import Pipeline
from tools.catalogue.embedding_text import ENTITY
from tools.models import Tool


def run(pipeline: Pipeline, batch: int = 4) -> ScanResult:
    """A scan over all tools, as a job makes it."""
    found, after, job_id = ScanResult(), uuid.UUID(int=0), uuid.uuid4()
    while True:
        with tenant_context(pipeline.tenant_id):
            ids = list(
                Tool.objects.filter(active=True, pk__gt=after)
                .order_by("pk")
                .values_list("pk", flat=True)[:batch]
            )
            if not ids:
                return found
            result = scan(ENTITY, ids, ScanOptions(), job_id=job_id)
        after = ids[-1]
        found.examined |= result.examined
        found.enqueued |= result.enqueued


def counts(pipeline: Pipeline) -> StatusCounts:
    with tenant_context(pipeline.tenant_id):
        return count_by_status(ENTITY)


def rows(pipeline: Pipeline) -> list[dict[str, Any]]:
    return pipeline.all(
        "SELECT id, xmin::text, ctid::text FROM tools_toolembedding "
        "UNION ALL SELECT id, xmin::text, ctid::text FROM embeddings_embeddingtask ORDER BY id"
    )


def missing(pipeline: Pipeline, pk: uuid.UUID) -> None:
    pipeline.owner.execute("DELETE FROM tools_toolembedding WHERE entity_id = %s", [pk])


def stale(pipeline: Pipeline, pk: uuid.UUID) -> None:
    pipeline.owner.execute("UPDATE tools_tool SET description = 'Changed by hand.' WHERE id = %s", [pk])


def failed(pipeline: Pipeline, pk: uuid.UUID) -> None:
    pipeline.refresh(pk)
    pipeline.owner.execute("UPDATE embeddings_embeddingtask SET status = 'failed' WHERE entity_id = %s", [pk])
    pipeline.owner.execute("UPDATE tools_toolembedding SET status = 'failed' WHERE entity_id = %s", [pk])


def of_another_model(pipeline: Pipeline, pk: uuid.UUID) -> None:
    pipeline.owner.execute("UPDATE tools_toolembedding SET model = 'older' WHERE entity_id = %s", [pk])


def disabled(pipeline: Pipeline, pk: uuid.UUID) -> None:
    pipeline.owner.execute(
        "UPDATE tools_toolembedding SET status = 'disabled', vector = NULL, vector_hash = NULL WHERE entity_id = %s",
        [pk],
    )


def pending_without_a_task(pipeline: Pipeline, pk: uuid.UUID) -> None:
    pipeline.owner.execute("UPDATE tools_toolembedding SET status = 'pending' WHERE entity_id = %s", [pk])


def blank_by_mistake(pipeline: Pipeline, pk: uuid.UUID) -> None:
    pipeline.owner.execute("UPDATE tools_toolembedding SET status = 'blank' WHERE entity_id = %s", [pk])


def inactive_by_mistake(pipeline: Pipeline, pk: uuid.UUID) -> None:
    pipeline.owner.execute("UPDATE tools_toolembedding SET active = false WHERE entity_id = %s", [pk])


WRONG = [
    missing, stale, failed, of_another_model, disabled, pending_without_a_task, blank_by_mistake, inactive_by_mistake,
]  # fmt: skip


@pytest.mark.parametrize("make_wrong", WRONG, ids=lambda one: one.__name__)
def test_one_wrong_row_among_right_ones_is_found_and_set_right_EMB_8(
    pipeline: Pipeline, make_wrong: Callable[[Pipeline, uuid.UUID], None]
) -> None:
    pks = [pipeline.add(f"Text {number}.") for number in range(3)]
    pipeline.work()
    make_wrong(pipeline, pks[1])
    assert len(run(pipeline).examined) == 3
    assert {task["entity_id"]: task["priority"] for task in pipeline.tasks()} in ({pks[1]: 10}, {})
    pipeline.work()
    for pk in pks:
        pipeline.check_ready(pk)
        assert (pipeline.embedding(pk)["model"], pipeline.embedding(pk)["active"]) == ("model-1", True)


def test_a_run_over_a_complete_catalogue_writes_and_locks_nothing_EMB_8(
    pipeline: Pipeline, embedder: Any
) -> None:
    for number in range(5):
        pipeline.add(f"Text {number}.")
    pipeline.work()
    before, calls = rows(pipeline), len(embedder.calls)
    assert run(pipeline).enqueued == set()
    assert pipeline.work().claimed == 0
    assert (rows(pipeline), len(embedder.calls)) == (before, calls)


def test_a_second_run_before_the_worker_comes_writes_nothing_EMB_8(pipeline: Pipeline) -> None:
    pks = [pipeline.add(f"Text {number}.") for number in range(6)]
    pipeline.work()
    for pk, make_wrong in zip(pks, [missing, stale, failed, of_another_model, disabled], strict=False):
        make_wrong(pipeline, pk)
    assert run(pipeline).enqueued == set(pks[:5])
    before = rows(pipeline)
    assert run(pipeline).enqueued == set()
    assert rows(pipeline) == before


class TestDisabled:
    def test_everything_embedded_later_once_a_provider_is_there_EMB_8(
        self, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        use("disabled")
        pks = [pipeline.add(f"Text {number}.") for number in range(3)]
        assert run(pipeline).enqueued == set()
        assert counts(pipeline) == StatusCounts(total=3, disabled=3)
        use("HashEmbedder")
        assert run(pipeline).enqueued == set(pks)
        pipeline.work()
        for pk in pks:
            pipeline.check_ready(pk)

    def test_what_waited_when_it_was_switched_off_waits_no_more_EMB_8(
        self, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        ready = pipeline.add("Ready.")
        pipeline.work()
        pipeline.add("Waits.")
        use("disabled")
        assert run(pipeline).enqueued == set()
        assert counts(pipeline) == StatusCounts(total=2, ready=1, disabled=1)
        assert pipeline.tasks() == []
        pipeline.check_ready(ready)


def test_counts_are_of_active_tools_of_this_tenant_by_status_EMB_8(
    pipeline: Pipeline, make_tenant: Callable[..., Any]
) -> None:
    Pipeline(make_tenant().pk, pipeline.owner).add("Another tenant's.")
    pks = [pipeline.add(f"Text {number}.") for number in range(8)]
    pipeline.work()
    for pk, make_wrong in zip(
        pks, [missing, failed, disabled, blank_by_mistake, pending_without_a_task], strict=False
    ):
        make_wrong(pipeline, pk)
    pipeline.change(pks[5], active=False)
    assert counts(pipeline) == StatusCounts(
        total=7, ready=2, pending=1, failed=1, disabled=1, blank=1, missing=1
    )


class TestReconciler:
    def reconcile(self) -> int:
        with login("DATABASE_WORKER_URL"):
            return reconcile()

    @pytest.mark.parametrize("leave_behind", ["no task", "a parked task"])
    def test_what_is_pending_without_a_live_task_is_asked_for_in_every_tenant_R1(
        self, pipeline: Pipeline, make_tenant: Callable[..., Any], leave_behind: str
    ) -> None:
        other = Pipeline(make_tenant().pk, pipeline.owner)
        one, two = pipeline.add("One."), other.add("Two.")
        if leave_behind == "no task":
            pipeline.owner.execute("TRUNCATE embeddings_embeddingtask")
        else:
            pipeline.owner.execute("UPDATE embeddings_embeddingtask SET status = 'failed'")
        assert self.reconcile() == 2
        assert self.reconcile() == 0
        pipeline.work()
        pipeline.check_ready(one)
        other.check_ready(two)

    def test_a_healthy_catalogue_is_left_alone_R1(self, pipeline: Pipeline, use: Callable[..., Any]) -> None:
        pipeline.add("Ready.")
        pipeline.work()
        pipeline.add("Pending.")
        use("PoisonEmbedder", EMBEDDING_MAX_ATTEMPTS=1)
        pipeline.add("A poison.")
        pipeline.work(batches=1)
        pipeline.change(pipeline.add("Off."), active=False)
        before = rows(pipeline)
        assert self.reconcile() == 0
        assert rows(pipeline) == before

    @pytest.mark.parametrize(
        "make_wrong",
        [
            missing,
            stale,
            of_another_model,
            disabled,
            pending_without_a_task,
            blank_by_mistake,
        ],
    )
    def test_whatever_is_not_of_its_text_and_has_no_task_is_asked_for_rule_14(
        self, pipeline: Pipeline, make_wrong: Callable[..., None]
    ) -> None:
        pk, other = pipeline.add("One."), pipeline.add("Two.")
        pipeline.work()
        make_wrong(pipeline, pk)
        assert self.reconcile() == 1
        assert self.reconcile() == 0
        pipeline.work()
        pipeline.check_ready(pk)
        pipeline.check_ready(other)

    def test_a_vector_that_is_inactive_by_mistake_serves_again_and_is_not_made_again_rule_14(
        self, pipeline: Pipeline
    ) -> None:
        pk = pipeline.add("One.")
        pipeline.work()
        inactive_by_mistake(pipeline, pk)
        assert self.reconcile() == 0
        pipeline.check_ready(pk)

    def test_a_failure_without_its_parked_task_is_tried_again_and_one_with_it_is_not_rule_14(
        self, pipeline: Pipeline
    ) -> None:
        pk = pipeline.add("One.")
        pipeline.work()
        failed(pipeline, pk)
        assert self.reconcile() == 0
        pipeline.owner.execute("TRUNCATE embeddings_embeddingtask")
        assert self.reconcile() == 1
        pipeline.work()
        pipeline.check_ready(pk)

    def test_what_was_written_while_embedding_was_off_is_embedded_once_it_is_back_EMB_5(
        self, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        use("disabled")
        pk = pipeline.add("Written meanwhile.")
        before = rows(pipeline)
        assert self.reconcile() == 0
        assert rows(pipeline) == before
        use("HashEmbedder", EMBEDDING_MODEL="model-1")
        assert self.reconcile() == 1
        pipeline.work()
        pipeline.check_ready(pk)

    def test_the_texts_are_compared_some_at_each_run_until_all_were_rule_14(
        self, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("embeddings.queue.reconcile.BATCH_SIZE", 2)
        pks = sorted(pipeline.add(f"Text {number}.") for number in range(5))
        pipeline.work()
        stale(pipeline, pks[-1])
        assert [self.reconcile() for _ in range(3)] == [0, 0, 1]
        stale(pipeline, pks[0])
        pipeline.owner.execute("UPDATE tools_tool SET description = 'Once more.' WHERE id = %s", [pks[0]])
        assert self.reconcile() == 1  # and then from the start
