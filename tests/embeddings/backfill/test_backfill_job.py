"""EMB-8, R9: what a backfill asks for, in which order and how fast, and what it leaves alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from portal.jobs import services
from portal.jobs.context import Context
from portal.jobs.errors import AlreadyRunning, InvalidArguments
from portal.jobs.models import Job
from tests.support.embeddings.pipeline import Pipeline
from tests.support.imports.documents import document, import_document
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import queued_by, ready_tools
from tests.support.waiting import wait_until
from tools.catalogue.embedding_jobs import BACKFILL


class TestScan:
    def test_what_is_wrong_is_embedded_and_counted_and_what_is_right_is_skipped_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 7)
        harness.make("failed", *pks[:2])
        harness.make("disabled", pks[2])
        pipeline.owner.execute("DELETE FROM tools_toolembedding WHERE entity_id = %s", [pks[3]])
        pk = harness.start(batch_size=2)
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (7, 4, 0, 3)
        assert [line.text for line in harness.find(pk).log_lines] == [
            "Queued 4; 3 need nothing.",
            "4 done, 0 failed.",
        ]
        for tool in pks:
            pipeline.check_ready(tool)

    def test_a_job_over_a_complete_catalogue_writes_locks_and_embeds_nothing_EMB_8_R9(
        self, harness: JobHarness, pipeline: Pipeline, embedder: Any
    ) -> None:
        ready_tools(pipeline, 5)
        before, calls = harness.snapshot(), len(embedder.calls)
        pk = harness.start(batch_size=2)
        harness.run()
        assert (harness.state(pk), harness.counts(pk)) == ("succeeded", (5, 0, 0, 5))
        assert pipeline.work().claimed == 0
        assert (harness.snapshot(), len(embedder.calls)) == (before, calls)

    @pytest.mark.parametrize(
        "statuses", [["failed"], ["disabled"], ["blank"], ["outdated"], ["failed", "disabled"]]
    )
    def test_only_the_statuses_asked_for_are_looked_at_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline, statuses: list[str]
    ) -> None:
        pks = ready_tools(pipeline, 5)
        harness.make("failed", pks[0])
        harness.make("disabled", pks[1])
        pipeline.owner.execute("DELETE FROM tools_toolembedding WHERE entity_id = %s", [pks[2]])
        pipeline.owner.execute(
            "UPDATE tools_toolembedding SET model = 'older' WHERE entity_id = %s", [pks[3]]
        )
        of = {"failed": pks[0], "disabled": pks[1], "blank": pks[2], "outdated": pks[3]}
        pk = harness.start(statuses=statuses)
        with harness.in_tenant():
            found = services.estimate(BACKFILL, {"statuses": statuses})
        assert found.to_do == len(statuses)
        harness.run_until_queued()
        assert {task["entity_id"] for task in pipeline.tasks() if task["status"] == "pending"} == {
            of[status] for status in statuses
        }
        assert harness.state(pk) == "queued"

    def test_a_source_and_a_limit_bound_what_is_asked_for_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        from portal.tenancy.models import Tenant

        pipeline.add("By hand.")
        imported = Tenant(pk=pipeline.tenant_id)
        import_document(imported, document("fish", title="Zoo", fish="Feeds it.", bird="Feeds that."), "zoo")
        pipeline.work()
        [*every] = pipeline.all("SELECT id, source_id FROM tools_tool")
        harness.make("failed", *(row["id"] for row in every))
        of_source = {row["id"] for row in every if row["source_id"]}
        assert 0 < len(of_source) < len(every)
        pk = harness.start(source="zoo")
        assert harness.finish(pk) == "succeeded"
        assert {row["id"] for row in every if pipeline.status(row["id"]) == "ready"} == of_source
        harness.make("failed", *(row["id"] for row in every))
        limited = harness.start(limit=1, batch_size=1)
        assert harness.finish(limited) == "succeeded"
        assert harness.find(limited).done == 1
        assert sum(pipeline.status(row["id"]) == "ready" for row in every) == 1

    def test_a_dry_run_counts_and_writes_nothing_EMB_8(self, harness: JobHarness, pipeline: Pipeline) -> None:
        pks = ready_tools(pipeline, 4)
        harness.make("failed", pks[0])
        before = harness.snapshot()
        with harness.in_tenant():
            found = services.estimate(BACKFILL, {"statuses": ["failed", "outdated"]})
            assert (found.total, found.to_do, found.measured) == (4, 1, False)
            assert services.jobs().count() == 0
        assert harness.snapshot() == before

    def test_so_many_wait_at_a_time_EMB_8(self, harness: JobHarness, pipeline: Pipeline) -> None:
        """With nobody who embeds, the scan stops at the bound; the rest is queued as soon as there is room."""
        pks = ready_tools(pipeline, 6)
        harness.make("failed", *pks)
        pk = harness.start(batch_size=1, ahead=2)
        with harness.running():
            wait_until(lambda: harness.tagged() == 2, "two are queued")
            assert harness.find(pk).stage == "queueing"
            assert harness.work_until_over(pk) == "succeeded"
        assert harness.counts(pk) == (6, 6, 0, 0)

    def test_a_rate_is_not_exceeded_EMB_8(self, harness: JobHarness, pipeline: Pipeline) -> None:
        harness.make("failed", *ready_tools(pipeline, 6))
        harness.start(rate=4)
        queued: list[int] = []
        begun, stop = time.monotonic(), threading.Event()

        def look(context: Context) -> None:
            queued.append(context.cursor["queued"])
            if context.stage == "embedding":
                stop.set()

        harness.run(stop, look)
        assert queued[0] == 4  # a second's worth at most, although a batch may be larger
        assert queued[-1] == 6
        assert time.monotonic() - begun >= 1  # the pause after it

    @pytest.mark.parametrize(
        ("args", "wrong"),
        [
            ({"statuses": ["broken"]}, "statuses"), ({"statuses": "failed"}, "statuses"), ({"statuses": [[]]}, "statuses"),
            ({"source": "none"}, "source"), ({"source": 7}, "source"), ({"source": "a\0"}, "source"),
            ({"limit": 0}, "limit"), ({"limit": True}, "limit"), ({"rate": 0}, "rate"), ({"rate": "fast"}, "rate"),
            ({"batch_size": 10**9}, "batch_size"), ({"ahead": -1}, "ahead"), ({"color": "red"}, "color"),
        ],
    )  # fmt: skip
    def test_wrong_arguments_are_named_and_nothing_is_stored(
        self, harness: JobHarness, args: dict[str, Any], wrong: str
    ) -> None:
        with harness.in_tenant(), pytest.raises(InvalidArguments) as refused:
            services.start(BACKFILL, args, by="test")
        assert list(refused.value.errors) == [wrong]
        with harness.in_tenant():
            assert services.jobs().count() == 0

    def test_a_second_scan_is_refused_until_the_first_has_queued_all_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        harness.make("failed", *ready_tools(pipeline, 2))
        first = harness.start()
        with pytest.raises(AlreadyRunning, match=str(first)):
            harness.start(statuses=["failed"])
        with harness.running():
            wait_until(lambda: harness.find(first).stage == "embedding", "all is queued")
            before = harness.snapshot()
            second = harness.start()
            harness.run()
            # It asked for nothing, as the first one has.
            assert (harness.state(second), harness.counts(second)) == ("succeeded", (2, 0, 0, 2))
            assert harness.snapshot() == before
            harness.work_until_over(first)
        assert harness.counts(first) == (2, 2, 0, 0)

    def test_with_no_provider_nothing_is_asked_for_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        use("disabled")
        pipeline.add("One.")
        pk = harness.start()
        harness.run()
        assert (harness.state(pk), harness.counts(pk)) == ("succeeded", (1, 0, 0, 1))


class TestEdits:
    def test_an_edit_during_a_backfill_is_embedded_first_and_counts_as_done_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline, embedder: Any
    ) -> None:
        pks = ready_tools(pipeline, 40)
        harness.make("failed", *pks)
        pk = queued_by(harness, pipeline)
        pipeline.edit(pks[20], "Edited during the backfill.")
        pipeline.work(batches=1)
        pipeline.check_ready(pks[20])
        assert "Edited during the backfill." in embedder.calls[40]
        assert sum(pipeline.status(one) == "ready" for one in pks) == 1
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (40, 40, 0, 0)

    def test_a_tool_that_is_deleted_meanwhile_has_nothing_left_to_do(
        self, harness: JobHarness, pipeline: Pipeline
    ) -> None:
        pks = ready_tools(pipeline, 3)
        pk = queued_by(harness, pipeline, failed=pks)
        pipeline.delete(pks[1])
        assert harness.finish(pk) == "succeeded"
        assert harness.counts(pk) == (3, 3, 0, 0)


def test_another_tenants_jobs_do_not_exist_and_do_not_stand_in_the_way_S1(
    harness: JobHarness, pipeline: Pipeline, make_tenant: Callable[..., Any]
) -> None:
    pk = harness.start()
    other = JobHarness(Pipeline(make_tenant().pk, pipeline.owner))
    other.start()
    for verb in (services.find, services.cancel, services.resume, services.retry_failed):
        with pytest.raises(Job.DoesNotExist):
            other.do(verb, pk)
    with other.in_tenant():
        assert services.jobs().count() == services.active().count() == 1
        assert list(services.failures(pk)) == services.failures_by_error(pk) == []
    for _ in range(2):  # a runner takes both, each in its tenant
        harness.run()
    assert (
        harness.state(pk),
        pipeline.all("SELECT count(*) AS n FROM jobs_job WHERE state = 'succeeded'")[0]["n"],
    ) == ("succeeded", 2)
