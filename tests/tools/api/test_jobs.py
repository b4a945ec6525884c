"""Jobs over REST: 202 and where to look, what may be done with them, and refusals as problems."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from portal.tenancy.models import Scope, Tenant
from tests.support.clients import make_api
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import CANNOT_EVER
from tests.support.jobs.harness import JobHarness
from tests.support.jobs.scenarios import poisoned, put, ready_tools
from tools.catalogue.embedding_jobs import BACKFILL, REFRESH

JOBS = "/api/v1/jobs"


@pytest.fixture
def api(committed: Tenant, harness: JobHarness) -> APIClient:
    return make_api(committed)


def start(api: APIClient, kind: str = BACKFILL, **body: Any) -> Any:
    return api.post(JOBS, {"kind": kind, **body}, format="json")


def test_a_job_is_accepted_with_its_address_and_looked_at_until_it_is_over_API_1(
    api: APIClient, harness: JobHarness, pipeline: Pipeline
) -> None:
    harness.make("failed", *ready_tools(pipeline, 3))
    accepted = start(api, args={"statuses": ["failed"]})
    assert accepted.status_code == 202
    assert accepted["Retry-After"] == "2"
    assert accepted["Location"] == f"{JOBS}/{accepted.data['id']}"
    assert (accepted.data["state"], accepted.data["total"], accepted.data["done"]) == ("queued", 3, 0)
    assert set(accepted.data["links"]) == {"self", "errors", "cancel"}
    assert api.get(accepted["Location"])["Retry-After"] == "2"
    assert harness.finish(uuid.UUID(accepted.data["id"])) == "succeeded"
    found = api.get(accepted["Location"])
    assert "Retry-After" not in found
    assert (found.data["state"], found.data["done"], found.data["eta_seconds"]) == ("succeeded", 3, None)
    assert found.data["rate"] > 0
    assert found.data["requested_by"].startswith("API key ")


def test_a_selection_is_refreshed_by_a_job_EMB_9(
    api: APIClient, harness: JobHarness, pipeline: Pipeline
) -> None:
    ids = [str(one) for one in ready_tools(pipeline, 2)]
    accepted = start(api, REFRESH, args={"ids": ids})
    assert accepted.status_code == 202
    assert harness.finish(uuid.UUID(accepted.data["id"])) == "succeeded"
    assert api.get(accepted["Location"]).data["done"] == 2


def test_a_dry_run_counts_and_starts_nothing_EMB_8(
    api: APIClient, harness: JobHarness, pipeline: Pipeline
) -> None:
    harness.make("failed", *ready_tools(pipeline, 2))
    found = start(api, dry_run=True)
    assert (found.status_code, found.data["total"], found.data["to_do"]) == (200, 2, 2)
    assert "Location" not in found
    assert api.get(JOBS).data["results"] == []


def test_a_second_job_of_the_scope_is_refused_and_the_first_one_named_API_1(api: APIClient) -> None:
    first = start(api)
    refused = start(api)
    assert (refused.status_code, refused.data["title"]) == (409, "already_running")
    assert refused["Location"] == first["Location"]
    assert first.data["id"] in refused.data["detail"]


def test_a_request_that_is_sent_twice_starts_one_job_API_1(api: APIClient) -> None:
    sent = [
        api.post(JOBS, {"kind": BACKFILL}, format="json", headers={"Idempotency-Key": "once"})
        for _ in range(2)
    ]
    assert [one.status_code for one in sent] == [202, 202]
    assert sent[0].data["id"] == sent[1].data["id"]
    assert [sent[1][name] for name in ("Location", "Retry-After")] == [sent[0]["Location"], "2"]


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"kind": "brew_coffee"}, 422, "/kind"), ({"kind": BACKFILL, "args": {"statuses": ["x"]}}, 422, "/args/statuses"),
        ({"kind": BACKFILL, "args": {"colour": "red"}}, 422, "/args/colour"), ({"kind": REFRESH}, 422, "/args/ids"),
        ({}, 400, "/kind"), ({"kind": BACKFILL, "args": []}, 400, "/args"), ({"kind": BACKFILL, "colour": 1}, 400, "/colour"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_request_is_pointed_at_API_1(
    api: APIClient, body: dict[str, Any], status: int, pointer: str
) -> None:
    refused = api.post(JOBS, body, format="json")
    assert (refused.status_code, refused.data["title"]) == (status, "validation_error")
    assert [one["pointer"] for one in refused.data["errors"]] == [pointer]
    assert api.get(JOBS).data["results"] == []


def test_failures_are_listed_page_by_page_and_retried_EMB_9(
    api: APIClient, harness: JobHarness, pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    pk, pks = poisoned(harness, pipeline, use)
    address = f"{JOBS}/{pk}"
    [failure] = api.get(f"{address}/errors").data["results"]
    assert failure["item_id"] == str(pks[2])
    assert (failure["label"], failure["error"]) == ("tool_3", CANNOT_EVER.public)
    assert set(api.get(address).data["links"]) == {"self", "errors", "retry_failed"}
    for verb in ("cancel", "resume"):
        refused = api.post(f"{address}/{verb}")
        assert (refused.status_code, refused.data["title"]) == (409, "conflict"), verb
    use("HashEmbedder")
    again = api.post(f"{address}/retry-failed")
    assert (again.status_code, again["Location"]) == (202, address)
    assert harness.finish(pk) == "succeeded"
    assert api.get(f"{address}/errors").data["results"] == []
    assert api.post(f"{address}/retry-failed").status_code == 409


def test_a_job_is_cancelled_and_resumed_where_its_state_allows_it_EMB_8(
    api: APIClient, harness: JobHarness
) -> None:
    lost = put(harness, "running", heartbeat_at="2020-01-01", resumes=3)
    assert api.get(f"{JOBS}/{lost.pk}").data["resumes"] == 3
    address = f"{JOBS}/{lost.pk}"
    assert api.get(address).data["state"] == "lost"
    assert api.post(f"{address}/resume").data["state"] == "queued"
    cancelled = api.post(f"{address}/cancel")
    assert (cancelled.status_code, cancelled.data["state"]) == (202, "cancelling")
    refused = api.post(f"{address}/resume")
    assert refused.status_code == 409
    assert "this one is cancelling" in refused.data["detail"]


def test_beyond_the_jobs_that_a_tenant_may_have_a_further_one_is_refused_SEC_5(
    api: APIClient, settings: Any
) -> None:
    settings.JOB_MAX_ACTIVE = 1
    first = api.post(JOBS, {"kind": REFRESH, "args": {"ids": [str(uuid.uuid4())]}}, format="json")
    assert first.status_code == 202
    refused = api.post(JOBS, {"kind": REFRESH, "args": {"ids": [str(uuid.uuid4())]}}, format="json")
    assert (refused.status_code, refused.data["title"]) == (429, "too_many_jobs")
    assert "limit of unfinished jobs (1)" in refused.data["detail"]
    slow = api.post(JOBS, {"kind": BACKFILL, "args": {"rate": 0.1}}, format="json")
    assert (slow.status_code, slow.data["errors"][0]["pointer"]) == (422, "/args/rate")


def test_the_list_is_filtered_and_paged_by_cursor_API_1(
    api: APIClient, harness: JobHarness, committed: Tenant
) -> None:
    states = ("succeeded", "partial", "lost")
    made = [str(put(harness, state).pk) for state in states]
    mine = start(api).data["id"]
    assert [one["id"] for one in api.get(JOBS).data["results"]] == [mine, *reversed(made)]
    assert [one["id"] for one in api.get(f"{JOBS}?mine=true").data["results"]] == [mine]
    assert [one["id"] for one in api.get(f"{JOBS}?state=partial").data["results"]] == [made[1]]
    assert api.get(f"{JOBS}?kind={REFRESH}").data["results"] == []
    seen, address = [], f"{JOBS}?limit=1&count=true"
    while address:
        page = api.get(address)
        assert page.data["total"] == 4
        seen += [one["id"] for one in page.data["results"]]
        address = page.data["next"]
    assert seen == [mine, *reversed(made)]
    for wrong in ("state=asleep", "kind=none", "mine=perhaps", "colour=red"):
        assert api.get(f"{JOBS}?{wrong}").status_code == 400, wrong


@pytest.mark.parametrize("address", [JOBS, JOBS + "/{}/errors"])
def test_a_cursor_that_is_none_of_ours_is_refused_API_1(
    api: APIClient, harness: JobHarness, address: str
) -> None:
    address = address.format(put(harness, "partial").pk)
    for text in ("p=not-a-date-nor-an-id", "p=2026-13-13", "p=%00"):
        cursor = base64.b64encode(text.encode()).decode()
        refused = api.get(address, {"cursor": cursor})
        assert (refused.status_code, refused.data["title"]) == (400, "invalid_cursor"), text


def test_reading_needs_tools_read_and_running_needs_jobs_run_SEC_3(
    committed: Tenant, harness: JobHarness
) -> None:
    job = put(harness, "partial")
    reader, runner = make_api(committed, Scope.TOOLS_READ), make_api(committed, Scope.JOBS_RUN)
    for address in (JOBS, f"{JOBS}/{job.pk}", f"{JOBS}/{job.pk}/errors"):
        assert (reader.get(address).status_code, runner.get(address).status_code) == (200, 403)
    for verb in ("cancel", "resume", "retry-failed"):
        refused = reader.post(f"{JOBS}/{job.pk}/{verb}")
        assert (refused.status_code, "jobs:run" in refused.data["detail"]) == (403, True)
    assert start(reader).status_code == 403
    assert runner.post(f"{JOBS}/{job.pk}/retry-failed").status_code == 202


def test_a_foreign_job_and_an_unknown_one_are_the_same_404_S1(
    harness: JobHarness, make_tenant: Callable[..., Tenant]
) -> None:
    job, other = put(harness, "partial"), make_api(make_tenant())
    for ref in (str(job.pk), str(uuid.uuid4()), "no-uuid"):
        answers = [other.get(f"{JOBS}/{ref}"), other.get(f"{JOBS}/{ref}/errors")]
        answers += [other.post(f"{JOBS}/{ref}/{verb}") for verb in ("cancel", "resume", "retry-failed")]
        assert {(one.status_code, one.data["detail"]) for one in answers} == {
            (404, f"There is no job {ref!r} here.")
        }
    assert harness.find(job.pk).state == "partial"
