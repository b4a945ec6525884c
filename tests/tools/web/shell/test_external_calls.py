"""R16, SYN-4: pages that ask a stranger or parse a document hold no transaction meanwhile, and answer within a worker's minute."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from portal.gunicorn import timeout as worker_seconds
from portal.outbound.errors import FetchError
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.clients import make_api, make_client
from tests.support.embeddings.providers import HashEmbedder
from tests.support.imports.documents import document
from tests.support.servers.http_server import SLOW_SECONDS
from tests.support.servers.mcp_servers import allow, plain
from tests.support.waits import noted, take_violations
from tools.imports.fetching import sandbox
from tools.imports.fetching.http import fetch_document
from tools.imports.fetching.mcp.client import list_tools_from_url
from tools.imports.syncing.documents import REQUEST_SECONDS
from tools.models import McpServer, Source, Sync

RAW = json.dumps(document("orders")).encode()


@pytest.fixture
def client(committed: Tenant, settings: Any, tmp_path: Path) -> Client:
    """An operator's, with a server that is called sums."""
    allow(settings, tmp_path, sums=plain("""{"tools": [{"name": "add"}]}"""))
    with tenant_context(committed.pk):
        McpServer.objects.create(slug="sums", command_id="sums")
    return make_client(committed, "operator")


@pytest.fixture
def waited() -> Callable[[], list[str]]:
    """What the portal has waited for since it was asked last, each within less than a worker's time. That no transaction was open
    meanwhile is asserted in every test (tests/support/waits.py)."""
    seen = 0

    def since() -> list[str]:
        nonlocal seen
        new = noted()[seen:]
        seen += len(new)
        assert max(one.seconds or 0 for one in new) < worker_seconds
        return [one.what for one in new]

    return since


WAITS: dict[str, Callable[[str], object]] = {
    "the provider": lambda server: HashEmbedder(model="m", dimension=384).embed(["x"], "query"),
    "a server": lambda server: fetch_document(f"http://{server}/shop.json"),
    "the parser": lambda server: sandbox.parse(sandbox.ANY, RAW, name="shop.json"),
    "an MCP server": lambda server: list_tools_from_url(f"http://{server}/mcp"),
}


@pytest.mark.parametrize("what", WAITS)
def test_a_wait_inside_of_a_transaction_fails_a_test_and_one_outside_does_not(
    committed: Tenant, server: str, what: str
) -> None:
    with suppress(FetchError):  # no MCP server is there
        WAITS[what](server)
    assert ([one.what for one in noted()], take_violations()) == ([what], [])
    with tenant_context(committed.pk), pytest.raises(AssertionError, match=f"{what} is waited for inside"):
        WAITS[what](server)
    assert len(take_violations()) == 1


@pytest.mark.parametrize("button", ["test", "plan"])
def test_R16_an_import_holds_no_transaction_while_it_reads_and_parses(
    committed: Tenant, client: Client, waited: Callable[[], list[str]], button: str
) -> None:
    upload = {"document": SimpleUploadedFile("shop.json", RAW), button: "1"}
    assert client.post("/sources/import/", upload).status_code in (200, 302)
    assert waited() == ["the parser"]
    assert client.post("/sources/import/", {"server": "sums", button: "1"}).status_code in (200, 302)
    assert waited() == ["an MCP server", "the parser"]
    with tenant_context(committed.pk):
        assert Source.objects.count() == (2 if button == "plan" else 0)


def test_R16_a_test_of_a_server_and_a_plan_made_again_hold_no_transaction_either(
    committed: Tenant, client: Client, waited: Callable[[], list[str]]
) -> None:
    with tenant_context(committed.pk):
        server = McpServer.objects.get()
    assert "It answered with 1 tool" in client.post(f"/servers/{server.pk}/test/").content.decode()
    assert waited() == ["an MCP server", "the parser"]
    client.post("/sources/import/", {"document": SimpleUploadedFile("shop.json", RAW), "plan": "1"})
    with tenant_context(committed.pk):
        sync = Sync.objects.get()
    assert waited() == ["the parser"]
    answer = client.post(f"/sources/{sync.source_id}/syncs/{sync.pk}/again/")
    assert answer["Location"].startswith(f"/sources/{sync.source_id}/syncs/")
    assert str(sync.pk) not in answer["Location"]
    assert waited() == ["the parser"]


@pytest.mark.parametrize("key", ["", "once"])
def test_R16_an_import_by_the_api_is_parsed_once_and_in_no_transaction_however_large(
    committed: Tenant, waited: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr("tools.api.sources.views.LARGE", 1)
    agent = make_api(committed)
    for number, (names, status) in enumerate([("a", 200), ("ab", 202)]):
        raw = json.dumps(document(*names)).encode()
        headers = {"Idempotency-Key": f"{key}-{number}"} if key else {}
        upload = {"document": SimpleUploadedFile("shop.json", raw)}
        assert agent.post("/api/v1/sources", upload, headers=headers).status_code == status
        assert waited() == ["the parser"]


def test_R16_reading_and_parsing_have_one_deadline_in_every_request(
    committed: Tenant, client: Client, server: str
) -> None:
    url, agent = f"http://{server}/slow.json", make_api(committed)
    client.post("/sources/import/", {"url": url, "test": "1"})
    client.post("/sources/import/", {"url": url, "plan": "1", "source": "shop"})
    assert agent.post("/api/v1/sources", {"url": url, "source": "zoo"}, format="json").status_code == 200
    assert agent.post("/api/v1/sources/zoo/test").status_code == 200
    parsed = [one.seconds or 0 for one in noted() if one.what == "the parser"]
    assert len(parsed) == 4
    assert max(parsed) <= REQUEST_SECONDS - SLOW_SECONDS
    assert worker_seconds - 15 >= REQUEST_SECONDS  # comparing and storing take the rest


def test_R16_a_question_on_the_search_page_is_embedded_in_no_transaction(
    client: Client, embedder: Any, waited: Callable[[], list[str]]
) -> None:
    assert client.get("/search/?q=add+two+numbers").status_code == 200
    assert waited() == ["the provider"]


def test_UI_3_0_what_such_a_page_does_not_find_is_a_page_of_the_portal_too(
    committed: Tenant, client: Client
) -> None:
    nothing = committed.pk
    for path in (f"/servers/{nothing}/test/", f"/sources/{nothing}/syncs/{nothing}/again/"):
        answer = client.post(path)
        assert answer.status_code == 404
        assert "here." in answer.content.decode()
    viewer = make_client(committed, "viewer")
    assert viewer.post("/sources/import/").status_code == 403


def test_R16_a_document_that_takes_too_long_is_given_up_with_a_sentence(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.imports.syncing.documents.REQUEST_SECONDS", 0.0001)
    upload = {"document": SimpleUploadedFile("shop.json", RAW), "plan": "1"}
    answer = client.post("/sources/import/", upload)
    assert answer.status_code == 422
    assert "to read and was given up" in answer.content.decode()
