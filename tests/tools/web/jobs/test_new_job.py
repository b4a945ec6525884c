"""A new job from the pages: the form of a backfill with its dry run, and a refresh of more tools than one page shows
(UI.md 3.6, EMB-8, EMB-9)."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.test import Client

from portal.jobs import services
from portal.jobs.models import Job
from tools.models import Tool, ToolEmbedding

pytestmark = pytest.mark.usefixtures("one_or_two_models")


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content.decode()
    return " ".join(answer.content.decode().split())


def test_a_dry_run_counts_and_starts_nothing_and_start_starts_UI_3_6_EMB_8(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    for _ in range(3):
        make_tool()
    ToolEmbedding.objects.update(status="failed")
    form = {"statuses": "failed", "source": "", "rate": "", "limit": "2"}
    html = " ".join(operator_client.post("/jobs/new/", {**form, "count": "1"}).content.decode().split())
    assert "<dt>tools scanned</dt><dd>3</dd>" in html
    assert "<dt>to embed</dt><dd>2</dd>" in html
    assert "an assumption until a first job has been measured" in html
    assert not Job.objects.exists()
    answer = operator_client.post("/jobs/new/", {**form, "start": "1"})
    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.pk}/"
    assert (job.args["statuses"], job.args["limit"], job.kind) == (["failed"], 2, "backfill_embeddings")
    html = page(operator_client, f"/jobs/{job.pk}/")
    assert "<dt>Stops after</dt><dd>2</dd>" in html


def test_a_second_backfill_is_refused_with_the_way_to_the_first_UI_3_6(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool()
    job = services.start("backfill_embeddings", {}, by="ada")
    answer = operator_client.post("/jobs/new/", {"statuses": "all", "start": "1"})
    assert answer.status_code == 409
    assert f'<a href="/jobs/{job.pk}/">Backfill of all embeddings</a> is queued' in answer.content.decode()


@pytest.mark.parametrize(
    ("field", "value"),
    [("statuses", "\0"), ("source", "gone"), ("rate", "nan"), ("rate", "-1"), ("limit", "x")],
)
def test_a_wrong_field_is_named_and_nothing_starts_UI_3_6(
    operator_client: Client, field: str, value: str
) -> None:
    answer = operator_client.post("/jobs/new/", {"statuses": "all", "start": "1", field: value})
    assert answer.status_code == 422
    assert f'href="#id_{field}"' in answer.content.decode()
    assert not Job.objects.exists()


def test_more_than_a_page_is_refreshed_as_a_job_EMB_9(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tools = [make_tool(category="many") for _ in range(26)]
    make_tool(category="other")
    html = page(operator_client, "/tools/?category=many")
    assert 'href="/tools/refresh-matching/?category=many"' in html
    assert "refresh-matching" not in page(operator_client, "/tools/?category=other")
    question = page(operator_client, "/tools/refresh-matching/?category=many")
    assert "Refresh the embeddings of 26 tools?" in question
    assert not Job.objects.exists()
    answer = operator_client.post("/tools/refresh-matching/?category=many")
    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.pk}/"
    assert set(job.args["ids"]) == {str(tool.pk) for tool in tools}
    again = operator_client.post("/tools/refresh-matching/?category=many")
    assert again["Location"] == f"/jobs/{job.pk}/"
    assert Job.objects.count() == 1


def test_a_selection_of_more_than_a_page_is_a_job_and_a_smaller_one_is_not_EMB_9(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    pk = str(make_tool().pk)
    operator_client.post("/tools/refresh-embeddings/", {"selected": [pk]})
    assert not Job.objects.exists()
    operator_client.post(
        "/tools/refresh-embeddings/", {"selected": [pk, *(str(uuid.uuid4()) for _ in range(100))]}
    )
    assert Job.objects.get().title == "Refresh of 101 tools"
