"""A job's badge, percentage, pill and messages never contradict its state (UI.md 3.6)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from embeddings.providers import ProviderError
from portal.jobs.context import Context
from portal.jobs.models import Job, JobState
from portal.resilience import circuit_breaker
from portal.resilience.models import Circuit
from tests.support.pages.job_pages import HTMX, end, failures, job_page, page
from tools.models import Tool

Make = Callable[..., Job]


def test_whatever_tells_of_jobs_brings_the_pill_along_so_that_they_agree_UI_3_6(
    operator_client: Client, running: Callable[..., Context]
) -> None:
    context = running(done=1)
    one = '<span id="jobs-count" hx-swap-oob="true">1 job</span>'
    for path in (f"/jobs/{context.job.pk}/?n=1", "/jobs/?n=1", "/jobs/pill/"):
        assert one in page(operator_client, path, **HTMX), path
    end(context, JobState.FAILED)
    assert "0 jobs" in job_page(operator_client, context, "?n=2", **HTMX)
    resumed = operator_client.post(f"/jobs/{context.job.pk}/resume/", headers=HTMX).content.decode()
    assert one in resumed
    assert "every 15s, poll-now" in resumed


def test_the_pill_says_where_it_has_not_counted_all_UI_3_6(viewer_client: Client, start: Make) -> None:
    job = start()
    Job.objects.bulk_create(
        Job(kind="sync_source", title=f"Sync {n}", requested_by="ada", concurrency_key=str(n))
        for n in range(25)
    )
    assert "more than 20 jobs" in page(viewer_client, f"/jobs/{job.pk}/")


def test_what_is_said_when_a_job_is_changed_is_still_true_when_it_is_over_UI_3_6(
    operator_client: Client, running: Callable[..., Context], start: Make
) -> None:
    context = running(done=97, failures=failures("a"))
    end(context, JobState.PARTIAL)
    operator_client.post(f"/jobs/{context.job.pk}/retry/")
    job = Job.objects.claim(kinds=["backfill_embeddings"], pk=context.job.pk)
    assert job is not None
    end(Context(job, threading.Event()), JobState.SUCCEEDED)
    html = job_page(operator_client, context)  # where the message stays
    assert "Succeeded" in html
    for present in ("are retried", "continues where", "The job stops", "is queued"):
        assert present not in html
    queued = start()
    operator_client.post(f"/jobs/{queued.pk}/cancel/")  # over at once
    assert "The job was cancelled." in page(operator_client, f"/jobs/{queued.pk}/")


@pytest.mark.parametrize(
    ("total", "outcome", "percent", "line"),
    [
        (None, JobState.SUCCEEDED, "100 %", "Nothing to count"),  # a plan was made
        (None, JobState.FAILED, "nothing counted", "Nothing was counted"),  # the source could not be read
        (0, JobState.FAILED, "nothing counted", "Nothing was counted"),
        (0, JobState.SUCCEEDED, "100 %", "Nothing to count"),
        (4, JobState.FAILED, "0 %", "0 of 4"),
    ],
)
def test_no_percentage_contradicts_the_state_UI_3_6(
    viewer_client: Client,
    running: Callable[..., Context],
    total: int | None,
    outcome: JobState,
    percent: str,
    line: str,
) -> None:
    context = running()
    Job.objects.update(total=total)
    end(context, outcome)
    assert f">{percent}</small>" in page(viewer_client, "/jobs/")
    assert f'<p class="job-line">{line}</p>' in job_page(viewer_client, context)


def test_a_job_that_counts_nothing_yet_has_no_percentage_UI_3_6(
    viewer_client: Client, running: Callable[..., Context]
) -> None:
    context = running()
    Job.objects.update(total=0)
    assert ">not counted yet</small>" in page(viewer_client, "/jobs/")
    assert "Not counted yet" in job_page(viewer_client, context)


def test_a_job_that_waits_again_shows_neither_what_is_done_nor_how_fast_and_its_end_ends_the_log_UI_3_6(
    viewer_client: Client, running: Callable[..., Context]
) -> None:
    context = running(done=40, stage="embedding")
    long_ago = timezone.now() - timedelta(hours=1)
    Job.objects.update(claimed_at=long_ago)
    shown = job_page(viewer_client, context)
    assert "Embedding</span>" in shown
    assert "/s" in shown
    Job.objects.update(heartbeat_at=long_ago)  # its runner died, so it waits for another one
    waiting = job_page(viewer_client, context)
    assert "Queued" in waiting
    assert "Embedding</span>" not in waiting
    assert '<p class="job-line">40 of 100</p>' in waiting


def test_the_log_of_a_job_that_is_over_expects_nothing_more_UI_3_6(
    operator_client: Client, running: Callable[..., Context]
) -> None:
    context = running()
    assert "Nothing has been logged yet." in job_page(operator_client, context)
    end(context, JobState.SUCCEEDED)
    assert "Nothing was logged." in job_page(operator_client, context)


def test_no_page_promises_another_try_of_a_provider_that_nobody_asks_EMB_5(
    viewer_client: Client, running: Callable[..., Context], make_tool: Callable[..., Tool], settings: Any
) -> None:
    context, tool = running(done=1), make_tool()
    circuit_breaker.record_failure(
        settings.EMBEDDING_MODEL, "passage", ProviderError("connection refused"), at_once=True
    )
    Circuit.objects.update(next_try=timezone.now() - timedelta(minutes=5))
    assert "The next text or query tries it again." in job_page(viewer_client, context)
    settings.EMBEDDING_PROVIDER = "disabled"
    for path in (f"/jobs/{context.job.pk}/", f"/tools/{tool.pk}/"):
        assert "has been down since" not in page(viewer_client, path)
    html = page(viewer_client, f"/tools/{tool.pk}/")
    assert "Embedding is switched off" in html
    assert "data-poll" not in html.partition('id="embedding-card"')[2].partition(">")[0]
