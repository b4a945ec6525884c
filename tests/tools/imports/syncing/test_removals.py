"""R16: a sync that would remove many tools needs a confirmation; a document that is cut off or partial removes none."""

from __future__ import annotations

import json
from functools import partial

import pytest

from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.imports.syncs import (
    apply,
    nothing_written,
    plan,
    texts,
)
from tools.catalogue.errors import RemovalsNeedConfirmation
from tools.imports.formats.specs import DocumentRefused
from tools.models import SyncState

SIX = ("a", "b", "c", "d", "e", "f")


pytestmark = pytest.mark.usefixtures("parse_in_process")


def test_r16_a_fifth_may_vanish_and_more_needs_a_confirmation(committed: Tenant) -> None:
    five = ("a", "b", "c", "d", "e")
    import_document(committed, document(*five))
    for doing in (
        partial(import_document, committed),
        lambda content: apply(committed, plan(committed, content)),
    ):
        with (
            nothing_written(committed, "tools_source", "tools_sourcedocument"),
            pytest.raises(RemovalsNeedConfirmation, match=r"2 of 5 tools would vanish \(40%\)"),
        ):
            doing(document("a", "b", "c"))
    assert import_document(committed, document("a", "b", "c", "d")).removed == 1
    sync = plan(committed, document("a", "b"))
    assert sync.state == SyncState.PLANNED
    assert apply(committed, sync, confirm_removals=True).removed == 2
    assert texts(committed).keys() == {"a", "b"}


def test_r16_a_choice_with_few_of_the_removals_needs_none(committed: Tenant) -> None:
    import_document(committed, document(*SIX))
    sync = plan(committed, document("a", "b", "c"))
    assert apply(committed, sync, "f").removed == 1
    assert texts(committed).keys() == {"a", "b", "c", "d", "e"}


def test_r16_an_empty_document_takes_nothing_away_without_being_asked(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    with nothing_written(committed), pytest.raises(RemovalsNeedConfirmation):
        import_document(committed, document())


def test_r16_a_document_cut_anywhere_is_refused_or_stopped(committed: Tenant) -> None:
    """YAML that ends early may still be YAML, so that only the guard is left."""
    content = document(*SIX)
    yaml = "\n".join(
        ["openapi: 3.0.0", "info: {title: Shop, version: '1'}", "paths:"]
        + [f"  {path}: {json.dumps(item)}" for path, item in content["paths"].items()]
    ).encode()
    assert import_document(committed, yaml).added == 6
    for cut in range(len(yaml) // 8, len(yaml) - 1, len(yaml) // 8):
        with (
            nothing_written(committed, "tools_source", "tools_sourcedocument"),
            pytest.raises((DocumentRefused, RemovalsNeedConfirmation)),
        ):
            import_document(committed, yaml[:cut])


def test_syn_2_a_list_with_more_pages_than_it_has_removes_nothing(committed: Tenant) -> None:
    def listed(*names: str, **more: str) -> bytes:
        tools = [
            {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}}
            for name in names
        ]
        return json.dumps({"tools": tools, **more}).encode()

    import_document(committed, listed("a", "b", "c"))
    report = import_document(committed, listed("a", nextCursor="more"))
    assert (report.removed, report.unchanged) == (0, 1)
    assert texts(committed).keys() == {"a", "b", "c"}
