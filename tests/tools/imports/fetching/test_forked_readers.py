"""The readers of most tests are forked (tests/support/imports/readers.py): what they say is what a started one says."""

from __future__ import annotations

import pytest

from tests.support.imports import bombs, readers
from tests.support.imports.parsing import shared
from tools.imports.fetching import sandbox
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
    monkeypatch.setattr(sandbox, "subprocess", readers)
    assert said("any", DOCUMENTS[what]) == started


def test_a_forked_reader_has_the_bounds_of_a_started_one_S10(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "subprocess", readers)
    monkeypatch.setattr(sandbox, "WALL_SECONDS", 0.001)
    with pytest.raises(DocumentRefused, match="given up"):
        sandbox.parse("openapi", shared("openapi/netbox-3.0.json"), name="a.json")
