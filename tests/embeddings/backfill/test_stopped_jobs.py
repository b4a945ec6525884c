"""EMB-8, EMB-9, R9: a job that is cancelled, killed, stopped or retried ends right."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from embeddings.queue.reconcile import reconcile
from portal.jobs import services
from portal.jobs.context import Context
from tests.support.database import login
from tests.support.embeddings.mutants import mutant
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import CANNOT_EVER
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import once_committed, poisoned, queued_by, ready_tools
from tests.support.threads import in_thread


def an_edit_is_untagged(harness: JobHarness, pipeline: Pipeline) -> None:
    [pk] = ready_tools(pipeline, 1)
    job = queued_by(harness, pipeline, failed=[pk])
    assert harness.tagged() == 1
    pipeline.edit(pk, "Edited while it waited.")
    assert harness.tagged() == 0
    harness.do(services.cancel, job)
    harness.run()
    assert harness.state(job) == "cancelled"
    assert pipeline.status(pk) == "pending"
    pipeline.work()
    pipeline.check_ready(pk)


class TestFailures:
    def test_a_failure_is_named_with_its_reason_and_the_rest_goes_on_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk, pks = poisoned(harness, pipeline, use)
        assert harness.counts(pk) == (3, 2, 1, 0)
        with harness.in_tenant():
            [group] = services.failures_by_error(pk)
            [failure] = services.failures(pk)
        assert (group.error, group.count, group.labels) == (CANNOT_EVER.public, 1, ["tool_3"])
        assert (failure.item_id, failure.label) == (pks[2], "tool_3")
        assert pipeline.status(pks[2]) == "failed"
        pipeline.check_consistent()

    def test_a_retry_takes_up_the_failures_and_nothing_else_EMB_9(
        self, harness: JobHarness, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk, pks = poisoned(harness, pipeline, use)
        provider = use("HashEmbedder")
        assert harness.do(services.retry_failed, pk).effective_state == "queued"
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (3, 3, 0, 0)
        assert len(provider.calls) == 1
        pipeline.check_ready(pks[2])

    def test_what_fails_again_is_a_failure_again_and_is_not_retried_without_end_EMB_9(
        self, harness: JobHarness, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk, _ = poisoned(harness, pipeline, use)
        for _ in range(2):
            harness.do(services.retry_failed, pk)
            assert harness.finish(pk) == "partial"
            assert harness.counts(pk) == (3, 2, 1, 0)

    def test_a_failed_tool_that_is_gone_needs_no_retry_EMB_9(
        self, harness: JobHarness, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk, pks = poisoned(harness, pipeline, use)
        pipeline.delete(pks[2])
        harness.do(services.retry_failed, pk)
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (3, 3, 0, 0)


class TestCancel:
    def test_what_is_queued_stays_queued_untagged_and_is_finished_by_the_workers_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 6)
        pk = queued_by(harness, pipeline, failed=pks[:2], disabled=pks[2:4])
        assert harness.tagged() == 4
        harness.do(services.cancel, pk)
        harness.run()
        assert harness.state(pk) == "cancelled"
        assert [pipeline.status(one) for one in pks] == [
            "pending",
            "pending",
            "pending",
            "pending",
            "ready",
            "ready",
        ]
        assert {task["status"] for task in pipeline.tasks()} == {"pending"}
        assert harness.tagged() == 0
        assert harness.counts(pk) == (6, 4, 0, 2)
        assert harness.find(pk).log_lines[-1].text == "Cancelled. 4 stay queued, and the workers finish them."
        pipeline.check_consistent()
        with login("DATABASE_WORKER_URL"):
            assert reconcile() == 0  # nothing is missing
        assert pipeline.work().claimed == 4
        for one in pks:
            pipeline.check_ready(one)

    def test_the_task_of_an_edit_is_no_more_the_jobs_EMB_2_R1(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        an_edit_is_untagged(harness, pipeline)

    def test_the_test_of_the_edit_notices_a_tag_that_stays_EMB_2_R1(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        with (
            mutant(
                " job_id = NULL,\n    next_attempt_at",
                "\n    next_attempt_at",
            ),
            pytest.raises(AssertionError),
        ):
            an_edit_is_untagged(harness, pipeline)

    def test_what_a_write_has_left_without_vector_stays_queued_R1(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 3)
        pipeline.owner.execute("UPDATE tools_tool SET description = 'By hand.' WHERE id = %s", [pks[0]])
        pipeline.owner.execute("DELETE FROM tools_toolembedding WHERE entity_id = %s", [pks[1]])
        pk = queued_by(harness, pipeline)
        harness.do(services.cancel, pk)
        harness.run()
        assert (harness.state(pk), harness.tagged()) == ("cancelled", 0)
        assert {task["entity_id"] for task in pipeline.tasks()} == {pks[0], pks[1]}
        pipeline.work()
        for one in pks:
            pipeline.check_ready(one)

    def test_a_task_that_a_worker_has_in_hand_is_finished_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pks = ready_tools(pipeline, 2)
        pk = queued_by(harness, pipeline, failed=pks)
        gate = use("GatedEmbedder")
        with pipeline.paused_worker(gate):
            harness.do(services.cancel, pk)
            harness.run()
            assert harness.state(pk) == "cancelled"
        for one in pks:
            pipeline.check_ready(one)
        assert harness.find(pk).done == 2

    def test_a_running_job_ends_after_its_batch_and_resumes_to_the_same_end_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 9)
        harness.make("failed", *pks[:4])
        harness.make("disabled", *pks[4:8])
        pk = harness.start(batch_size=1)

        def cancel_half_way(context: Context) -> None:
            if context.cursor.get("queued") == 4 and harness.state(pk) == "running":
                # From elsewhere, as an operator does: this is in the middle of the batch's transaction.
                pipeline.owner.execute("UPDATE jobs_job SET state = 'cancelling' WHERE id = %s", [pk])

        with in_thread(lambda: harness.run(on_progress=once_committed(cancel_half_way))):
            pass
        assert harness.state(pk) == "cancelled"
        assert harness.tagged() == 0
        pipeline.check_consistent()
        assert "ready" in {pipeline.status(one) for one in pks}
        harness.do(services.resume, pk)
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (9, 8, 0, 1)
        for one in pks:
            pipeline.check_ready(one)

    def test_what_became_ready_before_the_cancel_counts_as_done_after_the_resume_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 5)
        harness.make("failed", *pks[:4])
        pk = harness.start(statuses=["failed"], batch_size=2, ahead=0)
        harness.run_until_queued()
        with login("DATABASE_WORKER_URL"):
            pipeline.owner.execute(
                "UPDATE embeddings_embeddingtask SET next_attempt_at = now() + interval '1 hour' WHERE entity_id = ANY(%s)",
                [pks[:2]],
            )
        pipeline.work()
        harness.do(services.cancel, pk)
        harness.run()
        assert [pipeline.status(one) for one in pks] == ["pending", "pending", "ready", "ready", "ready"]
        assert harness.counts(pk) == (4, 4, 0, 0)
        harness.do(services.resume, pk)
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (4, 4, 0, 0)

    def test_a_cancelled_retry_leaves_its_failures_to_the_workers_EMB_9(
        self, harness: JobHarness, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        pk, pks = poisoned(harness, pipeline, use)
        harness.do(services.retry_failed, pk)
        harness.run_until_queued()
        assert harness.find(pk).failed == 0
        harness.do(services.cancel, pk)
        harness.run()
        assert (harness.state(pk), harness.counts(pk)) == ("cancelled", (3, 3, 0, 0))
        assert pipeline.status(pks[2]) == "pending"
        use("HashEmbedder")
        pipeline.work()
        pipeline.check_ready(pks[2])
        harness.do(services.resume, pk)
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (3, 3, 0, 0)
        pipeline.check_ready(pks[2])


class TestKilled:
    @pytest.mark.parametrize("after", [True, False], ids=["after a commit", "before a commit"])
    def test_killed_in_every_batch_and_resumed_each_time_it_ends_as_if_never_killed_EMB_8_R9(
        self, harness: JobHarness, pipeline: Pipeline, *, after: bool
    ) -> None:
        pks = ready_tools(pipeline, 12)
        harness.make("failed", *pks[:5])
        harness.make("disabled", *pks[5:8])
        pk = harness.start(batch_size=2)

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
                harness.run(on_progress=hook)
                break
            except Killed:
                deaths += 1
                connection.close()
                harness.silence_runners()
                pipeline.work(batches=1)
                assert harness.state(pk) == ("lost" if harness.find(pk).resumes == 3 else "queued")
                harness.do(services.resume, pk)
        if harness.find(pk).is_active:
            harness.finish(pk)
        assert deaths >= 3
        assert (harness.state(pk), harness.counts(pk)) == ("succeeded", (12, 8, 0, 4))
        for one in pks:
            pipeline.check_ready(one)
        assert pipeline.tasks() == []

    def test_a_stop_gives_the_job_back_with_its_cursor_and_another_runner_goes_on_R18(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 6)
        harness.make("failed", *pks)
        pk = harness.start(batch_size=2)
        stop = threading.Event()
        harness.run(stop, lambda context: stop.set())
        job = harness.find(pk)
        assert (job.effective_state, job.claim_id, job.cursor["after"]) == ("queued", None, str(pks[1]))
        assert [task["attempts"] for task in pipeline.tasks() if task["status"] == "pending"] == [0, 0]
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (6, 6, 0, 0)

    def test_trouble_of_the_database_gives_it_back_and_an_unexpected_error_stands_in_the_log_alone_S15(
        self, harness: JobHarness, pipeline: Pipeline, caplog: pytest.LogCaptureFixture
    ) -> None:
        from django.db import OperationalError

        ready_tools(pipeline, 2)
        pk = harness.start()

        def trouble(_: Context) -> None:
            raise OperationalError("canceling statement due to lock timeout")

        for _ in range(4):
            with pytest.raises(OperationalError):
                harness.run(on_progress=trouble)
            assert harness.state(pk) == "queued"
        with pytest.raises(OperationalError):
            harness.run(on_progress=trouble)
        neutral = f"Something went wrong here. Those who run the portal find the cause in its log: job {pk}."
        assert (harness.state(pk), harness.find(pk).error) == ("failed", neutral)
        logged = f"Job {pk} (backfill_embeddings) failed."
        [record] = [one for one in caplog.records if one.getMessage() == logged]
        assert "canceling statement due to lock timeout" in str(record.exc_text)
        harness.do(services.resume, pk)

        def bug(_: Context) -> None:
            raise ZeroDivisionError("no such number")

        harness.run(on_progress=bug)
        assert (harness.state(pk), harness.find(pk).error) == ("failed", neutral)
        assert "ZeroDivisionError: no such number" in str(caplog.records[-1].exc_text)
        harness.do(services.resume, pk)
        assert harness.finish(pk) == "succeeded"
