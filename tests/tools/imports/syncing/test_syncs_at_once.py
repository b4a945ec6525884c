"""SYN-4, SYN-5, R16: syncs beside edits, beside each other, and beside the deletion of their source."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.counts import scaled
from tests.support.imports.documents import document, import_document
from tests.support.imports.syncs import again, apply, edit, plan, texts, tool
from tests.support.threads import in_thread, together
from tests.support.waiting import wait_until_blocks
from tools.catalogue import overrides, sources
from tools.catalogue.errors import Busy, CatalogueError, StaleVersion, WrongSyncState
from tools.catalogue.tools import update_tool
from tools.models import Endpoint, ManualOverride, Source, Sync, SyncState, Tool, ToolEmbedding

NAMES = tuple(f"op{number:02}" for number in range(12))


pytestmark = pytest.mark.usefixtures("parse_in_process")


def ids(tenant: Tenant) -> list[UUID]:
    with tenant_context(tenant.pk):
        return list(Tool.objects.values_list("pk", flat=True))


def patiently(write: Callable[[], Any]) -> Any:
    """Its result; what is told to try again tries again."""
    while True:
        try:
            return write()
        except Busy:
            time.sleep(random.uniform(0, 0.02))


class Paused:
    """The last step of a sync's transaction, which waits there until it is let go."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.go_on.wait(20)


def test_syn_5_an_edit_of_what_a_sync_is_writing_is_told_to_try_again_within_seconds(
    committed: Tenant,
) -> None:
    import_document(committed, document("a", "b"))
    sync, paused = plan(committed, document("a", "b", a="New.")), Paused()
    with in_thread(lambda: apply(committed, sync, finish=paused)):
        assert paused.reached.wait(20)
        edit(committed, "b", description="Another tool can be edited meanwhile.")
        began = time.monotonic()
        with pytest.raises(Busy, match=r"such as a sync, is changing this right now\. Try again"):
            edit(committed, "a", description="Ours.")
        took = time.monotonic() - began
        paused.go_on.set()
    assert took < 4  # lock_timeout is two seconds
    assert texts(committed) == {"a": "New.", "b": "Another tool can be edited meanwhile."}
    edit(committed, "a", description="Ours.")
    assert tool(committed, "a").description == "Ours."


def test_syn_5_an_edit_that_waited_for_a_sync_is_refused_as_stale_and_overwrites_nothing(
    committed: Tenant,
) -> None:
    import_document(committed, document("a", "b"))
    seen = tool(committed, "a")
    sync, paused = plan(committed, document("a", "b", a="New.")), Paused()

    def edit_late() -> None:
        assert paused.reached.wait(20)
        threading.Timer(0.3, paused.go_on.set).start()
        with tenant_context(committed.pk), pytest.raises(StaleVersion, match="anton saved this tool"):
            update_tool(
                pk=seen.pk, expected_version=seen.version, changes={"description": "Ours."}, actor="olga"
            )

    with in_thread(edit_late):
        apply(committed, sync, finish=paused)
    assert texts(committed)["a"] == "New."


def test_syn_4_a_second_sync_of_a_source_that_is_being_synced_is_told_to_try_again(
    committed: Tenant,
) -> None:
    import_document(committed, document("a", "b"))
    sync, paused = plan(committed, document("a", "b", a="New.")), Paused()
    with in_thread(lambda: apply(committed, sync, finish=paused)):
        assert paused.reached.wait(20)
        for second in (
            lambda: import_document(committed, document("a", "b", a="Newer.")),
            lambda: plan(committed, document("a", "b", a="Newer.")),
            lambda: apply(committed, sync),
        ):
            with pytest.raises(Busy):
                second()
        # Another source of the tenant is not in its way.
        assert import_document(committed, document("a"), "other").added == 1
        paused.go_on.set()
    assert tool(committed, "a").description == "New."


