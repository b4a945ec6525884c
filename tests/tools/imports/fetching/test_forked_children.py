"""The children of most tests are forked (tests/support/imports/children.py): what they say is what a started one says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.imports import bombs, children
from tests.support.imports.parsing import shared
from tests.support.servers import mcp_servers
from tools.imports.fetching import sandbox
from tools.imports.fetching.mcp.client import list_tools_from_command
from tools.imports.formats.specs import DocumentRefused, ParsedDocument

DOCUMENTS = {
    "one that is read": b'{"openapi": "3.0.0", "info": {"title": "A", "version": 1}, "paths": {"/a": {"get": {}}}}',
    "one that is refused": b'{"openapi": "3.0.0", "paths": ',
    "a bomb": bombs.REFUSED["tar with a long name"][0](),
}


def said(kind: str, raw: bytes) -> ParsedDocument | str:
    try:
        return sandbox.parse(kind, raw, name="a.json")
    except DocumentRefused as refused:
        return str(refused)


@pytest.mark.parametrize("what", DOCUMENTS)
def test_a_forked_reader_says_what_a_started_one_says(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = said("any", DOCUMENTS[what])
    children.fork(monkeypatch)
    assert said("any", DOCUMENTS[what]) == started


def test_a_forked_session_says_what_a_started_one_says_SYN_2(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MCP_SECONDS = 20
    mcp_servers.allow(settings, tmp_path, one=mcp_servers.plain('{"tools": [{"name": "a"}]}'))
    started = list_tools_from_command("one", "default")
    children.fork(monkeypatch)
    assert list_tools_from_command("one", "default") == started


def test_a_forked_reader_has_the_bounds_of_a_started_one_S10(monkeypatch: pytest.MonkeyPatch) -> None:
    children.fork(monkeypatch)
    monkeypatch.setattr(sandbox, "WALL_SECONDS", 0.001)
    with pytest.raises(DocumentRefused, match="given up"):
        sandbox.parse("openapi", shared("openapi/netbox-3.0.json"), name="a.json")
