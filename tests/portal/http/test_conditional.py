"""API-1, case 64: conditional requests."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.db import connections
from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.api import TOOLS, assert_problem, patch
from tests.support.clients import make_api
from tools.catalogue.tools import create_tool
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
    assert first["Cache-Control"] == "private, no-cache"
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


def test_api_1_a_change_is_taken_if_its_list_holds_the_version_or_stands_for_any(
    agent: APIClient, tool_of: ToolOf
) -> None:
    tool = tool_of("send_mail")
    for number, known in enumerate(['"v1"', 'W/"v2"', '"v3-gzip"', '"x", "v4"', '"v1", "v5"', "*", " * "]):
        changed = patch(agent, tool.pk, {"description": f"Text {number}."}, known)
        assert (changed.status_code, changed["ETag"]) == (200, f'"v{number + 2}"'), known
    for stale in ('"v1"', '"x", "v1"', '"v7", "v1-gzip"'):
        refused = assert_problem(patch(agent, tool.pk, {"description": "New."}, stale), 412)
        assert refused["current_etag"] == '"v8"', stale
    for foreign in ('"x"', "v8", '"v8', '"v8x"'):
        assert patch(agent, tool.pk, {"description": "New."}, foreign).status_code == 412, foreign


def test_case_64_an_edit_and_a_read_through_a_proxy_that_compresses(
    agent: APIClient, tool_of: ToolOf
) -> None:
    tool_of("send_mail")
    for known in ('"v1-gzip"', 'W/"v1-gzip"', '"v1-br"'):
        assert agent.get(f"{TOOLS}/send_mail", headers={"If-None-Match": known}).status_code == 304
    assert patch(agent, "send_mail", {"description": "New."}, '"v1-gzip"').status_code == 200
    assert patch(agent, "send_mail", {"description": "Newer."}, '"x", "v2"').status_code == 200
    assert patch(agent, "send_mail", {"description": "Newest."}, "*").status_code == 200
    assert patch(agent, "nothing", {"description": "New."}, "*").status_code == 404
