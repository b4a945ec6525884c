"""CAT-1, CAT-8, EMB-2: every write through the services: versions, overrides, refusals, and the history of it all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.counts import scaled
from tests.support.imports.documents import document, import_document
from tests.support.overrides import reset_override
from tests.support.threads import together
from tools import fields
from tools.catalogue import sources
from tools.catalogue.errors import Busy, Invalid, ManagedBySource, NameTaken, StaleVersion
from tools.catalogue.tools import create_tool, delete_tool, refresh_embeddings, update_tool
from tools.models import ManualOverride, Source, Tool, ToolEmbedding

MakeTool = Callable[..., Tool]


def update(tool: Tool, version: int | None = None, **changes: Any) -> Tool:
    return update_tool(pk=tool.pk, expected_version=version or tool.version, changes=changes, actor="olga")


def test_cat_1_an_edit_raises_the_version_and_names_its_author(tenant: Tenant, make_tool: MakeTool) -> None:
    tool = make_tool()
    assert update(tool, description="New.").version == 2
    tool.refresh_from_db()
    assert (tool.version, tool.updated_by, tool.description) == (2, "olga", "New.")
    assert tool.updated_at >= tool.created_at


def test_an_edit_that_changes_nothing_writes_nothing(tenant: Tenant, make_tool: MakeTool, rows: Any) -> None:
    tool = make_tool(tags=["a"])
    before = rows("SELECT xmin, ctid FROM tools_tool")
    assert update(tool, description=tool.description, tags=["a"]).version == 1
    assert rows("SELECT xmin, ctid FROM tools_tool") == before


def test_two_tabs_the_second_gets_the_first_ones_text_and_loses_nothing(
    tenant: Tenant, make_tool: MakeTool
) -> None:
    tool = make_tool()
    update(tool, 1, description="First.")
    with pytest.raises(StaleVersion) as refused:
        update(tool, 1, description="Second.")
    assert refused.value.current.description == "First."
    assert refused.value.current.version == 2
    assert "olga" in str(refused.value)


def test_of_many_edits_of_one_version_exactly_one_wins(committed: Tenant) -> None:
    with tenant_context(committed.pk):
        tool = create_tool(actor="test", tool_id="t", name="t", description="0")

    def edit(text: str) -> Callable[[], Any]:
        def work() -> Any:
            with tenant_context(committed.pk):
                return update_tool(
                    pk=tool.pk, expected_version=version, changes={"description": text}, actor=text
                )

        return work

    for version in range(1, scaled(10) + 1):
        results = together(*(edit(f"{version} by {name}") for name in "abcd"))
        won = [one for one in results if isinstance(one, Tool)]
        assert len(won) == 1
        assert all(isinstance(one, Tool | StaleVersion) for one in results), results
        with tenant_context(committed.pk):
            now = Tool.objects.get(pk=tool.pk)
            assert (now.version, now.description) == (version + 1, won[0].description)


def test_that_race_needs_the_lock(committed: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the row's lock two that read one version both win: the test above can fail.

    Two, because each holds a connection until both have read, and of the pool's four a test before may still hold one."""
    both_have_read = threading.Barrier(2)

    def unlocked(pk: Any) -> Tool:
        tool: Tool = Tool.objects.get(pk=pk)
        both_have_read.wait(20)
        return tool

    with tenant_context(committed.pk):
        tool = create_tool(actor="test", tool_id="t", name="t", description="0")
    monkeypatch.setattr("tools.catalogue.tools._locked", unlocked)

    def work() -> Tool:
        with tenant_context(committed.pk):
            return update_tool(pk=tool.pk, expected_version=1, changes={"description": "x"}, actor="a")

    results = together(work, work)
    assert all(isinstance(one, Tool) for one in results), results


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"name": ""}, "name"), ({"name": "x" * 201}, "name"), ({"semantic_weight": 9}, "semantic_weight"),
     ({"sensitivity": "secret"}, "sensitivity"), ({"parameters": []}, "parameters"), ({"output": "x"}, "output"),
     ({"annotations": 1}, "annotations"), ({"description": "a\x00b"}, "description"), ({"tags": ["\ud800"]}, "tags"),
     ({"parameters": {"a": ["\x00"]}}, "parameters"), ({"parameters": {"a": float("nan")}}, "parameters"),
     ({"tool_id": "x"}, "tool_id"), ({"version": 7}, "version"), ({"source": None}, "source")]
)  # fmt: skip
def test_a_value_that_cannot_be_is_invalid_names_its_field_and_stores_nothing(
    tenant: Tenant, make_tool: MakeTool, changes: dict[str, Any], field: str
) -> None:
    tool = make_tool()
    with pytest.raises(Invalid) as refused:
        update_tool(pk=tool.pk, expected_version=1, changes=changes, actor="olga")
    assert set(refused.value.errors) == {field}
    assert Tool.objects.get().version == 1


