"""D18, EMB-8: a job whose runner is killed goes on by itself, three times; then it waits for a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from portal.jobs import services
from tests.support.embeddings.pipeline import Pipeline
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import ready_tools
from tests.support.waiting import wait_until

RUNNER = ("manage.py", "job_worker")
Start = Callable[..., Any]


@pytest.mark.slow  # it waits for three silent runners
def test_a_job_whose_runners_are_killed_goes_on_by_itself_three_times_and_then_waits_for_a_person_EMB_8(
    harness: JobHarness, pipeline: Pipeline, processes: Start, settings: Any
) -> None:
    settings.JOB_LOST_SECONDS = 3
    pks = ready_tools(pipeline, 30)
    harness.make("failed", *pks)
    pk = harness.start(batch_size=1, rate=4)
    queued = 0
    for resumes in range(4):
        runner = processes(*RUNNER)
        wait_until(
            lambda queued=queued: harness.find(pk).cursor.get("queued", 0) > queued, "it goes on from there"
        )
        assert (harness.state(pk), harness.find(pk).resumes) == ("running", resumes)
        runner.kill()
        runner.wait()
        queued = harness.find(pk).cursor["queued"]
    wait_until(lambda: harness.state(pk) == "lost", "it is lost")
    runner = processes(*RUNNER)
    lost = wait_until(lambda: (job := harness.find(pk)).state == "lost" and job, "that is stored")
    assert (lost.can_resume, lost.cursor["queued"]) == (True, queued)
    said = [line.text for line in lost.log_lines]
    assert said == [
        *(
            f"The worker stopped reporting. The job is resumed from where it stopped (time {number} of 3)."
            for number in (1, 2, 3)
        ),
        "The worker stopped reporting. The job has been resumed 3 times already. It waits until somebody resumes it.",
    ]
    harness.do(services.resume, pk)
    assert harness.work_until_over(pk) == "succeeded"
    assert harness.counts(pk) == (30, 30, 0, 0)
    for one in pks:
        pipeline.check_ready(one)
