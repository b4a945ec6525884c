"""Of a source that changes all the time the newest syncs and documents are kept (SYN-4: the history of syncs)."""

from __future__ import annotations

from typing import Any

import pytest

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.database import login
from tests.support.imports.documents import document, import_document
from tests.support.imports.syncs import again, apply, nothing_written, parse_here, plan, texts
from tools.imports.fetching import sandbox
from tools.imports.syncing import store
from tools.models import SourceDocument, Sync, SyncState


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(sandbox, "parse", parse_here)
    settings.SYNCS_KEPT = 2


def prune() -> int:
    with login("DATABASE_WORKER_URL"):
        return store.prune_syncs()


def kept(tenant: Tenant) -> tuple[int, set[bytes]]:
    with tenant_context(tenant.pk):
        documents = SourceDocument.objects.values_list("content", flat=True)
        return Sync.objects.count(), {bytes(one) for one in documents}


def test_syn_4_the_newest_syncs_the_plan_that_waits_and_their_documents_stay(
    committed: Tenant, make_tenant: Any
) -> None:
    other = make_tenant()
    import_document(other, document("x"))
    for number in range(5):
        import_document(committed, document("a", a=f"Text {number}."))
    waiting = plan(committed, document("a", "b"))
    before = texts(committed)
    assert prune() == 3
    count, documents = kept(committed)
    assert (count, len(documents)) == (3, 3)
    assert {b"Text 3." in one or b"Text 4." in one for one in documents} == {True, False}
    assert texts(committed) == before
    with nothing_written(committed), nothing_written(other):
        assert prune() == 0
    assert again(committed, waiting).state == SyncState.PLANNED
    apply(committed, waiting)
    assert texts(committed).keys() == {"a", "b"}


def test_syn_4_the_newest_document_of_a_source_stays_though_its_sync_is_long_gone(committed: Tenant) -> None:
    """An old document may be the newest one: what came later was read and said nothing new."""
    import_document(committed, document("a"))
    for _ in range(3):
        import_document(committed, document("b"), confirm_removals=True)
        import_document(committed, document("a"), confirm_removals=True)
    with tenant_context(committed.pk):
        Sync.objects.filter(document=SourceDocument.objects.first()).delete()
    assert prune() > 0
    with nothing_written(committed):
        assert import_document(committed, document("a")).unchanged == 1
