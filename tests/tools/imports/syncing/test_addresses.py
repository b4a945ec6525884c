"""Where a source is read decides what its scheduled syncs write, with the tenant's rights; so who may not see every sensitivity does
not move it (SEC-4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from portal.tenancy.rights import Rights, acting_with
from tests.support.imports.documents import document
from tests.support.imports.syncs import nothing_written, parse_here
from tools.catalogue.errors import BeyondRights
from tools.catalogue.servers import update_server
from tools.catalogue.sources import update_source
from tools.imports.fetching import sandbox
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.models import McpServer, Source, SourceKind

OURS, THEIRS = "https://api.example/openapi.json", "https://attacker.example/openapi.json"
Do = Callable[[IncomingDocument], object]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "parse", parse_here)


def bound_key(tenant: Tenant) -> AbstractContextManager[None]:
    """A key that may do everything, to tools that are internal at most."""
    return acting_with(Rights(tenant.pk, "API key ci", frozenset({"admin"}), "internal"))


def from_address(url: str, *names: str) -> IncomingDocument:
    return IncomingDocument(json.dumps(document(*names)).encode(), url or "shop.json", "shop", url=url)


def scheduled(tenant: Tenant) -> Source:
    """A source that is read daily at OURS, and applied by itself; all of its tools are internal."""
    syncs.import_document(from_address(OURS, "a"), tenant_id=tenant.pk, actor="olga")
    with tenant_context(tenant.pk):
        source = Source.objects.get()
        return update_source(pk=source.pk, actor="olga", schedule="daily", auto_apply=True)


def read_at(tenant: Tenant) -> str:
    with tenant_context(tenant.pk):
        return Source.objects.get().url


@pytest.mark.parametrize("way", ["import", "dry run", "plan"])
def test_a_key_bound_to_a_sensitivity_does_not_move_a_source_by_an_import_SEC_4(
    committed: Tenant, way: str
) -> None:
    scheduled(committed)
    options: dict[str, Any] = {"tenant_id": committed.pk, "actor": "API key ci"}
    ways: dict[str, Do] = {
        "import": lambda given: syncs.import_document(given, **options),
        "dry run": lambda given: syncs.import_document(given, **options, dry_run=True),
        "plan": lambda given: syncs.plan_document(given, **options),
    }
    with bound_key(committed):
        with nothing_written(committed), pytest.raises(BeyondRights, match="internal at most"):
            ways[way](from_address(THEIRS, "a", "b"))
        # Its own address, or none, moves nothing.
        ways[way](from_address(OURS, "a", "b"))
        ways[way](from_address("", "a", "b", "c"))
    assert read_at(committed) == OURS


def test_a_plan_that_moves_a_source_is_applied_by_those_who_may_move_it_SEC_4(committed: Tenant) -> None:
    scheduled(committed)
    plan = syncs.plan_document(from_address(THEIRS, "a", "b"), tenant_id=committed.pk, actor="olga")
    options: dict[str, Any] = {"tenant_id": committed.pk, "sync_id": plan.pk, "actor": "x"}
    with bound_key(committed), nothing_written(committed), pytest.raises(BeyondRights):
        syncs.apply_sync(**options)
    assert read_at(committed) == OURS
    syncs.apply_sync(**options)
    assert read_at(committed) == THEIRS


def test_a_key_bound_to_a_sensitivity_makes_sources_of_its_own_SEC_4(committed: Tenant) -> None:
    with bound_key(committed):
        syncs.import_document(from_address(THEIRS, "a"), tenant_id=committed.pk, actor="API key ci")
    assert read_at(committed) == THEIRS


def test_a_key_bound_to_a_sensitivity_does_not_move_the_server_of_a_source_SEC_4(tenant: Tenant) -> None:
    used = McpServer.objects.create(slug="used", url=OURS)
    Source.objects.create(slug="shop", kind=SourceKind.MCP, server=used)
    with bound_key(tenant), pytest.raises(BeyondRights):
        update_server(pk=used.pk, actor="API key ci", url=THEIRS)
    assert McpServer.objects.get(pk=used.pk).url == OURS
