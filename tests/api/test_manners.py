"""API-1: conditional requests, pages that do not shift, pages of problem types, and the request's id in the log."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from rest_framework.test import APIClient

from portal.http.problem_types import PROBLEM_TYPES
from portal.http.problems import TITLES, Problem
from portal.http.request_ids import RequestIdFilter
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.api import TOOLS, assert_problem, patch
from tests.support.clients import make_api
from tools.catalogue.tools import create_tool, delete_tool
from tools.models import Tool

ToolOf = Callable[..., Tool]


def test_api_1_a_tool_that_one_has_already_is_a_304_until_it_changes(
    agent: APIClient, tool_of: ToolOf
) -> None:
    tool_of("send_mail")
    etag = agent.get(f"{TOOLS}/send_mail")["ETag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        same = agent.get(f"{TOOLS}/send_mail", headers={"If-None-Match": known})
        assert (same.status_code, same.content, same["ETag"]) == (304, b"", etag)
    assert agent.get(f"{TOOLS}/send_mail", headers={"If-None-Match": '"v7"'}).status_code == 200
    assert patch(agent, "send_mail", {"description": "New."}).status_code == 200
    assert agent.get(f"{TOOLS}/send_mail", headers={"If-None-Match": etag}).status_code == 200


def test_api_1_a_stale_version_is_told_the_current_one_in_body_and_header(
    agent: APIClient, tool_of: ToolOf
) -> None:
    tool = tool_of("send_mail")
    patch(agent, tool.pk, {"description": "New."})
    stale = patch(agent, tool.pk, {"description": "Newer."})
    assert assert_problem(stale, 412)["current_etag"] == stale["ETag"] == '"v2"'


def test_api_1_a_search_by_get_is_a_304_until_its_answer_changes(agent: APIClient, tool_of: ToolOf) -> None:
    tool_of("send_mail")
    path = f"{TOOLS}/search?query=letter"
    first = agent.get(path)
    assert first["ETag"].startswith('W/"')
    assert first["Cache-Control"] == "no-cache"
    same = agent.get(path, headers={"If-None-Match": first["ETag"]})
    assert (same.status_code, same.content) == (304, b"")
    tool_of("send_letter")
    assert agent.get(path, headers={"If-None-Match": first["ETag"]}).status_code == 200
    assert "ETag" not in agent.post(f"{TOOLS}/search", {"query": "letter"}, format="json")


def test_api_1_of_two_changes_to_one_version_one_is_made_and_one_is_told(committed: Tenant) -> None:
    client = make_api(committed)
    with tenant_context(committed.pk):
        tool = create_tool(actor="test", tool_id="a", name="a", description="a")
    for version in range(1, 6):
        together = threading.Barrier(2)

        def change(number: int, version: int = version, together: threading.Barrier = together) -> int:
            mine = APIClient()
            mine.credentials(**client._credentials)
            together.wait()
            try:
                text = {"description": f"Change {version} of {number}."}
                return int(patch(mine, tool.pk, text, f'"v{version}"').status_code)
            finally:
                connections.close_all()

        with ThreadPoolExecutor(2) as pool:
            assert Counter(pool.map(change, range(2))) == {200: 1, 412: 1}


def test_api_1_pages_neither_lose_nor_repeat_a_tool_while_others_come_and_go(
    owner: Tenant, agent: APIClient, tool_of: ToolOf
) -> None:
    before = [f"m{number}" for number in range(9)]
    for name in before:
        tool_of(name)
    seen, url, number = [], f"{TOOLS}?limit=2", 0
    while url:
        page = agent.get(url).json()
        seen += [one["tool_id"] for one in page["results"]]
        url = page["next"]
        tool_of(f"a{number}")  # before everything that was shown
        tool_of(f"z{number}")
        with tenant_context(owner.pk):
            delete_tool(pk=Tool.objects.get(tool_id=f"z{number}").pk, actor="test", expected_version=1)
        number += 1
    assert [one for one in seen if one in before] == before
    assert len(seen) == len(set(seen))


def test_api_1_every_problem_type_has_a_page_for_anybody(db: None) -> None:
    index = Client().get("/docs/problems/")
    assert index.status_code == 200
    for name, problem in PROBLEM_TYPES.items():
        page = Client().get(problem.url)
        assert page.status_code == 200
        assert name in page.content.decode()
        assert problem.url in index.content.decode()
        assert all(len(text) > 5 for text in (problem.cause, problem.fix, problem.example))
    assert Client().get("/docs/problems/nothing").status_code == 404


def test_api_1_a_problem_without_a_page_cannot_be_raised() -> None:
    assert set(TITLES.values()) <= set(PROBLEM_TYPES)
    with pytest.raises(KeyError):
        Problem(409, "New.", code="something_new")


def test_api_1_errors_point_into_the_body_or_name_the_parameter(agent: APIClient) -> None:
    wrong: dict[str, Any] = {"tool_id": "a", "name": "a", "tags": ["x"], "a/b~c": 1}
    problem = assert_problem(agent.post(TOOLS, wrong, format="json"), 400)
    assert problem["errors"][0]["pointer"] == "/a~1b~0c"
    assert assert_problem(agent.get(f"{TOOLS}?limit=0"), 400)["errors"][0]["pointer"] == "limit"
    assert assert_problem(agent.get(f"{TOOLS}/search"), 400)["errors"][0]["pointer"] == "query"


def test_api_1_a_line_of_the_log_names_the_request_it_belongs_to(agent: APIClient) -> None:
    record = logging.LogRecord("x", logging.INFO, "x", 1, "x", None, None)
    agent.get("/api/v1/me", headers={"X-Request-ID": "from-me"})
    assert RequestIdFilter().filter(record)
    assert record.request_id == "from-me"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        ({"traceparent": f"00-{'4b' * 16}-{'00f0' * 4}-01"}, True),
        ({"traceparent": f"cc-{'4b' * 16}-{'00f0' * 4}-01-what-comes-later"}, True),
        ({"traceparent": f"00-{'0' * 32}-{'00f0' * 4}-01"}, False),
        ({"traceparent": f"ff-{'4b' * 16}-{'00f0' * 4}-01"}, False),
        ({"traceparent": f"00-{'4B' * 16}-{'00f0' * 4}-01"}, False),
    ],
)
def test_api_1_a_request_without_an_id_has_its_traces(
    agent: APIClient, headers: dict[str, str], *, known: bool
) -> None:
    answered = agent.get("/api/v1/me", headers=headers)["X-Request-ID"]
    assert (answered == "4b" * 16) == known
    both = agent.get("/api/v1/me", headers={**headers, "X-Request-ID": "from-me"})
    assert both["X-Request-ID"] == "from-me"