def test_syn_4_a_plan_that_is_applied_twice_at_once_is_applied_once(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    for round_ in range(5):
        sync = plan(committed, document("a", "b", a=f"Round {round_}."))
        version = tool(committed, "a").version
        results = together(*[partial(apply, committed, sync)] * 3)
        assert sum(not isinstance(one, Exception) for one in results) == 1
        assert all(isinstance(one, WrongSyncState | Busy) for one in results if isinstance(one, Exception))
        assert (tool(committed, "a").version, tool(committed, "a").description) == (
            version + 1, f"Round {round_}.",
        )  # fmt: skip


def test_syn_4_of_plans_that_are_made_at_once_one_is_left(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    results = together(*(partial(plan, committed, document("a", "b", a=f"Text {n}.")) for n in range(3)))
    made = [one for one in results if isinstance(one, Sync)]
    assert made
    assert all(isinstance(one, Sync | Busy) for one in results), results
    with tenant_context(committed.pk):
        [left] = Sync.objects.filter(state=SyncState.PLANNED)
    assert left.pk in {one.pk for one in made}
    apply(committed, left)


def test_r16_an_edit_that_activates_a_tool_and_a_sync_that_brings_it_back_never_deadlock(
    committed: Tenant, admin_database: psycopg.Connection[Any]
) -> None:
    """The edit holds the tool and is about to write its endpoint, which the sync wants as well."""
    import_document(committed, document("a", "b"))
    import_document(committed, document("b"), confirm_removals=True)
    sync, holds_the_tool = plan(committed, document("a", "b", a="New.")), threading.Event()

    def when_the_sync_waits(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith('UPDATE "tools_endpoint"'):
            mine = connection.connection.info.backend_pid
            holds_the_tool.set()
            wait_until_blocks(mine, admin_database, "the sync waits for the edit")
        return execute(sql, *rest)

    def activate() -> None:
        with connection.execute_wrapper(when_the_sync_waits):
            edit(committed, "a", active=True)

    with in_thread(activate):
        assert holds_the_tool.wait(20)
        apply(committed, sync)
    now = tool(committed, "a")
    assert now.endpoint is not None
    assert (now.active, now.description) == (True, "New.")
    assert (now.endpoint.active, now.endpoint.deactivated_tool) == (True, False)


# --- Deleted meanwhile --------------------------------------------------------------------------------------------------
def delete(tenant: Tenant) -> int:
    with tenant_context(tenant.pk):
        return sources.delete_source(pk=Source.objects.get().pk, actor="olga")


def nothing_is_left(tenant: Tenant) -> None:
    with tenant_context(tenant.pk), connection.cursor() as cursor:
        for model in (Source, Endpoint, Tool, ManualOverride, ToolEmbedding, Sync):
            assert not model.objects.exists()
        cursor.execute("SELECT count(*) FROM embeddings_embeddingtask")
        assert cursor.fetchall() == [(0,)]


def test_a_source_that_is_deleted_while_a_plan_is_applied_goes_after_it_with_all_of_its_tools(
    committed: Tenant,
) -> None:
    import_document(committed, document("a", "b"))
    sync, paused = plan(committed, document("a", "b", "c")), Paused()
    with in_thread(lambda: apply(committed, sync, finish=paused)):
        assert paused.reached.wait(20)
        threading.Timer(0.3, paused.go_on.set).start()
        assert delete(committed) == 3
    nothing_is_left(committed)
    with pytest.raises(Sync.DoesNotExist):
        apply(committed, sync)


def test_a_source_that_is_deleted_and_applied_at_one_moment_leaves_nothing_or_all(committed: Tenant) -> None:
    for _ in range(5):
        import_document(committed, document("a", "b"))
        edit(committed, "a", description="Ours.")
        sync = plan(committed, document("a", "b", "c"))
        applied, deleted = together(partial(apply, committed, sync), partial(delete, committed))
        assert not isinstance(applied, Exception) or isinstance(applied, CatalogueError | Sync.DoesNotExist)
        if isinstance(deleted, Busy):
            assert again(committed, sync).state == SyncState.APPLIED
            delete(committed)
        nothing_is_left(committed)


# --- Many at once -------------------------------------------------------------------------------------------------------
def syncs_and_edits_lose_nothing(tenant: Tenant, saves: int) -> None:
    """Two operators edit the tools that an importer syncs to one text and another, and a third one resets all overrides of
    a field, again and again. Four connections, which is all that a process has."""
    import_document(tenant, document(*NAMES))
    pks, said = ids(tenant), dict[UUID, str]()
    at_work = threading.Semaphore(0)
    over = threading.Event()

    def operate(mine: list[UUID], name: str) -> None:
        try:
            for number in range(saves):
                pk, text = mine[number % len(mine)], f"{name} wrote {number}."
                patiently(partial(save, tenant, pk, name, description=text, tags=[name]))
                said[pk] = text
        finally:
            at_work.release()

    def import_on() -> int:
        imports = 0
        while not over.is_set():
            imports += 1
            told = {name: f"{imports} of {name}." for name in NAMES}
            patiently(partial(import_document, tenant, document(*NAMES, **told)))
        return imports

    def reset_on() -> int:
        resets = 0
        while not over.is_set():
            resets += patiently(partial(reset_all, tenant, "tags"))
            if at_work.acquire(timeout=0.01):
                at_work.acquire()
                over.set()
        return resets

    *edited, imports, resets = together(
        partial(operate, pks[::2], "olga"), partial(operate, pks[1::2], "otto"), import_on, reset_on
    )
    assert edited == [None, None], edited
    assert imports > 1, imports
    assert resets > 1, resets
    with tenant_context(tenant.pk):
        written = dict(ManualOverride.objects.filter(field="description").values_list("tool_id", "value"))
        shown = dict(Tool.objects.filter(pk__in=list(said)).values_list("pk", "description"))
        imported = Tool.objects.values_list("endpoint__description", flat=True)
        assert len({text.split()[0] for text in imported}) == 1  # whole imports only
    assert written == shown == said


def save(tenant: Tenant, pk: UUID, actor: str, **changes: Any) -> None:
    """As a person who looks again at what somebody saved in between."""
    while True:
        with tenant_context(tenant.pk):
            version = Tool.objects.get(pk=pk).version
        try:
            with tenant_context(tenant.pk):
                update_tool(pk=pk, expected_version=version, changes=changes, actor=actor)
        except StaleVersion:
            continue
        return


def reset_all(tenant: Tenant, field: str) -> int:
    with tenant_context(tenant.pk):
        rows = list(ManualOverride.objects.filter(field=field).values_list("pk", flat=True))
        return overrides.reset_many(overrides=rows, actor="rita")


def test_r16_edits_beside_syncs_and_resets_of_the_same_tools_lose_nothing_and_never_deadlock(
    committed: Tenant,
) -> None:
    syncs_and_edits_lose_nothing(committed, scaled(24))


@pytest.mark.slow
def test_r16_that_test_notices_a_sync_that_does_not_know_of_overrides(
    committed: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.imports.syncing.apply._Writer._overrides", lambda self, tools: {})
    with pytest.raises(AssertionError):
        syncs_and_edits_lose_nothing(committed, 20)
