"""Jobs at a terminal: exit codes, JSON, Ctrl-C, and what is said on the way."""

from __future__ import annotations

import io
import json
import signal
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command

from portal.jobs import services
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import CANNOT_EVER
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import poisoned, ready_tools
from tests.support.waiting import wait_until

Start = Callable[..., Any]


@pytest.fixture
def command(pipeline: Pipeline, processes: Start) -> Callable[..., Any]:
    """Starts `manage.py NAME --tenant OURS …`."""
    [row] = pipeline.all("SELECT slug FROM tenancy_tenant WHERE id = %s", pipeline.tenant_id)

    def start(name: str, *arguments: str, **environment: str) -> Any:
        return processes("manage.py", name, "--tenant", row["slug"], *arguments, **environment)

    return start


def ended(child: Any, pipeline: Pipeline | None = None) -> tuple[int, str, str]:
    """Code, stdout and stderr; with a pipeline, its due tasks are embedded meanwhile."""
    if pipeline:
        wait_until(lambda: pipeline.work() and child.poll() is not None, "the command ends")
    said, errors = child.communicate(timeout=60)
    return child.returncode, said, errors


def test_a_backfill_is_a_job_that_the_command_follows_to_its_end_EMB_8(
    harness: JobHarness, pipeline: Pipeline, command: Start
) -> None:
    pks = ready_tools(pipeline, 4)
    harness.make("failed", *pks[:2])
    code, said, errors = ended(
        command("backfill_embeddings", "--wait", "--json", "--batch-size", "1"), pipeline
    )
    found = json.loads(said)
    assert code == 0, errors
    job = harness.find(uuid.UUID(found.pop("job")))
    assert found == {
        "queued": 2, "total": 4, "ready": 4, "pending": 0, "failed": 0, "disabled": 0, "blank": 0, "missing": 0,
        "state": "succeeded",
    }  # fmt: skip
    assert (job.requested_by, job.done, job.skipped) == ("command line", 2, 2)
    assert "4 of 4" in errors  # no terminal here: a line instead of a bar


def test_without_wait_it_queues_all_and_leaves_the_job_to_a_worker_which_a_second_run_goes_on_with_EMB_8(
    harness: JobHarness, pipeline: Pipeline, command: Start
) -> None:
    harness.make("failed", *ready_tools(pipeline, 3))
    first = json.loads(ended(command("backfill_embeddings", "--json", "--no-progress"))[1])
    assert (first["queued"], first["pending"], first["state"]) == (3, 3, "queued")
    assert harness.find(uuid.UUID(first["job"])).stage == "embedding"
    before = harness.snapshot()
    second = json.loads(ended(command("backfill_embeddings", "--json", "--no-progress"))[1])
    assert (second["queued"], second["state"]) == (0, "succeeded")
    assert harness.snapshot() == before
    assert harness.finish(uuid.UUID(first["job"])) == "succeeded"


def test_ctrl_c_finishes_the_batch_and_says_how_to_go_on_which_works_EMB_8(
    harness: JobHarness, pipeline: Pipeline, command: Start
) -> None:
    pks = ready_tools(pipeline, 30)
    harness.make("failed", *pks)
    child = command("backfill_embeddings", "--wait", "--no-progress", "--batch-size", "1", "--rate", "20")
    [job] = wait_until(lambda: _jobs(harness), "the job is there")
    wait_until(lambda: harness.find(job.pk).cursor.get("queued", 0) >= 3, "it is under way")
    child.send_signal(signal.SIGINT)
    code, _, errors = ended(child)
    assert code == 130, errors
    resume = f"manage.py backfill_embeddings --resume {job.pk}"
    assert resume in errors
    assert harness.state(job.pk) == "cancelled"
    queued = [pk for pk in pks if pipeline.status(pk) == "pending"]
    assert {pipeline.status(pk) for pk in set(pks) - set(queued)} == {"failed"}
    assert (len(queued), harness.tagged()) == (harness.find(job.pk).done, 0)
    pipeline.check_consistent()
    code, said, errors = ended(command(*resume.split()[1:], "--wait", "--json", "--no-progress"), pipeline)
    assert code == 0, errors
    assert json.loads(said)["ready"] == 30
    assert harness.counts(job.pk) == (30, 30, 0, 0)


def _jobs(harness: JobHarness) -> list[Any]:
    with harness.in_tenant():
        return list(services.jobs())


def test_told_to_end_it_leaves_the_job_to_a_worker_R18(
    harness: JobHarness, pipeline: Pipeline, command: Start
) -> None:
    harness.make("failed", *ready_tools(pipeline, 30))
    child = command("backfill_embeddings", "--wait", "--no-progress", "--batch-size", "1", "--rate", "20")
    [job] = wait_until(lambda: _jobs(harness), "the job is there")
    wait_until(lambda: harness.find(job.pk).cursor.get("queued", 0) >= 3, "it is under way")
    child.send_signal(signal.SIGTERM)
    code, _, errors = ended(child)
    assert (code, harness.state(job.pk)) == (0, "queued"), errors
    assert f"Job {job.pk} follows it from here" in errors
    assert "No worker is consuming queue embeddings" in errors
    assert harness.tagged() == harness.find(job.pk).cursor["queued"]


