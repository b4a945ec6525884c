"""R16, SYN-4: pages that ask a stranger or parse a document hold no transaction meanwhile, and answer within a worker's minute."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client

from portal.gunicorn import timeout as worker_seconds
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.clients import make_client
from tests.support.imports.documents import document
from tests.support.servers.mcp_servers import allow, plain
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
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, float | None]]:
    """Of each child that the portal waited for: whether a transaction was open, and how long it would have waited."""
    waited: list[tuple[bool, float | None]] = []
    communicate = subprocess.Popen.communicate

    def noted(child: Any, data: Any = None, timeout: float | None = None) -> Any:
        waited.append((connection.in_atomic_block, timeout))
        return communicate(child, data, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", noted)
    return waited


def bounded(asked: list[tuple[bool, float | None]], count: int) -> bool:
    """Whether that many children were waited for, outside of transactions, and all within less than a worker's time."""
    seconds = [timeout for _, timeout in asked if timeout is not None]
    return (
        len(seconds) == len(asked) == count
        and not any(in_transaction for in_transaction, _ in asked)
        and max(seconds) < worker_seconds
    )


@pytest.mark.parametrize("button", ["test", "plan"])
def test_R16_an_import_holds_no_transaction_while_it_reads_and_parses(
    committed: Tenant, client: Client, asked: list[tuple[bool, float | None]], button: str
) -> None:
    upload = {"document": SimpleUploadedFile("shop.json", RAW), button: "1"}
    assert client.post("/sources/import/", upload).status_code in (200, 302)
    assert bounded(asked, 1)
    asked.clear()
    assert client.post("/sources/import/", {"server": "sums", button: "1"}).status_code in (200, 302)
    assert bounded(asked, 2)
    with tenant_context(committed.pk):
        assert Source.objects.count() == (2 if button == "plan" else 0)


def test_R16_a_test_of_a_server_and_a_plan_made_again_hold_no_transaction_either(
    committed: Tenant, client: Client, asked: list[tuple[bool, float | None]]
) -> None:
    with tenant_context(committed.pk):
        server = McpServer.objects.get()
    assert "It answered with 1 tool" in client.post(f"/servers/{server.pk}/test/").content.decode()
    assert bounded(asked, 2)
    client.post("/sources/import/", {"document": SimpleUploadedFile("shop.json", RAW), "plan": "1"})
    with tenant_context(committed.pk):
        sync = Sync.objects.get()
    asked.clear()
    answer = client.post(f"/sources/{sync.source_id}/syncs/{sync.pk}/again/")
    assert answer["Location"].startswith(f"/sources/{sync.source_id}/syncs/")
    assert str(sync.pk) not in answer["Location"]
    assert bounded(asked, 1)


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
    monkeypatch.setattr("tools.web.sources.import_views._rest", lambda begun: 0.01)
    upload = {"document": SimpleUploadedFile("shop.json", RAW), "plan": "1"}
    answer = client.post("/sources/import/", upload)
    assert answer.status_code == 422
    assert "to read and was given up" in answer.content.decode()