def test_a_taken_tool_id_is_said_also_for_an_inactive_tool(tenant: Tenant, make_tool: MakeTool) -> None:
    tool = make_tool(tool_id="mail")
    update(tool, active=False)
    with pytest.raises(NameTaken, match="perhaps inactive"):
        make_tool(tool_id="mail")
    make_tool(tool_id="mail", namespace="other")


def test_a_held_row_is_busy_within_the_lock_timeout(committed: Tenant, admin_database: Any) -> None:
    with tenant_context(committed.pk):
        tool = create_tool(actor="test", tool_id="t", name="t", description="0")
    with admin_database.transaction():
        admin_database.execute("SELECT 1 FROM tools_tool WHERE id = %s FOR UPDATE", [tool.pk])
        with tenant_context(committed.pk), pytest.raises(Busy):
            update(tool, description="x")
        with tenant_context(committed.pk), pytest.raises(Busy):
            refresh_embeddings(pks=[tool.pk])


def test_deleting_a_tool_takes_its_vector_and_task_and_leaves_its_history(
    tenant: Tenant, make_tool: MakeTool, rows: Any
) -> None:
    tool = make_tool()
    pk = tool.pk
    delete_tool(pk=pk, actor="olga")
    assert not ToolEmbedding.objects.exists()
    assert rows("SELECT count(*) FROM embeddings_embeddingtask") == [(0,)]
    assert rows("SELECT count(*) FROM tools_posting") == [(0,)]
    assert rows("SELECT pgh_label, pgh_context ->> 'actor' FROM tools_toolevent WHERE pgh_obj_id = %s ORDER BY pgh_id", [pk]) == [
        ("insert", "test"), ("delete", "olga"),
    ]  # fmt: skip


def test_syn_5_an_imported_tool_is_deactivated_instead_of_deleted(tenant: Tenant, rows: Any) -> None:
    import_document(tenant, document("a"))
    tool = Tool.objects.get()
    with pytest.raises(ManagedBySource, match="Deactivate it instead"):
        delete_tool(pk=tool.pk, actor="olga")
    update(tool, active=False)
    assert rows("SELECT count(*) FROM embeddings_embeddingtask") == [(0,)]
    update(Tool.objects.get(), active=True)
    assert rows("SELECT count(*) FROM embeddings_embeddingtask") == [(1,)]


def test_deleting_a_source_takes_everything_of_it_and_nothing_else(
    tenant: Tenant, make_tool: MakeTool, rows: Any
) -> None:
    make_tool()
    import_document(tenant, document("a", "b"))
    import_document(tenant, document("a"), "other")
    assert sources.delete_source(pk=Source.objects.get(slug="shop").pk, actor="olga") == 2
    assert Tool.objects.count() == 2
    assert rows("SELECT count(*) FROM tools_endpoint") == [(1,)]
    assert rows("SELECT count(*) FROM tools_toolembedding") == [(2,)]
    assert rows("SELECT count(*) FROM embeddings_embeddingtask") == [(2,)]


