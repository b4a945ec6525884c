from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.web.conftest import DOCUMENT
from tools import services
from tools.imports.fetch import FetchRefused
from tools.models import Source, Tool

RAW = (DOCUMENT % "Lists orders.").encode()
HTMX = {"HX-Request": "true"}


def upload(raw: bytes = RAW) -> SimpleUploadedFile:
    return SimpleUploadedFile("shop.yaml", raw)


def test_SYN_1_a_preview_counts_and_stores_nothing(operator_client: Client) -> None:
    answer = operator_client.post("/sources/import/", {"document": upload(), "preview": "1"}, headers=HTMX)
    html = answer.content.decode()
    assert answer.status_code == 200
    assert "<html" not in html
    assert "Preview of shop" in html
    assert "Nothing was stored" in html
    assert not Source.objects.exists()


def test_SYN_1_an_upload_becomes_a_source_with_tools(operator_client: Client) -> None:
    answer = operator_client.post("/sources/import/", {"document": upload(), "import": "1"})
    html = answer.content.decode()
    assert "Imported shop" in html
    assert 'href="/tools/?source=shop"' in html
    assert Tool.objects.get().namespace == "shop"
    source = Source.objects.get()
    assert "shop" in operator_client.get("/sources/").content.decode()
    page = operator_client.get(f"/sources/{source.pk}/").content.decode()
    assert "shop.yaml" in page
    assert "1 tools" in page


def test_SYN_1_a_pasted_text_needs_a_name_and_is_kept(operator_client: Client) -> None:
    answer = operator_client.post("/sources/import/", {"text": RAW.decode(), "import": "1"})
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "say what its source is called" in html
    assert "operationId: listOrders" in html
    answer = operator_client.post(
        "/sources/import/", {"text": RAW.decode(), "source": "pasted", "import": "1"}
    )
    assert answer.status_code == 200
    assert Source.objects.get().slug == "pasted"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "Choose a file, give a URL, or paste the document."),
        ({"text": "a: 1", "url": "https://e.com/x.json", "source": "s"}, "Give the document once"),
        ({"text": "a: [1", "source": "s"}, "cannot be read"),
        ({"text": "a: 1", "source": "s"}, "openapi"),
        ({"text": "a: 1", "source": "No Such Name"}, "Use lower-case letters"),
        ({"url": "http://127.0.0.1/openapi.json"}, "Only public addresses"),
        ({"url": "ftp://example.org/openapi.json"}, "URL"),
    ],
)
def test_SYN_1_a_refused_document_gives_one_sentence_and_422(
    operator_client: Client, fields: dict[str, str], sentence: str
) -> None:
    answer = operator_client.post("/sources/import/", {**fields, "import": "1"}, headers=HTMX)
    assert answer.status_code == 422
    assert sentence in answer.content.decode()
    assert not Source.objects.exists()


def test_SEC_2_a_url_is_fetched_by_the_guarded_door_only(
    operator_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def document(url: str) -> bytes:
        asked.append(url)
        if "refuse" in url:
            raise FetchRefused("The server answered 404 instead of the document.")
        return RAW

    monkeypatch.setattr("tools.web.sources.fetch.document", document)
    answer = operator_client.post("/sources/import/", {"url": "https://api.example.org/v1/refuse.json"})
    assert answer.status_code == 422
    assert "answered 404" in answer.content.decode()
    answer = operator_client.post(
        "/sources/import/", {"url": "https://api.example.org/v1/shop.json", "import": "1"}
    )
    assert answer.status_code == 200
    assert Source.objects.get().url == asked[1] == "https://api.example.org/v1/shop.json"


def test_SYN_5_the_switch_decides_who_wins(
    operator_client: Client, viewer_client: Client, imported_tool: Tool
) -> None:
    path = f"/sources/{imported_tool.source_id}/sync-wins/"
    assert viewer_client.post(path, {"sync_wins": "yes"}).status_code == 403
    operator_client.post(path, {"sync_wins": "yes"})
    assert Source.objects.get().sync_wins
    operator_client.post(path, {"sync_wins": "no"})
    assert not Source.objects.get().sync_wins


def test_a_source_is_deleted_with_its_tools_after_a_question_that_counts_them(
    admin_client: Client, operator_client: Client, imported_tool: Tool
) -> None:
    path = f"/sources/{imported_tool.source_id}/delete/"
    assert operator_client.post(path).status_code == 403
    assert "Delete source and 1 tools" in admin_client.get(path).content.decode()
    assert admin_client.post(path).status_code == 302
    assert not Tool.objects.exists()
    assert admin_client.get(path).status_code == 404


def test_the_source_page_counts_edits(operator_client: Client, imported_tool: Tool) -> None:
    services.update_tool(pk=imported_tool.pk, expected_version=1, changes={"description": "Mine."}, actor="x")
    assert "1 edited by hand" in operator_client.get(f"/sources/{imported_tool.source_id}/").content.decode()
    assert "No sources yet" not in operator_client.get("/sources/").content.decode()