def test_it_waits_for_what_a_write_has_asked_for_too_EMB_8(pipeline: Pipeline, command: Start) -> None:
    pipeline.add("Has a task already, which is no part of the job.")
    code, said, errors = ended(command("backfill_embeddings", "--wait", "--json", "--no-progress"), pipeline)
    counts = json.loads(said)
    assert (code, counts["queued"], counts["pending"], counts["ready"]) == (0, 0, 0, 1), errors


def test_failures_are_summed_up_and_the_exit_code_says_so_EMB_8(
    pipeline: Pipeline, command: Start, use: Callable[..., Any]
) -> None:
    pipeline.add("Good.")
    pipeline.add("A permanent poison.")
    pipeline.owner.execute("TRUNCATE tools_toolembedding, embeddings_embeddingtask")
    use("PoisonEmbedder")
    code, said, errors = ended(command("backfill_embeddings", "--wait", "--json", "--no-progress"), pipeline)
    assert code == 1
    assert f"1 failed: {CANNOT_EVER.public} (tool_2)" in errors
    assert f"manage.py jobs retry {json.loads(said)['job']}" in errors


class TestWithoutAProcess:
    """What needs no process of its own: the commands as functions."""

    @pytest.fixture
    def say(self, pipeline: Pipeline) -> Callable[..., tuple[int, str, str]]:
        [row] = pipeline.all("SELECT slug FROM tenancy_tenant WHERE id = %s", pipeline.tenant_id)

        def call(name: str, *arguments: str) -> tuple[int, str, str]:
            out, err = io.StringIO(), io.StringIO()
            try:
                call_command(name, *arguments, tenant=row["slug"], stdout=out, stderr=err)
                code = 0
            except SystemExit as ended:
                code = int(str(ended.code))
            return code, out.getvalue(), err.getvalue()

        return call

    def test_refusals_have_their_codes_and_store_nothing(self, harness: JobHarness, say: Start) -> None:
        for code, arguments, sentence in (
            (2, ("backfill_embeddings", "--status", "broken"), "A list of these"),
            (2, ("backfill_embeddings", "--resume", "x"), "There is no job"),
            (2, ("jobs", "show", str(uuid.uuid4())), "There is no job"),
            (2, ("jobs", "cancel"), "Which job?"),
        ):
            found = say(*arguments)
            assert (found[0], sentence in found[2]) == (code, True), arguments
        assert _jobs(harness) == []

    def test_a_dry_run_says_how_many_and_starts_nothing_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline, say: Start
    ) -> None:
        harness.make("failed", *ready_tools(pipeline, 1))
        code, said, _ = say("backfill_embeddings", "--dry-run", "--json", "--status", "failed,disabled")
        assert (code, json.loads(said)["to_do"]) == (0, 1)
        assert _jobs(harness) == []

    def test_a_detached_job_is_listed_refused_a_second_time_and_cancelled_EMB_8(
        self, harness: JobHarness, pipeline: Pipeline, say: Start
    ) -> None:
        harness.make("failed", *ready_tools(pipeline, 1))
        code, said, errors = say("backfill_embeddings", "--detach", "--json")
        job = json.loads(said)["job"]
        assert (code, harness.state(uuid.UUID(job))) == (0, "queued")
        assert "No worker is consuming queue jobs" in errors
        harness.claim()
        code, _, errors = say("backfill_embeddings", "--no-progress")
        assert (code, f"manage.py jobs watch {job}" in errors) == (3, True)
        code, _, errors = say("jobs", "resume", job)
        assert (code, "this one is running" in errors) == (3, True)
        code, said, _ = say("jobs", "cancel", job, "--json")
        assert (code, json.loads(said)["state"]) == (0, "cancelling")
        code, said, _ = say("jobs", "list", "--json", "--state", "cancelling")
        assert [one["id"] for one in json.loads(said)["jobs"]] == [job]
        code, said, _ = say("jobs", "list")
        assert (code, job in said, "cancelling" in said) == (0, True, True)

    def test_what_failed_is_shown_by_its_reason_and_retried_EMB_9(
        self, harness: JobHarness, pipeline: Pipeline, say: Start, use: Callable[..., Any]
    ) -> None:
        pk, _ = poisoned(harness, pipeline, use)
        code, said, _ = say("jobs", "show", str(pk), "--json")
        shown = json.loads(said)
        assert (code, shown["state"], shown["failed"]) == (0, "partial", 1)
        assert shown["failures"] == [{"error": CANNOT_EVER.public, "count": 1, "labels": ["tool_3"]}]
        assert say("jobs", "watch", str(pk), "--no-progress")[0] == 1
        code, said, _ = say("jobs", "retry", str(pk), "--json")
        assert (code, json.loads(said)["state"]) == (0, "queued")
        use("HashEmbedder")
        assert harness.finish(pk) == "succeeded"
        code, said, _ = say("jobs", "watch", str(pk), "--json", "--no-progress")
        assert (code, json.loads(said)["state"]) == (0, "succeeded")