def test_a_source_is_deleted_and_its_tools_stay_inactive_without_overrides_or_tasks(
    tenant: Tenant, make_tool: MakeTool, rows: Any
) -> None:
    make_tool()
    import_document(tenant, document("a", "b"))
    edited = Tool.objects.get(name="a")
    update(edited, description="Ours.")
    assert sources.delete_source(pk=Source.objects.get().pk, actor="olga", tools="deactivate") == 2
    kept = Tool.objects.filter(source=None, endpoint=None, active=False)
    assert dict(kept.values_list("name", "updated_by")) == {"a": "olga", "b": "olga"}
    assert Tool.objects.get(name="a").description == "Ours."
    for table, count in (("manualoverride", 0), ("endpoint", 0), ("toolembedding", 3)):
        assert rows(f"SELECT count(*) FROM tools_{table}") == [(count,)]
    assert rows("SELECT count(*) FROM tools_toolembedding WHERE active") == [(1,)]
    assert rows("SELECT count(*) FROM embeddings_embeddingtask") == [(1,)]


# --- CAT-8 ----------------------------------------------------------------------------------------------------------

EVENTS = "SELECT pgh_label, description, pgh_context ->> 'actor' FROM tools_toolevent WHERE pgh_obj_id = %s ORDER BY pgh_id"


def test_cat_8_history_sees_service_bulk_and_raw_writes(committed: Tenant, rows: Any) -> None:
    with tenant_context(committed.pk):
        tool = create_tool(actor="test", tool_id="t", name="t", description="0")
        update(tool, description="by a service")
    # On the same connection: an author ends with the transaction that named them.
    with tenant_context(committed.pk):
        Tool.objects.filter(pk=tool.pk).update(description="by a queryset")
        one = Tool.objects.get(pk=tool.pk)
        one.description = "in bulk"
        Tool.objects.bulk_update([one], ["description"])
        with connection.cursor() as cursor:
            cursor.execute("UPDATE tools_tool SET description = 'by SQL' WHERE id = %s", [tool.pk])
            cursor.execute("DELETE FROM tools_tool WHERE id = %s", [tool.pk])
        assert rows(EVENTS, [tool.pk]) == [
            ("insert", "0", "test"), ("update", "by a service", "olga"), ("update", "by a queryset", None),
            ("update", "in bulk", None), ("update", "by SQL", None), ("delete", "by SQL", None),
        ]  # fmt: skip


def test_cat_8_history_covers_every_field_that_an_operator_can_edit() -> None:
    event = Tool._meta.get_field("events").related_model
    tracked = {field.name for field in event._meta.fields}
    assert tracked >= set(fields.EDITABLE)
    assert "search_vector" not in tracked
    assert "search_text" not in tracked


def test_cat_8_overrides_and_imports_have_their_author(tenant: Tenant, rows: Any) -> None:
    import_document(tenant, document("a"))
    tool = Tool.objects.get()
    update(tool, description="Ours.")
    reset_override(pk=tool.pk, field="description", actor="rita")
    assert rows(EVENTS, [tool.pk])[0][2] == "importer"
    assert [event[2] for event in rows(EVENTS, [tool.pk])] == ["importer", "olga", "rita"]
    assert rows(
        "SELECT pgh_label, value #>> '{}', pgh_context ->> 'actor' FROM tools_manualoverrideevent ORDER BY pgh_id"
    ) == [("insert", "Ours.", "olga"), ("delete", "Ours.", "rita")]


def test_cat_8_history_belongs_to_the_tenant(
    tenant: Tenant, make_tool: MakeTool, make_tenant: Any, rows: Any
) -> None:
    make_tool()
    with tenant_context(make_tenant().pk):
        assert rows("SELECT count(*) FROM tools_toolevent") == [(0,)]


def test_emb_6_embedding_writes_leave_version_time_and_history_alone(
    tenant: Tenant, make_tool: MakeTool, rows: Any
) -> None:
    tool = make_tool()
    before = (
        rows("SELECT version, updated_at, xmin FROM tools_tool"),
        rows("SELECT count(*) FROM tools_toolevent"),
    )
    assert refresh_embeddings(pks=[tool.pk]) == 1
    ToolEmbedding.objects.update(status="failed")
    assert refresh_embeddings(pks=[tool.pk]) == 1
    assert (
        rows("SELECT version, updated_at, xmin FROM tools_tool"),
        rows("SELECT count(*) FROM tools_toolevent"),
    ) == before


