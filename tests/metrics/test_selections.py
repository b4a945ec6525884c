"""POST /searches/{search_id}/selection (SRC-9): what counts as a selection, before and after the search is in the log.

How to see it fail: without the check in search_log._WRITE a tool that was never returned is counted; without the proof in the id,
anybody's 32 digits are taken for a search.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from rest_framework.test import APIClient

from metrics import selections
from metrics.models import LoggedSearch
from metrics.search_log import new_search_id, search_log, write
from metrics.search_report import search_report
from metrics.selections import select
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.api import assert_problem
from tests.support.clients import make_api
from tests.support.searches import entry
from tools.models import Tool

MakeTool = Callable[..., Tool]


def choose(client: APIClient, search_id: str, tool: str, **more: Any) -> Any:
    return client.post(f"/api/v1/searches/{search_id}/selection", {"tool": tool, **more}, format="json")


@pytest.fixture
def tools(make_tool: MakeTool) -> list[Tool]:
    return [make_tool(tool_id=f"mail_{number}", description="Sends a mail.") for number in range(3)]


@pytest.fixture
def search_id(api: APIClient, tools: list[Tool]) -> str:
    """Of a search that the API has just answered."""
    answer = api.post("/api/v1/tools/search", {"query": "mail"}, format="json").json()
    assert len(answer["results"]) == 3
    found: str = answer["metadata"]["search_id"]
    return found


def logged(search_id: str) -> LoggedSearch:
    return LoggedSearch.objects.get(pk=search_id)


def test_a_selection_is_recorded_with_its_rank_and_time_SRC_9(api: APIClient, search_id: str) -> None:
    search_log.flush()
    second = logged(search_id).results[1]
    answer = choose(api, search_id, Tool.objects.get(pk=second).tool_id)
    assert (answer.status_code, answer.json()) == (
        200,
        {"search_id": search_id, "tool": str(second), "status": "recorded"},
    )
    row = logged(search_id)
    assert (row.selected_tool, row.selected_rank, row.selected_at is not None) == (second, 2, True)


def test_the_same_selection_again_changes_nothing_and_another_one_takes_its_place_SRC_9(
    api: APIClient, search_id: str
) -> None:
    search_log.flush()
    first, _, third = logged(search_id).results
    assert choose(api, search_id, str(third)).status_code == 200
    LoggedSearch.objects.update(selected_at="2020-01-01T00:00:00Z")
    assert choose(api, search_id, str(third)).status_code == 200
    assert logged(search_id).selected_at.year == 2020  # type: ignore[union-attr]
    assert choose(api, search_id, str(first)).status_code == 200
    row = logged(search_id)
    assert (row.selected_rank, row.selected_at.year > 2020) == (1, True)  # type: ignore[union-attr]


def test_a_selection_that_comes_before_the_log_counts_once_the_log_is_written_SRC_9(
    api: APIClient, search_id: str, tools: list[Tool]
) -> None:
    answer = choose(api, search_id, "mail_1")
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    assert search_report().searches == 0, "a row that only a selection has made is no search"
    search_log.flush()
    row = logged(search_id)
    assert (row.query, row.selected_tool) == ("mail", tools[1].pk)
    assert row.selected_rank == row.results.index(tools[1].pk) + 1
    assert search_report().acceptance_rate == 1
    assert choose(api, search_id, "mail_1").status_code == 200


def test_a_tool_that_the_search_did_not_return_is_refused_or_taken_back_SRC_9(
    api: APIClient, search_id: str, make_tool: MakeTool
) -> None:
    make_tool(tool_id="other")
    assert choose(api, search_id, "other").status_code == 202  # nobody knows yet
    search_log.flush()
    row = logged(search_id)
    assert (row.query, row.selected_tool, row.selected_rank, row.selected_at) == ("mail", None, None, None)
    problem = assert_problem(choose(api, search_id, "other"), 422, "validation_error")
    assert problem["errors"][0]["pointer"] == "/tool"


def test_a_search_that_never_was_or_is_too_old_is_not_found_SRC_9(
    api: APIClient, search_id: str, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    for unknown in (uuid.uuid4().hex, "x", new_search_id(uuid.uuid4())):
        assert_problem(choose(api, unknown, "mail_1"), 404, "not_found")
    monkeypatch.setattr(selections, "PENDING_SECONDS", -1)
    assert_problem(choose(api, search_id, "mail_1"), 404)
    monkeypatch.undo()
    settings.SEARCH_LOG = "off"
    assert_problem(choose(api, search_id, "mail_1"), 404)
    assert not LoggedSearch.objects.exists()


def test_another_tenants_search_is_not_there_SRC_9(
    api: APIClient, search_id: str, make_tenant: Callable[..., Tenant], tools: list[Tool]
) -> None:
    foreign = make_api(make_tenant())
    for _ in range(2):  # before and after it is in the log
        assert_problem(choose(foreign, search_id, str(tools[0].pk)), 404)
        search_log.flush()
    assert logged(search_id).selected_tool is None


def test_a_tool_that_the_caller_may_not_see_is_not_there_SRC_9(
    api: APIClient, search_id: str, tools: list[Tool], tenant: Tenant
) -> None:
    search_log.flush()
    Tool.objects.filter(pk=tools[0].pk).update(sensitivity="restricted")
    Tool.objects.filter(pk=tools[1].pk).update(sensitivity="public")
    low = make_api(tenant, max_sensitivity="public")
    hidden, unknown = (choose(low, search_id, name) for name in ("mail_0", "mail_9"))
    assert (
        assert_problem(hidden, 404)["detail"].replace("mail_0", "mail_9")
        == assert_problem(unknown, 404)["detail"]
    )
    assert choose(low, search_id, "mail_1").status_code == 200


def test_a_body_that_says_something_else_is_refused_SRC_9(api: APIClient, search_id: str) -> None:
    assert_problem(choose(api, search_id, "mail_1", rank=1), 400, "validation_error")
    assert_problem(api.post(f"/api/v1/searches/{search_id}/selection", {}, format="json"), 400)


def test_selections_beside_the_log_are_neither_lost_nor_doubled_SRC_9(committed: Tenant) -> None:
    searches = [entry(committed.pk) for _ in range(30)]

    def choose_first(search: Any) -> None:
        with tenant_context(committed.pk):
            select(UUID(search.search_id), search.results[0])
        connection.close()

    def log_all(_: object) -> None:
        for search in searches:
            write([search])
        connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda work: work[0](work[1]), [(log_all, None), *((choose_first, one) for one in searches)]
            )
        )
    with tenant_context(committed.pk):
        rows = LoggedSearch.objects.all()
        assert [(row.query, row.selected_rank) for row in rows] == [("send a mail", 1)] * 30
