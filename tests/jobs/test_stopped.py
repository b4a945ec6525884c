"""EMB-8, EMB-9, R9: a job that is cancelled, killed, stopped or retried ends right."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from embeddings.queue import job_tasks
from embeddings.queue.reconcile import reconcile
from portal.jobs import services
from portal.jobs.context import Context
from tests.embeddings.pipeline import Pipeline, in_thread, login, mutant
from tests.jobs.desk import Desk
from tests.jobs.scenes import (
    once_committed,
    poisoned,
    queued_by,
    ready_tools,
)


def an_edit_is_not_taken_back(desk: Desk, pipeline: Pipeline) -> None:
    [pk] = ready_tools(pipeline, 1)
    job = queued_by(desk, pipeline, failed=[pk])
    pipeline.edit(pk, "Edited while it waited.")
    desk.do(services.cancel, job)
    desk.run()
    assert desk.state(job) == "cancelled"
    assert pipeline.status(pk) == "pending"
    pipeline.work()
    pipeline.check_ready(pk)


class TestFailures:
    def test_a_failure_is_named_with_its_reason_and_the_rest_goes_on_EMB_8(
        self, desk: Desk, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk, pks = poisoned(desk, pipeline, use)
        assert desk.counts(pk) == (3, 2, 1, 0)
        with desk.in_tenant():
            [group] = services.failures_by_error(pk)
            [failure] = services.failures(pk)
        assert (group.error, group.count, group.labels) == ("this text cannot be embedded", 1, ["tool_3"])
        assert (failure.item_id, failure.label) == (pks[2], "tool_3")
        assert pipeline.status(pks[2]) == "failed"
        pipeline.check_consistent()

    def test_a_retry_takes_up_the_failures_and_nothing_else_EMB_9(
        self, desk: Desk, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk, pks = poisoned(desk, pipeline, use)
        provider = use("HashEmbedder")
        assert desk.do(services.retry_failed, pk).shown_state == "queued"
        assert desk.finish(pk) == "succeeded"
        assert desk.counts(pk) == (3, 3, 0, 0)
        assert len(provider.calls) == 1
        pipeline.check_ready(pks[2])

    def test_what_fails_again_is_a_failure_again_and_is_not_retried_without_end_EMB_9(
        self, desk: Desk, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk, _ = poisoned(desk, pipeline, use)
        for _ in range(2):
            desk.do(services.retry_failed, pk)
            assert desk.finish(pk) == "partial"
            assert desk.counts(pk) == (3, 2, 1, 0)

    def test_a_failed_tool_that_is_gone_needs_no_retry_EMB_9(
        self, desk: Desk, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk, pks = poisoned(desk, pipeline, use)
        pipeline.delete(pks[2])
        desk.do(services.retry_failed, pk)
        assert desk.finish(pk) == "succeeded"
        assert desk.counts(pk) == (3, 3, 0, 0)


class TestCancel:
    def test_it_takes_back_its_own_tasks_and_leaves_the_statuses_that_were_EMB_8(
        self, desk: Desk, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 6)
        pk = queued_by(desk, pipeline, failed=pks[:2], disabled=pks[2:4])
        assert desk.tagged() == 4
        desk.do(services.cancel, pk)
        desk.run()
        assert desk.state(pk) == "cancelled"
        assert [pipeline.status(one) for one in pks] == [
            "failed",
            "failed",
            "disabled",
            "disabled",
            "ready",
            "ready",
        ]
        assert {task["status"] for task in pipeline.tasks()} == {"failed"}
        assert pipeline.embedding(pks[0])["error"] == job_tasks.TAKEN_BACK
        pipeline.check_consistent()
        with login("DATABASE_WORKER_URL"):
            assert reconcile() == 0  # which respects that it was cancelled
        assert pipeline.work().claimed == 0

    def test_an_edit_since_then_is_never_taken_back_EMB_2_R1(self, desk: Desk, pipeline: Pipeline) -> None:
        an_edit_is_not_taken_back(desk, pipeline)

    def test_the_test_of_the_edit_notices_a_label_that_stays_EMB_2_R1(
        self, desk: Desk, pipeline: Pipeline
    ) -> None:
        with (
            mutant(
                " job_id = NULL, status_before = NULL,\n                next_attempt_at",
                "\n                next_attempt_at",
            ),
            pytest.raises(AssertionError),
        ):
            an_edit_is_not_taken_back(desk, pipeline)

    def test_what_a_write_has_left_without_vector_is_owed_and_stays_queued_R1(
        self, desk: Desk, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 3)
        pipeline.owner.execute("UPDATE tools_tool SET description = 'By hand.' WHERE id = %s", [pks[0]])
        pipeline.owner.execute("DELETE FROM tools_toolembedding WHERE entity_id = %s", [pks[1]])
        pk = queued_by(desk, pipeline)
        desk.do(services.cancel, pk)
        desk.run()
        assert (desk.state(pk), desk.tagged()) == ("cancelled", 0)
        assert {task["entity_id"] for task in pipeline.tasks()} == {pks[0], pks[1]}
        pipeline.work()
        for one in pks:
            pipeline.check_ready(one)

    def test_a_task_that_a_worker_has_in_hand_is_finished_EMB_8(
        self, desk: Desk, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pks = ready_tools(pipeline, 2)
        pk = queued_by(desk, pipeline, failed=pks)
        gate = use("GatedEmbedder")
        with pipeline.paused_worker(gate):
            desk.do(services.cancel, pk)
            desk.run()
            assert desk.state(pk) == "cancelled"
        for one in pks:
            pipeline.check_ready(one)
        assert desk.find(pk).done == 2

    def test_a_running_job_ends_after_its_batch_and_resumes_to_the_same_end_EMB_8(
        self, desk: Desk, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 9)
        desk.make("failed", *pks[:4])
        desk.make("disabled", *pks[4:8])
        pk = desk.start(batch_size=1)

        def cancel_half_way(context: Context) -> None:
            if context.cursor.get("queued") == 4 and desk.state(pk) == "running":
                # From elsewhere, as an operator does: this is in the middle of the batch's transaction.
                pipeline.owner.execute("UPDATE jobs_job SET state = 'cancelling' WHERE id = %s", [pk])

        with in_thread(lambda: desk.run(on_progress=once_committed(cancel_half_way))):
            pass
        assert desk.state(pk) == "cancelled"
        assert desk.tagged() == 0
        pipeline.check_consistent()
        assert "ready" in {pipeline.status(one) for one in pks}
        desk.do(services.resume, pk)
        assert desk.finish(pk) == "succeeded"
        assert desk.counts(pk) == (9, 8, 0, 1)
        for one in pks:
            pipeline.check_ready(one)

    def test_what_became_ready_before_the_cancel_counts_as_done_after_the_resume_EMB_8(
        self, desk: Desk, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 5)
        desk.make("failed", *pks[:4])
        pk = desk.start(statuses=["failed"], batch_size=2, ahead=0)
        desk.run_until_queued()
        with login("DATABASE_WORKER_URL"):
            pipeline.owner.execute(
                "UPDATE embeddings_embeddingtask SET next_attempt_at = now() + interval '1 hour' WHERE entity_id = ANY(%s)",
                [pks[:2]],
            )
        pipeline.work()
        desk.do(services.cancel, pk)
        desk.run()
        assert [pipeline.status(one) for one in pks] == ["failed", "failed", "ready", "ready", "ready"]
        assert desk.find(pk).done == 2
        desk.do(services.resume, pk)
        assert desk.finish(pk) == "succeeded"
        assert desk.counts(pk) == (4, 4, 0, 0)

    def test_a_cancelled_retry_leaves_its_failures_to_be_retried_EMB_9(
        self, desk: Desk, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk, pks = poisoned(desk, pipeline, use)
        desk.do(services.retry_failed, pk)
        desk.run_until_queued()
        assert desk.find(pk).failed == 0
        desk.do(services.cancel, pk)
        desk.run()
        assert (desk.state(pk), desk.counts(pk)) == ("cancelled", (3, 2, 1, 0))
        use("HashEmbedder")
        desk.do(services.resume, pk)
        assert desk.finish(pk) == "succeeded"
        assert desk.counts(pk) == (3, 3, 0, 0)
        pipeline.check_ready(pks[2])


class TestKilled:
    @pytest.mark.parametrize("after", [True, False], ids=["after a commit", "before a commit"])
    def test_killed_in_every_batch_and_resumed_each_time_it_ends_as_if_never_killed_EMB_8_R9(
        self, desk: Desk, pipeline: Pipeline, *, after: bool
    ) -> None:
        pks = ready_tools(pipeline, 12)
        desk.make("failed", *pks[:5])
        desk.make("disabled", *pks[5:8])
        pk = desk.start(batch_size=2)

        class Killed(BaseException):
            pass

        def kill(_: Context) -> None:
            raise Killed

        deaths = 0
        for _ in range(40):
            beats = iter(range(2))  # let one batch through, die in or after the second

            def on_progress(context: Context, beats: Any = beats) -> None:
                if next(beats, 1):
                    kill(context)

            hook = once_committed(on_progress) if after else on_progress
            try:
                desk.run(on_progress=hook)
                break
            except Killed:
                deaths += 1
                connection.close()
                desk.silence_runners()
                pipeline.work(batches=1)
                assert desk.state(pk) == "lost"
                desk.do(services.resume, pk)
        if desk.find(pk).is_active:
            desk.finish(pk)
        assert deaths >= 3
        assert (desk.state(pk), desk.counts(pk)) == ("succeeded", (12, 8, 0, 4))
        for one in pks:
            pipeline.check_ready(one)
        assert pipeline.tasks() == []

    def test_a_stop_gives_the_job_back_with_its_cursor_and_another_runner_goes_on_R18(
        self, desk: Desk, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 6)
        desk.make("failed", *pks)
        pk = desk.start(batch_size=2)
        stop = threading.Event()
        desk.run(stop, lambda context: stop.set())
        job = desk.find(pk)
        assert (job.shown_state, job.claim_id, job.cursor["after"]) == ("queued", None, str(pks[1]))
        assert [task["attempts"] for task in pipeline.tasks() if task["status"] == "pending"] == [0, 0]
        assert desk.finish(pk) == "succeeded"
        assert desk.counts(pk) == (6, 6, 0, 0)

    def test_trouble_of_the_database_gives_it_back_and_a_bug_ends_it_with_its_reason(
        self, desk: Desk, pipeline: Pipeline
    ) -> None:
        from django.db import OperationalError

        ready_tools(pipeline, 2)
        pk = desk.start()

        def trouble(_: Context) -> None:
            raise OperationalError("canceling statement due to lock timeout")

        for _ in range(4):
            with pytest.raises(OperationalError):
                desk.run(on_progress=trouble)
            assert desk.state(pk) == "queued"
        with pytest.raises(OperationalError):
            desk.run(on_progress=trouble)
        assert (desk.state(pk), desk.find(pk).error) == (
            "failed",
            "OperationalError: canceling statement due to lock timeout",
        )
        desk.do(services.resume, pk)

        def bug(_: Context) -> None:
            raise ZeroDivisionError("no such number")

        desk.run(on_progress=bug)
        assert (desk.state(pk), desk.find(pk).error) == ("failed", "ZeroDivisionError: no such number")
        desk.do(services.resume, pk)
        assert desk.finish(pk) == "succeeded"
