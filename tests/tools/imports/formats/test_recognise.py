"""One box for three kinds of document (issue 4): what it got is seen from what the document holds."""

from __future__ import annotations

import json

import pytest

from tests.support.imports.limits import parse_document
from tests.support.imports.parsing import shared
from tools.imports.formats.specs import DocumentRefused

LIGHT = {"lightapi": "0.1.0", "info": {"title": "A", "namespace": "a", "version": "1"},
         "operations": {"ping": {"protocol": "http", "method": "GET", "endpoint": "/ping", "summary": "Ping"}}}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("openapi/petstore-2.0.json", "openapi"),
        ("openapi/petstore-3.0.yaml", "openapi"),
        ("openapi/webhooks-only-3.1.json", "openapi"),
        ("mcp/everything.json", "mcp"),
        ("cases/53-pasted-tools-list/bare.json", "mcp"),
        ("cases/53-pasted-tools-list/sse.txt", "mcp"),
        ("lightapi/raw-http-health.lightapi.yaml", "lightapi"),
    ],
)
def test_a_document_shows_what_it_is_SYN_1_SYN_2_SYN_3(name: str, kind: str) -> None:
    assert parse_document(shared(name), name=name).kind == kind


def test_a_field_with_a_common_name_confuses_nobody() -> None:
    assert (
        parse_document(json.dumps({"openapi": "3.0.0", "paths": {}, "tools": []}).encode()).kind == "openapi"
    )
    assert parse_document(json.dumps({**LIGHT, "info": LIGHT["info"]}).encode()).kind == "lightapi"


def test_what_could_be_two_kinds_is_asked_about_and_then_read_as_told() -> None:
    both = json.dumps({**LIGHT, "openapi": "3.0.0", "paths": {"/a": {"get": {}}}}).encode()
    with pytest.raises(
        DocumentRefused, match=r"could be OpenAPI \(it has 'openapi'\) or LightAPI .* Say which it is"
    ):
        parse_document(both)
    assert len(parse_document(both, kind="openapi").endpoints) == 1


@pytest.mark.parametrize("raw", [b"{}", b"7", b"[]", b"[1]", b'{"swag": "2.0"}'])
def test_what_is_none_of_the_three_is_refused_with_what_was_looked_for(raw: bytes) -> None:
    with pytest.raises(
        DocumentRefused, match="not an OpenAPI document, a list of MCP tools or a LightAPI description"
    ):
        parse_document(raw)
