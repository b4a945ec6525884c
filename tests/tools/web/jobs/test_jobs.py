"""The pages of jobs (UI.md 3.6, EMB-8, EMB-9), with jobs in every state, put there by the runner's own verbs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from embeddings.providers import ProviderError
from portal.jobs import services
from portal.jobs.context import Context
from portal.jobs.models import Job, JobState
from portal.resilience import circuit_breaker
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.pages.job_pages import HTMX, end, failures, job_page, page
from tools.models import Tool

Make = Callable[..., Job]


# --- One job ------------------------------------------------------------------------------------------------------------
def test_a_jobs_log_and_what_failed_of_hidden_tools_are_for_operators_SEC_4(
    operator_client: Client, viewer_client: Client, running: Callable[..., Context]
) -> None:
    context = running(failures=failures("too long"), log="Begun.")
    for client, shown in ((operator_client, True), (viewer_client, False)):
        html = job_page(client, context)
        assert [word in html for word in ("Begun.", "too long", "tool_0")] == [shown] * 3
        assert ("The log is shown to operators" in html) is not shown


def test_a_running_job_shows_counts_and_asks_again_by_itself_UI_3_6_EMB_8(
    operator_client: Client, running: Callable[..., Context]
) -> None:
    context = running(
        done=40, skipped=2, stage="embedding", failures=failures("too long", "too long"), log="Begun."
    )
    Job.objects.update(claimed_at=timezone.now() - timedelta(seconds=2))
    html = job_page(operator_client, context)
    assert "44 of 100 · 2 failed · 2 skipped" in html
    assert "/s · about" in html
    assert '<progress class="progress-line" max="100" value="44"' in html
    assert "<title>44 % Backfill of embeddings · Tool Portal</title>" in html
    assert "Embedding</span>" in html
    assert "Begun." in html
    assert 'hx-trigger="every 2s, poll-now"' in html
    assert f'hx-get="/jobs/{context.job.pk}/?n=1&amp;p=44"' in html
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in html
    assert '<span class="error-text">too long</span></td><td class="text-end">2</td>' in html
    assert "tool_0, tool_1" in html
    assert not re.search(r" style=|<style|hx-on| onclick|javascript:", html)


def test_the_fragment_of_a_poll_carries_the_title_and_ends_the_polling_with_the_job_UI_3_0(
    viewer_client: Client, running: Callable[..., Context]
) -> None:
    context = running(done=10)
    html = job_page(viewer_client, context, "?n=20&p=9", **HTMX)
    assert "<html" not in html
    assert "<title>10 % Backfill of embeddings · Tool Portal</title>" in html
    assert 'hx-trigger="every 5s, poll-now"' in html
    context.batch(done=100)
    end(context, JobState.SUCCEEDED)
    html = job_page(viewer_client, context, "?n=21&p=10", **HTMX)
    assert "<title>Succeeded: Backfill of all embeddings · Tool Portal</title>" in html
    assert "hx-trigger" not in html.partition('id="job"')[2].partition(">")[0]
    assert "http-equiv" not in job_page(viewer_client, context)


@pytest.mark.parametrize(
    ("before", "done", "spoken"),
    [(24, 26, "25 %"), (26, 49, ""), (49, 80, "75 %"), (75, 99, ""), (0, 0, ""), (99, 100, "100 %")],
)
def test_only_quarters_are_spoken_UI_3_6(
    viewer_client: Client, running: Callable[..., Context], before: int, done: int, spoken: str
) -> None:
    html = job_page(viewer_client, running(done=done), f"?n=1&p={before}", **HTMX)
    said = f'<span hx-swap-oob="innerHTML:#announce">Backfill of embeddings: {spoken} done.</span>'
    assert (said in html) if spoken else ("#announce" not in html)


def test_a_lost_job_says_so_and_offers_resume_and_no_bar_that_moves_UI_3_6(
    operator_client: Client, running: Callable[..., Context]
) -> None:
    context = running(done=40)
    Job.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=3600), resumes=3)
    html = job_page(operator_client, context)
    assert "The worker of this job stopped reporting." in html
    assert "already resumed automatically 3 times" in html
    assert "<dt>Duration</dt>" not in html
    assert "hx-trigger" not in html.partition('id="job"')[2].partition(">")[0]
    assert operator_client.post(f"/jobs/{context.job.pk}/resume/").status_code == 302
    assert services.find(context.job.pk).effective_state == "queued"
    html = job_page(operator_client, context)
    assert "The job was queued to continue where it stopped." in html
    assert "40 of 100" in html


def test_a_job_that_was_resumed_by_itself_says_how_often_on_its_page_in_its_log_and_in_the_workers_D18(
    operator_client: Client, running: Callable[..., Context], caplog: pytest.LogCaptureFixture
) -> None:
    context = running(done=40)
    Job.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=3600))
    Job.objects.take_up_lost()
    assert f"Job {context.job.pk} (backfill_embeddings): The worker stopped reporting." in caplog.text
    html = job_page(operator_client, context)
    assert "resumed automatically from where it stopped (1 of 3)" in html
    assert "The job is resumed from where it stopped (time 1 of 3)." in html
    assert 'id="job-resume"' not in html


def test_beyond_the_jobs_that_a_tenant_may_have_the_form_says_what_to_do_SEC_5(
    operator_client: Client, settings: Any
) -> None:
    settings.JOB_MAX_ACTIVE = 0
    answer = operator_client.post("/jobs/new/", {"statuses": "all", "start": ""})
    assert answer.status_code == 422
    assert "Wait until some have ended, or cancel some." in answer.content.decode()
    assert not Job.objects.exists()


def test_cancel_asks_first_without_javascript_too_and_then_says_that_the_batch_is_finished_UI_3_6(
    operator_client: Client, running: Callable[..., Context]
) -> None:
    context = running(done=40)
    path = f"/jobs/{context.job.pk}/cancel/"
    question = page(operator_client, path)
    assert "Cancel this job?" in question
    assert "Keep running" in question
    assert "<html" not in page(operator_client, path, **HTMX)
    assert services.find(context.job.pk).effective_state == "running"
    assert operator_client.post(path)["Location"] == f"/jobs/{context.job.pk}/"
    html = job_page(operator_client, context)
    assert "The cancellation was requested." in html
    assert "The job stops after the current batch." in html.partition('id="job"')[2]
    assert "Cancelling" in html
    assert 'id="job-cancel"' not in html
    end(context, JobState.SUCCEEDED)
    html = job_page(operator_client, context)
    assert "Cancelled" in html
    assert 'id="job-resume"' in html


def test_what_failed_can_be_retried_and_what_is_over_cannot_be_cancelled_UI_3_6_EMB_9(
    operator_client: Client, running: Callable[..., Context]
) -> None:
    context = running(done=97, failures=failures("a", "b", "b"))
    end(context, JobState.PARTIAL)
    html = job_page(operator_client, context)
    assert "Retry failed (3)" in html
    assert html.index(">b</span>") < html.index(">a</span>")  # the most frequent reason first
    operator_client.post(f"/jobs/{context.job.pk}/resume/")
    assert "Only a job that was cancelled, lost or failed can go on" in job_page(operator_client, context)
    answer = operator_client.post(f"/jobs/{context.job.pk}/retry/", headers=HTMX)
    assert "The failed items were queued again." in answer.content.decode()
    assert services.find(context.job.pk).effective_state == "queued"


def test_a_job_that_could_not_go_on_says_why_UI_3_6(
    operator_client: Client, running: Callable[..., Context]
) -> None:
    context = running(done=1)
    end(context, JobState.FAILED, "The document says <b>broken</b>.")
    html = job_page(operator_client, context)
    assert "The job failed." in html
    assert "The document says &lt;b&gt;broken&lt;/b&gt;." in html
    assert 'id="job-resume"' in html


def test_a_queue_without_a_worker_is_named_with_its_command_UI_3_6(
    viewer_client: Client, start: Make, admin_database: psycopg.Connection[Any]
) -> None:
    job = start()
    for path in ("/jobs/", f"/jobs/{job.pk}/"):
        html = page(viewer_client, path)
        for queue, command in (("embeddings", "embed_worker"), ("jobs", "job_worker")):
            assert f"No worker is consuming queue {queue}." in html
            assert f"python manage.py {command}" in html
    try:
        for queue in ("embeddings", "jobs"):
            admin_database.execute(
                "INSERT INTO jobs_workerheartbeat (id, queue, host, pid, at) VALUES (gen_random_uuid(), %s, 'here', 1, now())",
                [queue],
            )
        for path in ("/jobs/", f"/jobs/{job.pk}/"):
            assert "No worker" not in page(viewer_client, path)
    finally:
        admin_database.execute("DELETE FROM jobs_workerheartbeat")


def test_a_provider_that_is_down_is_named_while_somebody_waits_for_it_EMB_5(
    viewer_client: Client, running: Callable[..., Context], make_tool: Callable[..., Tool], settings: Any
) -> None:
    context, tool = running(done=1), make_tool()
    circuit_breaker.record_failure(
        settings.EMBEDDING_MODEL, "passage", ProviderError("connection refused"), at_once=True
    )
    circuit_breaker.record_failure(
        "a model without a slot", "passage", ProviderError("elsewhere"), at_once=True
    )
    for path in (f"/jobs/{context.job.pk}/", f"/tools/{tool.pk}/", f"/tools/{tool.pk}/embedding/"):
        html = page(viewer_client, path)
        assert f"The provider of {settings.EMBEDDING_MODEL} has been down since" in html
        assert "The embedding provider did not return a usable vector." in html
        assert "connection refused" not in html
        assert "elsewhere" not in html
    end(context, JobState.SUCCEEDED)
    assert "has been down since" not in job_page(viewer_client, context)


# --- The list and the pill ----------------------------------------------------------------------------------------------
def test_the_list_shows_what_is_not_over_first_and_filters_by_kind_state_and_person_UI_3_6(
    operator_client: Client, running: Callable[..., Context], make_tool: Callable[..., Tool]
) -> None:
    over = running(by="ada", total=100, done=98, skipped=1, failures=failures("x"))
    end(over, JobState.PARTIAL)
    me = operator_client.session["_auth_user_id"]
    mine = get_user_model().objects.get(pk=me).get_username()
    services.start("refresh_embeddings", {"ids": [str(make_tool().pk)]}, by=mine)
    html = page(operator_client, "/jobs/")
    assert html.index("Refresh of 1 tool") < html.index("Backfill of all embeddings")
    assert ">98</td>" in html
    assert '<span class="error-text">1</span></td>' in html
    assert "every 2s" in html
    assert f"Refresh of embeddings · {mine}" in html
    backfill, refresh = "Backfill of all embeddings</a>", "Refresh of 1 tool</a>"
    for query, expected in {
        "?kind=backfill_embeddings": (True, False),
        "?state=partial": (True, False),
        "?state=queued": (False, True),
        "?mine=1": (False, True),
        "?state=queued&kind=backfill_embeddings": (False, False),
        "?state=nonsense": (True, True),
    }.items():
        html = page(operator_client, f"/jobs/{query}")
        assert (backfill in html, refresh in html) == expected, query
    assert "state “nonsense” no longer exists" in html
    html = page(operator_client, "/jobs/?state=queued&kind=backfill_embeddings")
    assert "No job matches" in html
    assert "Filtered by Backfill of embeddings, Queued." in html


def test_a_filter_is_a_step_that_back_takes_back_and_a_poll_is_not_UI_3_0(
    viewer_client: Client, running: Callable[..., Context]
) -> None:
    running()
    answer = viewer_client.get("/jobs/?kind=&state=running", headers=HTMX)
    assert answer["HX-Push-Url"] == "/jobs/?state=running"
    answer = viewer_client.get("/jobs/?state=running&n=3", headers=HTMX)
    assert "HX-Push-Url" not in answer
    assert 'hx-get="/jobs/?state=running&amp;n=4"' in answer.content.decode()


def test_a_list_costs_the_same_number_of_questions_however_many_jobs_UI_3_6(
    viewer_client: Client, running: Callable[..., Context]
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            page(viewer_client, "/jobs/")
        return len(asked)

    end(running(), JobState.SUCCEEDED)
    one = queries()
    for _ in range(4):
        end(running(tools=0), JobState.SUCCEEDED)
    assert queries() == one


def test_the_page_of_a_job_costs_the_same_number_of_questions_however_many_reasons_UI_3_6(
    viewer_client: Client, running: Callable[..., Context]
) -> None:
    context = running(failures=failures("a"))

    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            job_page(viewer_client, context, "?n=1", **HTMX)
        return len(asked)

    one = queries()
    context.batch(failures=failures(*["the most frequent"] * 8, *(f"reason {n:02}" for n in range(60))))
    assert queries() == one
    first, second, *others = services.failures_by_error(context.job.pk)
    assert (first.error, first.count, first.labels) == (
        "the most frequent",
        8,
        [f"tool_{n}" for n in range(5)],
    )
    assert (second.error, second.count, second.labels) == ("a", 1, ["tool_0"])
    assert [group.error for group in others] == [f"reason {n:02}" for n in range(48)]


def test_no_jobs_yet_says_what_one_is_UI_3_0(operator_client: Client, viewer_client: Client) -> None:
    assert "No jobs yet" in page(operator_client, "/jobs/")
    html = page(viewer_client, "/jobs/")
    assert "Starting one requires the role operator; you are viewer." in html
    assert "hx-trigger" not in html.partition('id="results"')[2].partition(">")[0]


def test_the_header_counts_jobs_on_every_page_and_its_menu_ends_its_own_polling_UI_3_6(
    viewer_client: Client, running: Callable[..., Context]
) -> None:
    none = '<span id="jobs-count" data-none>0 jobs</span>'  # which the style hides
    assert none in page(viewer_client, "/tools/")
    context = running(done=42)
    for path in ("/tools/", "/search/", "/sources/", "/jobs/"):
        html = page(viewer_client, path)
        assert '<span id="jobs-count">1 job</span>' in html, path
        assert "<small>42 %</small>" in html
    assert viewer_client.get("/nowhere/").status_code == 404
    html = page(viewer_client, "/jobs/pill/", **HTMX)
    assert 'hx-trigger="every 15s, poll-now"' in html
    end(context, JobState.SUCCEEDED)
    html = page(viewer_client, "/jobs/pill/", **HTMX)
    assert '<span id="jobs-count" data-none hx-swap-oob="true">0 jobs</span>' in html
    assert 'hx-trigger="poll-now"' in html  # only when somebody comes back to the page


# --- Who may --------------------------------------------------------------------------------------------------------------
def test_viewers_watch_and_change_nothing_SEC_1(
    viewer_client: Client, running: Callable[..., Context]
) -> None:
    context = running(failures=failures("x"))
    html = job_page(viewer_client, context)
    for action in ("cancel", "resume", "retry"):
        assert f"/{action}/" not in html
        assert viewer_client.post(f"/jobs/{context.job.pk}/{action}/").status_code == 403
    assert "New backfill" not in page(viewer_client, "/jobs/")
    for path in ("/jobs/new/", "/tools/refresh-matching/"):
        assert viewer_client.get(path).status_code == 403
        assert viewer_client.post(path, {"statuses": "all", "start": "1"}).status_code == 403
    assert services.find(context.job.pk).effective_state == "running"


def test_another_tenants_job_is_not_found_SEC_1(
    operator_client: Client, make_tenant: Callable[..., Tenant]
) -> None:
    with tenant_context(make_tenant().pk):
        foreign = services.start("backfill_embeddings", {}, by="a stranger")
    for method, path in (
        ("get", ""),
        ("get", "cancel/"),
        ("post", "cancel/"),
        ("post", "resume/"),
        ("post", "retry/"),
    ):
        answer = getattr(operator_client, method)(f"/jobs/{foreign.pk}/{path}")
        assert answer.status_code == 404, path
    assert "a stranger" not in page(operator_client, "/jobs/")
    assert "data-none>0 jobs" in page(operator_client, "/jobs/")
