"""CAT-3 by REST: MCP servers as connections; names of secrets come and go, their values never."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope, Tenant
from tests.support.api import assert_problem
from tests.support.clients import make_api
from tests.support.servers import mcp_servers
from tools.models import McpServer, Source, SourceKind

pytestmark = pytest.mark.usefixtures("allowed_secrets")

SERVERS = "/api/v1/servers"
GITHUB = {
    "slug": "github",
    "url": "https://mcp.example.com/mcp",
    "headers": {"Authorization": "MCP_SECRET_GITHUB"},
}


def make(client: APIClient, **fields: Any) -> Any:
    return client.post(SERVERS, {**GITHUB, **fields}, format="json")


def test_cat_3_a_server_is_made_read_and_listed_with_names_of_secrets_only(
    agent: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_SECRET_GITHUB", "hush-hush")
    made = make(agent, title="GitHub")
    assert (made.status_code, made["Location"]) == (201, f"{SERVERS}/github")
    read = agent.get(made["Location"])
    assert (read.json(), read["ETag"]) == (made.json(), made["ETag"])
    assert read.json()["headers"] == {"Authorization": "MCP_SECRET_GITHUB"}
    assert (read.json()["health"], read.json()["last_error"]) == ("unknown", None)
    page = agent.get(SERVERS)
    assert page.json()["results"] == [read.json()]
    for answer in (made, read, page):
        assert "hush-hush" not in answer.content.decode()
    assert_problem(make(agent), 409, "name_taken")


def test_cat_3_the_documents_example_of_a_server_is_taken(agent: APIClient) -> None:
    described = agent.get("/api/v1/schema", headers={"Accept": "application/json"}).json()
    body = described["paths"][SERVERS]["post"]["requestBody"]["content"]["application/json"]
    examples = [one["value"] for one in body["examples"].values()]
    assert [agent.post(SERVERS, one, format="json").status_code for one in examples] == [201]


@pytest.mark.parametrize(
    ("fields", "status", "pointer"),
    [
        ({"slug": "Not a slug"}, 422, "/slug"),
        ({"command_id": "git"}, 422, "/url"),
        ({"url": ""}, 422, "/url"),
        ({"url": "", "headers": {}, "command_id": "rm"}, 422, "/command_id"),
        ({"headers": {"Authorization": "HOME"}}, 422, "/headers"),
        ({"headers": {"Authorization": 1.5}}, 422, "/headers"),
        ({"headers": ["Authorization"]}, 400, "/headers"),
        ({"url": "http://mcp.example.com/"}, 422, "/url"),
        ({"secret": "x"}, 400, "/secret"),
    ],
    ids=["slug", "both ways", "no way", "unknown command", "any variable", "a number", "a list", "open line", "unknown field"],
)  # fmt: skip
def test_sec_2_a_server_that_cannot_be_asked_safely_is_refused_by_its_field(
    agent: APIClient, fields: dict[str, Any], status: int, pointer: str
) -> None:
    problem = assert_problem(make(agent, **fields), status, "validation_error")
    assert problem["errors"][0]["pointer"].startswith(pointer)
    assert agent.get(SERVERS).json()["results"] == []


def test_cat_3_a_server_is_changed_and_deleted_under_if_match(committed: Tenant) -> None:
    client = make_api(committed)
    etag = make(client)["ETag"]
    address = f"{SERVERS}/github"

    def patch(etag: str | None, **changes: Any) -> Any:
        headers = {"If-Match": etag} if etag else {}
        return client.patch(address, changes, format="json", headers=headers)

    assert_problem(patch(None, title="Mine"), 428, "precondition_required")
    changed = patch(etag, title="Mine")
    assert (changed.status_code, changed.json()["title"], changed.json()["url"]) == (
        200,
        "Mine",
        GITHUB["url"],
    )
    stale = assert_problem(patch(etag, title="Yours"), 412, "precondition_failed")
    assert stale["current_etag"] == changed["ETag"]
    assert_problem(patch(changed["ETag"], command_id="git"), 422, "validation_error")
    assert_problem(patch(changed["ETag"], slug="other"), 400, "validation_error")
    with tenant_context(committed.pk):
        server = McpServer.objects.get()
        source = Source.objects.create(slug="house", kind=SourceKind.MCP, server=server)
    used = assert_problem(
        client.delete(address, headers={"If-Match": changed["ETag"]}), 409, "managed_by_source"
    )
    assert "house" in used["detail"]
    with tenant_context(committed.pk):
        source.delete()
    assert_problem(client.delete(address, headers={"If-Match": etag}), 412)
    assert client.delete(address, headers={"If-Match": changed["ETag"]}).status_code == 204
    assert_problem(client.get(address), 404, "not_found")


def test_syn_2_a_server_is_asked_and_says_how_it_went(
    agent: APIClient, owner: Tenant, settings: Any, tmp_path: Path
) -> None:
    answer = '{"tools": [{"name": "lamp_on", "inputSchema": {"type": "object"}}]}'
    mcp_servers.allow(settings, tmp_path, lamps=mcp_servers.plain(answer), dead=["false"])
    for slug, reachable, tools, health in (
        ("lamps", True, ["lamp_on"], "healthy"),
        ("dead", False, [], "failing"),
    ):
        assert make(agent, slug=slug, url="", headers={}, command_id=slug).status_code == 201
        tried = agent.post(f"{SERVERS}/{slug}/test")
        assert tried.status_code == 200
        assert (tried.json()["reachable"], tried.json()["tools"], bool(tried.json()["error"])) == (
            reachable,
            tools,
            not reachable,
        )
        assert agent.get(f"{SERVERS}/{slug}").json()["health"] == health
    assert agent.get("/api/v1/sources").json()["results"] == []


def test_api_3_servers_are_written_by_admin_keys_and_tried_by_those_that_may_import(
    agent: APIClient, owner: Tenant
) -> None:
    importer = make_api(owner, Scope.SOURCES_WRITE, Scope.TOOLS_READ)
    refused = assert_problem(make(importer), 403, "permission_denied")
    assert "admin" in refused["detail"]
    make(agent, url="http://127.0.0.1/", headers={})
    assert importer.post(f"{SERVERS}/github/test").json()["reachable"] is False
    assert importer.get(f"{SERVERS}/github").status_code == 200
    assert_problem(importer.delete(f"{SERVERS}/github", headers={"If-Match": '"v1"'}), 403)
