"""SYN-1, SYN-4: the page that adds a source: Test and Plan of a file, a URL, a text or an MCP server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.support.pages.web import SHOP_DOCUMENT
from tests.support.servers.mcp_servers import allow, plain
from tools.models import McpServer, Source, Sync, SyncState, Tool

RAW = (SHOP_DOCUMENT % "Lists orders.").encode()
HTMX = {"HX-Request": "true"}


def upload(raw: bytes = RAW, name: str = "shop.yaml") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, raw)


def test_SYN_1_a_test_says_what_is_there_and_stores_nothing(operator_client: Client) -> None:
    answer = operator_client.post("/sources/import/", {"document": upload(), "test": "1"}, headers=HTMX)
    html = answer.content.decode()
    assert answer.status_code == 200
    assert "<html" not in html
    assert "OpenAPI, “Shop”" in html
    assert "Nothing was stored" in html
    assert not Source.objects.exists()


def test_SYN_4_an_upload_becomes_a_plan_and_no_tool_yet(operator_client: Client) -> None:
    answer = operator_client.post("/sources/import/", {"document": upload(), "plan": "1"})
    sync = Sync.objects.get()
    assert answer["Location"] == f"/sources/{sync.source_id}/syncs/{sync.pk}/"
    assert sync.state == SyncState.PLANNED
    assert sync.source.slug == "shop"
    assert not Tool.objects.exists()
    page = operator_client.get(f"/sources/{sync.source_id}/").content.decode()
    assert "A plan is waiting." in page
    assert "shop.yaml" in page


def test_SYN_4_htmx_moves_the_whole_page_to_the_plan(operator_client: Client) -> None:
    answer = operator_client.post("/sources/import/", {"document": upload(), "plan": "1"}, headers=HTMX)
    assert answer["HX-Redirect"].startswith("/sources/")


def test_SYN_1_a_pasted_text_needs_a_name_and_is_kept(operator_client: Client) -> None:
    answer = operator_client.post("/sources/import/", {"text": RAW.decode(), "plan": "1"})
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "enter the name of its source" in html
    assert "operationId: listOrders" in html
    operator_client.post("/sources/import/", {"text": RAW.decode(), "source": "pasted", "plan": "1"})
    assert Source.objects.get().slug == "pasted"


def test_SYN_1_a_document_that_could_be_of_two_kinds_is_asked_about(operator_client: Client) -> None:
    both = json.dumps({"openapi": "3.0.0", "lightapi": "0.1.0"})
    answer = operator_client.post(
        "/sources/import/", {"text": both, "source": "both", "test": "1"}, headers=HTMX
    )
    assert answer.status_code == 422
    assert "could be OpenAPI" in answer.content.decode()
    assert "Say which it is." in answer.content.decode()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "Choose a file, give a URL, paste the document, or choose an MCP server."),
        ({"text": "a: 1", "url": "https://e.com/x.json", "source": "s"}, "Give only one of them"),
        ({"url": "https://e.com/x.json", "server_url": "https://e.com/mcp"}, "Give only one of them"),
        ({"text": "a: [1", "source": "s"}, "cannot be read"),
        ({"text": "a: 1", "source": "s"}, "openapi"),
        ({"text": "a: 1", "source": "No Such Name"}, "Use lower-case letters"),
        ({"url": "http://127.0.0.1/openapi.json"}, "Only public addresses"),
        ({"server_url": "http://127.0.0.1/mcp"}, "Only public addresses"),
        ({"url": "ftp://example.org/openapi.json"}, "URL"),
        ({"server": "unknown"}, "MCP server"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "-".join(value) or "nothing",
)
@pytest.mark.parametrize("button", ["test", "plan"])
def test_SYN_1_a_refused_document_gives_one_sentence_and_422(
    operator_client: Client, fields: dict[str, str], sentence: str, button: str
) -> None:
    answer = operator_client.post("/sources/import/", {**fields, button: "1"}, headers=HTMX)
    assert answer.status_code == 422
    assert sentence in answer.content.decode()
    assert not Source.objects.exists()


def test_SYN_1_a_url_is_read_and_remembered_and_a_refusal_says_what_was_answered(
    operator_client: Client,
    server: str,
) -> None:
    url = f"http://{server}/v1/shop.json"
    answer = operator_client.post("/sources/import/", {"url": f"http://{server}/missing", "plan": "1"})
    assert answer.status_code == 422
    assert "answered 404" in answer.content.decode()
    tested = operator_client.post(
        "/sources/import/", {"url": url, "test": "1"}, headers=HTMX
    ).content.decode()
    assert "Response: OpenAPI, “Shop”" in tested
    operator_client.post("/sources/import/", {"url": url, "plan": "1"})
    assert Source.objects.get().url == url


def test_CAT_3_a_server_s_tools_become_a_source_that_remembers_the_server(
    operator_client: Client, settings: Any, tmp_path: Path
) -> None:
    allow(settings, tmp_path, sums=plain("""{"tools": [{"name": "add"}, {"name": ""}]}"""))
    sums = McpServer.objects.create(slug="sums", command_id="sums")
    tested = operator_client.post(
        "/sources/import/", {"server": "sums", "test": "1"}, headers=HTMX
    ).content.decode()
    assert "Response: MCP, “plain”" in tested
    assert "1 operation left out" in tested
    assert not Source.objects.exists()
    operator_client.post("/sources/import/", {"server": "sums", "plan": "1"})
    source = Source.objects.get()
    assert (source.slug, source.kind, source.server_id) == ("sums", "mcp", sums.pk)
    assert [change.name for change in source.syncs.get().changes.all()] == ["add"]


def test_SEC_2_a_host_without_a_dot_is_asked_for_its_document_like_any_other(operator_client: Client) -> None:
    for name in ("url", "server_url"):
        answer = operator_client.post("/sources/import/", {name: "http://billing:8000/x", "test": "1"})
        assert "Only public addresses" in str(answer.context["form"].errors)


def test_case_69_a_test_gives_a_server_the_time_of_a_sync_UI_3_4(
    operator_client: Client, settings: Any, tmp_path: Path
) -> None:
    settings.MCP_SECONDS = 1
    allow(settings, tmp_path, slow=plain("{}", "import time; time.sleep(30);"))
    McpServer.objects.create(slug="slow", command_id="slow")
    answer = operator_client.post("/sources/import/", {"server": "slow", "test": "1"}, headers=HTMX)
    assert answer.status_code == 422
    assert "within 1 s" in answer.content.decode()