def test_emb_2_the_task_is_in_the_transaction_of_the_write(
    tenant: Tenant, make_tool: MakeTool, rows: Any
) -> None:
    tool = make_tool()
    wanted = ToolEmbedding.objects.get().source_hash
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        update(tool, description="New.")
        assert ToolEmbedding.objects.get().source_hash != wanted
        raise ZeroDivisionError
    assert ToolEmbedding.objects.get().source_hash == wanted
    assert rows("SELECT source_hash FROM embeddings_embeddingtask") == [(wanted,)]


def test_case_46_no_worker_is_woken_for_a_write_that_is_rolled_back(
    committed: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    from embeddings.queue.enqueue import wakeup

    rung: list[int] = []
    monkeypatch.setattr(wakeup, "notify", lambda: rung.append(1))
    with pytest.raises(ZeroDivisionError), tenant_context(committed.pk):
        create_tool(actor="test", tool_id="t", name="t", description="0")
        raise ZeroDivisionError
    assert rung == []
    with tenant_context(committed.pk):
        create_tool(actor="test", tool_id="t", name="t", description="0")
        assert rung == []  # not before the rows can be seen
    assert rung


def test_a_refresh_never_brings_an_older_text_back(committed: Tenant) -> None:
    """An edit while a refresh waits for the tool: the embedding wants the edit's text and not the refresh's."""
    with tenant_context(committed.pk):
        tool = create_tool(actor="test", tool_id="t", name="t", description="0")
    written, go_on = threading.Event(), threading.Event()

    def edit() -> str:
        with tenant_context(committed.pk):
            update_tool(pk=tool.pk, expected_version=1, changes={"description": "1"}, actor="a")
            wanted: str = ToolEmbedding.objects.get().source_hash
            written.set()
            go_on.wait(0.5)
        return wanted

    def refresh() -> int:
        assert written.wait(20)
        with tenant_context(committed.pk):
            return refresh_embeddings(pks=[tool.pk])

    wanted, refreshed = together(edit, refresh)
    assert refreshed == 1
    with tenant_context(committed.pk):
        assert ToolEmbedding.objects.get().source_hash == wanted


def test_an_override_is_recorded_once_however_often_it_is_edited(tenant: Tenant) -> None:
    import_document(tenant, document("a", a="Imported."))
    for text in ("One.", "Two.", "Three."):
        update(Tool.objects.get(), description=text)
    override = ManualOverride.objects.get()
    assert (override.value, override.imported_value) == ("Three.", "Imported.")
    assert Tool.objects.filter(version=F("version")).get().version == 4


def test_what_people_write_of_a_tool_has_a_bound_that_a_list_of_tools_can_hold_S8(
    tenant: Tenant, make_tool: MakeTool
) -> None:
    import_document(tenant, document("fish", fish="Feeds fish."), "zoo")
    hand_made, imported = make_tool(), Tool.objects.get(tool_id="fish")
    for tool in (hand_made, imported):
        wanted = update(tool, description="d" * 60_000)
        # Field by field does not get further than all at once.
        with pytest.raises(Invalid, match="may have 100 kB together; these have 1"):
            update(wanted, use_cases=["u" * 50_000])
        assert update(wanted, use_cases=["u" * 30_000], active=False).version == 3
    with pytest.raises(Invalid, match="description: The texts"):
        create_tool(actor="olga", tool_id="x", name="X", description="ä" * 60_000)
    tool = make_tool(parameters={"type": "object", "properties": {"a": {}, "b": {}}})
    with pytest.raises(Invalid, match="may have 100 kB together"):
        update(tool, parameter_descriptions={"a": "a" * 60_000, "b": "b" * 60_000})
