"""SYN-1, SYN-4, API-1: sources by REST: import by address, settings under If-Match, documents, and whether one can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope, Tenant
from tests.support.api import SOURCES, assert_problem, post, raw, upload
from tests.support.clients import make_api
from tests.support.imports.documents import document
from tests.support.servers import mcp_servers
from tests.support.servers.document_server import DocumentServer, document_server
from tools.catalogue import servers
from tools.imports.syncing.documents import tool_file
from tools.imports.syncing.service import import_document
from tools.models import McpServer, Source, SourceDocument, Tool


@pytest.fixture
def server(settings: Any) -> Iterator[DocumentServer]:
    with document_server() as running:
        settings.IMPORT_ALLOWED_HOSTS = [running.host]
        yield running


def patch(client: APIClient, slug: str, etag: str, **changes: Any) -> Any:
    return client.patch(f"{SOURCES}/{slug}", changes, format="json", headers={"If-Match": etag})


def test_syn_1_a_document_is_imported_by_its_address(
    agent: APIClient, owner: Tenant, server: DocumentServer
) -> None:
    url = server.put("/shop.json", document("a", "b"))
    dry = post(agent, f"{SOURCES}?dry_run=true", url=url)
    assert (dry.status_code, dry.json()["added"], dry.json()["dry_run"]) == (200, 2, True)
    assert agent.get(SOURCES).json()["results"] == []
    done = post(agent, url=url, source="shop").json()
    assert (done["added"], done["operations"], done["left_out"]) == (2, 2, [])
    source = agent.get(f"{SOURCES}/shop").json()
    assert (source["kind"], source["url"], source["active_tools"]) == ("openapi", url, 2)
    assert (source["schedule"], source["server"], source["last_error"]) == ("", None, None)
    assert_problem(post(agent, url=f"http://{server.host}/nothing"), 502, "upstream_error")
    server.put("/words", b"neither this nor that")
    assert_problem(post(agent, url=f"http://{server.host}/words"), 422, "invalid_source_document")


def test_sec_2_forbidden_addresses_get_one_answer(agent: APIClient, settings: Any) -> None:
    settings.IMPORT_ALLOWED_HOSTS = []
    said = {
        assert_problem(post(agent, url=url, kind=kind), 502, "upstream_error")["detail"]
        for url in (
            "http://127.0.0.1/",
            "http://[::1]/",
            "http://169.254.169.254/latest",
            "http://10.0.0.1:8080/",
        )
        for kind in ("openapi", "mcp")
    }
    assert len(said) == 1


def test_api_1_what_cannot_be_asked_is_a_422_and_what_takes_too_long_a_504(
    agent: APIClient, owner: Tenant, settings: Any, tmp_path: Path
) -> None:
    for url in ("ftp://example.com/a.json", "https://user:secret@example.com/a.json"):
        for kind in ("openapi", "mcp"):
            refused = assert_problem(post(agent, url=url, kind=kind), 422, "unprocessable")
            assert "secret" not in refused["detail"]
    mcp_servers.allow(
        settings, tmp_path, lamps=mcp_servers.plain('{"tools": []}', before="import time; time.sleep(60)\n")
    )
    settings.MCP_SECONDS = 1
    with tenant_context(owner.pk):
        servers.create_server(actor="test", slug="house", command_id="lamps")
    slow = assert_problem(post(agent, server="house"), 504, "upstream_timeout")
    assert slow["detail"].startswith("The server did not answer within 1 s.")
    settings.MCP_COMMANDS_FILE = ""
    assert_problem(post(agent, server="house"), 422, "unprocessable")


def test_syn_2_the_tools_of_a_server_are_imported_and_the_source_stays_with_it(
    agent: APIClient, owner: Tenant, settings: Any, tmp_path: Path
) -> None:
    answer = '{"tools": [{"name": "lamp_on", "inputSchema": {"type": "object"}}]}'
    mcp_servers.allow(settings, tmp_path, lamps=mcp_servers.plain(answer))
    with tenant_context(owner.pk):
        servers.create_server(actor="test", slug="house", command_id="lamps")
    assert post(agent, server="house", kind="mcp").json()["added"] == 1
    source = agent.get(f"{SOURCES}/house").json()
    assert (source["kind"], source["server"], source["url"]) == ("mcp", "house", "")
    tried = agent.post(f"{SOURCES}/house/test").json()
    assert (tried["tools"], tried["left_out"], tried["title"]) == (1, 0, "plain")
    unknown = assert_problem(post(agent, server="garden"), 422, "validation_error")
    assert unknown["errors"][0]["pointer"] == "/server"


@pytest.mark.parametrize(
    "body",
    [{}, {"url": "http://a/", "server": "b"}, {"server": "b", "kind": "openapi"}, {"url": ""}, {"url": "http://a/", "colour": 1}],
    ids=["nothing", "two", "kind", "blank", "unknown"],
)  # fmt: skip
def test_api_1_what_names_no_document_or_two_is_a_400(agent: APIClient, body: dict[str, Any]) -> None:
    assert_problem(post(agent, **body), 400, "validation_error")
    assert_problem(agent.post(SOURCES, [1], format="json"), 400)


def test_syn_4_removals_of_more_than_a_fifth_need_a_confirmation_and_are_counted(agent: APIClient) -> None:
    upload(agent, raw("a", "b", "c"))
    refused = assert_problem(upload(agent, raw("a")), 409, "removals_need_confirmation")
    assert (refused["removed"], refused["active"]) == (2, 3)
    assert agent.get("/api/v1/tools?count=true").json()["total"] == 3
    assert upload(agent, raw("a"), dry_run="true").json()["removed"] == 2
    assert upload(agent, raw("a"), confirm_removals="true").json()["removed"] == 2
    assert agent.get("/api/v1/tools?count=true").json()["total"] == 1


def test_api_1_a_repeated_import_by_address_is_answered_as_before_even_if_the_address_is_gone(
    agent: APIClient, owner: Tenant, server: DocumentServer
) -> None:
    url = server.put("/shop.json", document("a"))
    first = post(agent, url=url, headers={"Idempotency-Key": "once"})
    server.documents.clear()
    again = post(agent, url=url, headers={"Idempotency-Key": "once"})
    assert (again.status_code, again.json(), again["Idempotency-Replayed"]) == (200, first.json(), "true")
    assert_problem(post(agent, url=url, headers={"Idempotency-Key": "twice"}), 502)


def test_api_1_sources_are_listed_page_by_page(agent: APIClient) -> None:
    for name in ("c", "a", "b"):
        upload(agent, raw(name), source=name)
    page = agent.get(f"{SOURCES}?limit=2&count=true").json()
    assert ([one["slug"] for one in page["results"]], page["total"]) == (["a", "b"], 3)
    assert [one["slug"] for one in agent.get(page["next"]).json()["results"]] == ["c"]
    assert_problem(agent.get(f"{SOURCES}?kind=openapi"), 400)
    assert_problem(agent.get(f"{SOURCES}/d"), 404, "not_found")


def test_syn_5_settings_are_changed_under_if_match(committed: Tenant) -> None:
    client = make_api(committed)
    upload(client, raw("a"), source="shop")
    address = f"{SOURCES}/shop"
    seen = client.get(address)
    assert client.get(address, headers={"If-None-Match": seen["ETag"]}).status_code == 304
    assert_problem(client.patch(address, {}, format="json"), 428, "precondition_required")
    changed = patch(
        client, "shop", seen["ETag"], url="https://example.com/a.json", schedule="daily", auto_apply=True, sync_wins=True
    )  # fmt: skip
    assert changed.status_code == 200, changed.content
    assert changed["ETag"] != seen["ETag"]
    assert changed.json()["next_sync_at"]
    assert [changed.json()[name] for name in ("schedule", "auto_apply", "sync_wins")] == ["daily", True, True]
    stale = assert_problem(patch(client, "shop", seen["ETag"], title="Mine"), 412, "precondition_failed")
    assert stale["current_etag"] == changed["ETag"]
    emptied = patch(client, "shop", changed["ETag"], url=None, schedule=None, title="Mine")
    assert [emptied.json()[name] for name in ("url", "schedule", "title")] == ["", "", "Mine"]
    etag = emptied["ETag"]
    for wrong in ({"schedule": "hourly"}, {"server": "nobody"}):
        assert_problem(patch(client, "shop", etag, **wrong), 422, "validation_error")
    for wrong in ({"schedule": "often"}, {"kind": "mcp"}, {"title": "x" * 301}):
        assert_problem(patch(client, "shop", etag, **wrong), 400, "validation_error")
    assert client.get(address)["ETag"] == etag


def test_syn_4_a_file_of_tools_has_no_address_to_be_read_from(committed: Tenant) -> None:
    client = make_api(committed)
    import_document(tool_file(raw=b'{"id": "t"}', name="ours.jsonl"), tenant_id=committed.pk, actor="olga")
    etag = client.get(f"{SOURCES}/ours")["ETag"]
    for wrong in (
        {"url": "https://example.com/a.json"},
        {"schedule": "daily", "url": "https://example.com/"},
    ):
        refused = assert_problem(patch(client, "ours", etag, **wrong), 422, "validation_error")
        assert {one["pointer"] for one in refused["errors"]} == {f"/{name}" for name in wrong}
    with tenant_context(committed.pk):
        Source.objects.update(url="https://example.com/")  # as one may be stored from before
    assert_problem(client.post(f"{SOURCES}/ours/test"), 409, "conflict")
    assert_problem(client.post(f"{SOURCES}/ours/sync"), 422, "validation_error")
    renamed = patch(client, "ours", client.get(f"{SOURCES}/ours")["ETag"], title="Ours")
    assert renamed.json()["title"] == "Ours"
    assert patch(client, "ours", renamed["ETag"], url=None).json()["url"] == ""


def test_api_3_only_admin_keys_delete_a_source_and_only_as_it_was_seen(committed: Tenant) -> None:
    client, importer = make_api(committed), make_api(committed, Scope.SOURCES_WRITE, Scope.TOOLS_READ)
    upload(client, raw("a"), source="shop")
    address = f"{SOURCES}/shop"
    etag = client.get(address)["ETag"]
    assert_problem(importer.delete(address, headers={"If-Match": etag}), 403, "permission_denied")
    assert_problem(client.delete(address), 428)
    assert_problem(client.delete(address, headers={"If-Match": '"v1"'}), 412)
    assert client.delete(address, headers={"If-Match": etag}).status_code == 204
    with tenant_context(committed.pk):
        assert not Source.objects.exists()
        assert not Tool.objects.exists()


def test_syn_6_a_source_is_deleted_by_the_api_and_keeps_its_tools_as_inactive_ones(committed: Tenant) -> None:
    client = make_api(committed)
    upload(client, raw("a", "b"), source="shop")
    address = f"{SOURCES}/shop"
    seen = {"If-Match": client.get(address)["ETag"]}
    for wrong in ("tools=keep", "tool=deactivate"):
        assert_problem(client.delete(f"{address}?{wrong}", headers=seen), 400, "validation_error")
    assert client.delete(f"{address}?tools=deactivate", headers=seen).status_code == 204
    with tenant_context(committed.pk):
        assert not Source.objects.exists()
        kept = Tool.objects.filter(active=False, source=None, endpoint=None)
        assert set(kept.values_list("name", flat=True)) == {"a", "b"}


def test_syn_4_the_documents_of_a_source_are_kept_to_the_byte(agent: APIClient, owner: Tenant) -> None:
    upload(agent, raw("a"), name="first.json", source="shop")
    upload(agent, raw("a", "b"), name="../seco\r\nnd.json", source="shop")
    listed = agent.get(f"{SOURCES}/shop/documents").json()["results"]
    assert {one["layer"] for one in listed} == {"extraction"}
    by_size = sorted(listed, key=lambda one: one["size"])
    for document_, content in zip(by_size, (raw("a"), raw("a", "b")), strict=True):
        answer = agent.get(document_["links"]["content"], headers={"Accept": "application/octet-stream"})
        assert (answer.status_code, answer.content) == (200, content)
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer["Content-Disposition"].startswith("attachment")
        assert answer["ETag"] == f'"{document_["sha256"]}"'
    missing = f"{SOURCES}/shop/documents/00000000-0000-4000-8000-000000000000"
    assert_problem(agent.get(missing, headers={"Accept": "application/octet-stream"}), 404, "not_found")
    assert_problem(agent.get(f"{SOURCES}/shop/documents/first.json"), 404)


def test_api_3_whole_documents_are_shown_to_keys_that_may_see_every_tool(
    agent: APIClient, owner: Tenant
) -> None:
    upload(agent, raw("a"), source="shop")
    with tenant_context(owner.pk):
        address = f"{SOURCES}/shop/documents/{SourceDocument.objects.get().pk}"
    assert_problem(make_api(owner, max_sensitivity="confidential").get(address), 403, "permission_denied")
    assert_problem(make_api(owner, Scope.TOOLS_READ, Scope.TOOLS_WRITE).get(address), 403)
    assert make_api(owner, Scope.SOURCES_WRITE).get(address).status_code == 200


def test_sec_1_a_document_is_found_under_its_own_source_only(agent: APIClient, owner: Tenant) -> None:
    upload(agent, raw("a"), source="shop")
    upload(agent, raw("b"), source="zoo")
    with tenant_context(owner.pk):
        pk = SourceDocument.objects.get(source__slug="zoo").pk
    assert agent.get(f"{SOURCES}/zoo/documents/{pk}").status_code == 200
    assert_problem(agent.get(f"{SOURCES}/shop/documents/{pk}"), 404)


def test_syn_4_a_source_is_tried_and_nothing_is_stored(
    agent: APIClient, owner: Tenant, server: DocumentServer
) -> None:
    url = server.put("/shop.json", document("a"))
    post(agent, url=url, source="shop")
    server.put("/shop.json", document("a", "b", title="Store"))
    tried = agent.post(f"{SOURCES}/shop/test")
    assert tried.status_code == 200
    assert [tried.json()[name] for name in ("title", "operations", "tools", "left_out")] == ["Store", 2, 2, 0]
    assert agent.get("/api/v1/tools?count=true").json()["total"] == 1
    server.put("/shop.json", b"[]")
    assert_problem(agent.post(f"{SOURCES}/shop/test"), 422, "invalid_source_document")
    server.documents.clear()
    assert_problem(agent.post(f"{SOURCES}/shop/test"), 502, "upstream_error")
    upload(agent, raw("c"), source="typed")
    assert_problem(agent.post(f"{SOURCES}/typed/test"), 409, "conflict")
    with tenant_context(owner.pk):
        assert not McpServer.objects.exists()


def test_api_1_a_wrong_name_of_the_source_is_refused_before_anything_is_read(agent: APIClient) -> None:
    asked = {"url": "http://127.0.0.1:1/never.json", "source": "Not a slug"}
    problem = assert_problem(agent.post(SOURCES, asked, format="json"), 400, "validation_error")
    assert [one["pointer"] for one in problem["errors"]] == ["/source"]


def test_an_import_by_a_low_key_moves_no_source_to_another_address_SEC_4(
    agent: APIClient, owner: Tenant, server: DocumentServer
) -> None:
    low = make_api(owner, max_sensitivity="internal")
    here, there = (server.put(path, document("a")) for path in ("/here.json", "/there.json"))
    assert post(agent, url=here, source="shop").status_code == 200
    assert post(low, url=here, source="shop").json()["unchanged"] == 1
    for options in ({}, {"dry_run": True}):
        assert_problem(post(low, url=there, source="shop", **options), 403, "permission_denied")
    assert agent.get(f"{SOURCES}/shop").json()["url"] == here
    assert upload(low, raw("a", "b"), source="shop").status_code == 200, "which moves nothing"
    assert post(low, url=there, source="new").status_code == 200
    assert post(agent, url=there, source="shop", confirm_removals=True).status_code == 200
    assert agent.get(f"{SOURCES}/shop").json()["url"] == there


def test_a_low_key_neither_reads_nor_writes_an_mcp_server_SEC_4(
    agent: APIClient, owner: Tenant, settings: Any, tmp_path: Path
) -> None:
    canary = "payroll"
    mcp_servers.allow(settings, tmp_path, house=mcp_servers.plain('{"tools": [{"name": "payroll"}]}'))
    with tenant_context(owner.pk):
        servers.create_server(actor="test", slug="house", command_id="house")
    low = make_api(owner, max_sensitivity="confidential")
    for options in ({}, {"dry_run": True}):
        refused = post(low, server="house", source="mine", **options)
        assert canary not in str(assert_problem(refused, 403, "permission_denied"))
    with tenant_context(owner.pk):
        assert McpServer.objects.get().health == "unknown", "it was not even asked"
        McpServer.objects.update(last_error=f"Its last words: {canary}")
    assert [client.get("/api/v1/servers/house").json()["last_error"] for client in (low, agent)] == [
        None,
        f"Its last words: {canary}",
    ]
    changes = {"title": "Mine", "url": "https://example.com/mcp", "command_id": ""}
    headers = {"If-Match": "*"}
    for answer in (
        low.patch("/api/v1/servers/house", changes, format="json", headers=headers),
        low.delete("/api/v1/servers/house", headers=headers),
        post(low, "/api/v1/servers", slug="mine", url="https://example.com/mcp"),
    ):
        assert_problem(answer, 403, "permission_denied")
    assert post(agent, server="house", source="mine").json()["added"] == 1
