"""CAT-8: the history of a tool: who did what and when, word by word, whatever wrote it; and an older version restored."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from embeddings.models import EmbeddingTask
from portal.tenancy.models import Tenant
from tests.support.imports.documents import import_document
from tests.support.overrides import keep_override, pets, reset_override
from tools import fields
from tools.catalogue import overrides, servers, sources
from tools.catalogue.history import entries
from tools.catalogue.tools import update_tool
from tools.models import ManualOverride, McpServer, Source, Tool, ToolEmbedding
from tools.web.history.state import PAGE, entry_row, settings_history
from tools.web.overrides.state import label_of
from tools.web.tools.state import seen_version

HTMX = {"HX-Request": "true"}


def edit(tool: Tool, **changes: Any) -> Tool:
    version = Tool.objects.get(pk=tool.pk).version
    return update_tool(pk=tool.pk, expected_version=version, changes=changes, actor="olga")


def history(client: Client, tool: Tool) -> str:
    return client.get(f"/tools/{tool.pk}/history/").content.decode()


def events(tool: Tool) -> list[int]:
    """The numbers of the tool's events, oldest first."""
    return list(tool.events.order_by("pgh_id").values_list("pgh_id", flat=True))  # type: ignore[attr-defined]


def test_CAT_8_history_tells_who_did_what_word_by_word(viewer_client: Client, imported_tool: Tool) -> None:
    edit(imported_tool, description="Lists open orders of the shop.")
    html = history(viewer_client, imported_tool)
    assert "Imported description overridden" in html
    assert "<del>the</del><ins>open</ins>" in html
    assert "Tool created" in html
    assert "importer" in html
    assert "olga" in html
    assert "Restore this" not in html


def test_CAT_8_a_long_history_has_pages(viewer_client: Client, make_tool: Callable[..., Tool]) -> None:
    tool = make_tool()
    for number in range(30):
        edit(tool, owner=f"o{number}")
    first = history(viewer_client, tool)
    assert 'href="?page=2"' in first
    second = viewer_client.get(f"/tools/{tool.pk}/history/?page=2").content.decode()
    assert "Tool created" in second
    assert "Older" not in second
    assert viewer_client.get(f"/tools/{tool.pk}/history/?page=-3").status_code == 200


CHANGED = {
    "name": "other", "description": "Other.", "tool_type": "bash", "category": "c", "subcategory": "s", "tags": ["t"],
    "tech_stack": ["py"], "use_cases": ["Why?"], "routing_domain": "d", "semantic_namespace": "n",
    "sensitivity": "restricted", "target_personas": ["p"], "parameters": {"type": "object", "properties": {"a": {}}},
    "output": {"type": "object"}, "annotations": {"readOnlyHint": True}, "semantic_weight": 2.0, "visibility": "private",
    "lifecycle": "deprecated", "owner": "o", "official": True, "active": False, "core": True, "estimated_cost": "1.5",
}  # fmt: skip


@pytest.mark.parametrize("field", sorted(CHANGED))
def test_CAT_8_every_field_that_an_operator_can_edit_is_seen_and_restored(
    operator_client: Client, make_tool: Callable[..., Tool], field: str
) -> None:
    tool = make_tool()
    before = getattr(Tool.objects.get(), field)
    edit(tool, **{field: CHANGED[field]})
    label = label_of(field).capitalize()
    assert f"<h4>{label}</h4>" in history(operator_client, tool)
    created = events(tool)[0]
    answer = operator_client.post(f"/tools/{tool.pk}/history/{created}/restore/", {"version": 2}, follow=True)
    now = Tool.objects.get()
    if field == "active":
        assert "Nothing to restore" in answer.content.decode()
        assert not now.active
    else:
        assert "Restored." in answer.content.decode()
        assert (getattr(now, field), now.version) == (before, 3)


def test_CAT_8_every_editable_field_is_tried() -> None:
    assert CHANGED.keys() == set(fields.EDITABLE)


def test_CAT_8_history_shows_bulk_and_raw_writes_and_restores_what_they_changed(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool(description="As it was.")
    Tool.objects.filter(pk=tool.pk).update(description="By a queryset.")
    one = Tool.objects.get(pk=tool.pk)
    one.description = "In bulk."
    Tool.objects.bulk_update([one], ["description"])
    with connection.cursor() as cursor:
        # As in a transaction of its own: an author ends with the transaction that named them.
        cursor.execute("SELECT set_config('pghistory.context_metadata', '', true)")
        cursor.execute("SELECT set_config('pghistory.context_id', '', true)")
        cursor.execute("UPDATE tools_tool SET description = 'Written by SQL.' WHERE id = %s", [tool.pk])
    html = history(operator_client, tool)
    for text in ("By a queryset", "In bulk", "Written by SQL"):
        assert f"<ins>{text}</ins>" in html
    assert "unknown" in html
    assert len(events(tool)) == 4
    wanted = ToolEmbedding.objects.get().source_hash
    operator_client.post(f"/tools/{tool.pk}/history/{events(tool)[1]}/restore/", {"version": 1})
    now = Tool.objects.get()
    assert (now.description, now.version) == ("By a queryset.", 2)
    assert ToolEmbedding.objects.get().source_hash != wanted


def test_CAT_8_restore_shows_what_will_change_and_then_overrides_and_embeddings_follow(
    operator_client: Client, tenant: Tenant
) -> None:
    import_document(tenant, pets())
    tool = Tool.objects.get()
    edit(tool, description="First edit.", parameter_descriptions={"body.name": "First edit."})
    edit(tool, description="Second edit.", parameter_descriptions={"body.name": "Second edit."})
    html = history(operator_client, tool)
    assert "Description of body.name" in html
    created, first, _ = events(tool)
    assert f"/tools/{tool.pk}/history/{first}/restore/" in html
    assert f"/tools/{tool.pk}/history/{events(tool)[-1]}/restore/" not in html

    question = operator_client.get(
        f"/tools/{tool.pk}/history/{first}/restore/", headers=HTMX
    ).content.decode()
    assert "<html" not in question
    assert question.count("<del>Second</del><ins>First</ins>") == 2
    assert Tool.objects.get().description == "Second edit."
    wanted = ToolEmbedding.objects.get().source_hash
    operator_client.post(f"/tools/{tool.pk}/history/{first}/restore/", {"version": 3})
    assert dict(ManualOverride.objects.values_list("field", "value")) == {
        "description": "First edit.", "parameters.body.name": "First edit.",
    }  # fmt: skip
    assert ToolEmbedding.objects.get().source_hash != wanted
    assert EmbeddingTask.objects.get().source_hash == ToolEmbedding.objects.get().source_hash
    import_document(tenant, {**pets(), "info": {"title": "Pets", "version": "2"}})
    assert Tool.objects.get().description == "First edit."

    # The version as it was imported: what was written over it goes.
    version = Tool.objects.get().version
    operator_client.post(f"/tools/{tool.pk}/history/{created}/restore/", {"version": version})
    assert not ManualOverride.objects.exists()
    now = Tool.objects.get()
    assert (now.description, now.description_source) == ("Adds a pet.", "endpoint_sync")
    assert now.parameters == now.endpoint.input_schema


def test_CAT_8_a_restored_version_of_before_a_sync_becomes_an_override(
    operator_client: Client, tenant: Tenant
) -> None:
    import_document(tenant, pets())
    tool = Tool.objects.get()
    changed = pets(name="Its call name.")
    changed["paths"]["/pets"]["post"]["description"] = "Registers a pet."
    import_document(tenant, changed)
    operator_client.post(f"/tools/{tool.pk}/history/{events(tool)[0]}/restore/", {"version": 2})
    assert dict(ManualOverride.objects.values_list("field", "value")) == {
        "description": "Adds a pet.", "parameters.body.name": "What it is called.",
    }  # fmt: skip
    assert not overrides.conflicts(ManualOverride.objects.all())


def test_CAT_8_a_restore_over_a_newer_edit_is_refused_with_a_sentence(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    edit(tool, description="Second.")
    path = f"/tools/{tool.pk}/history/{events(tool)[0]}/restore/"
    assert operator_client.get(path).status_code == 200
    edit(tool, description="Third, meanwhile.")
    answer = operator_client.post(path, {"version": 2}, follow=True)
    assert "Nothing was restored. olga saved this tool while you were editing it" in answer.content.decode()
    assert Tool.objects.get().description == "Third, meanwhile."


def test_CAT_8_nothing_is_restored_where_nothing_differs_or_nothing_is(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool, other = make_tool(), make_tool()
    path = f"/tools/{tool.pk}/history/{events(tool)[0]}/restore/"
    assert (
        "Nothing to restore: the tool already matches this version."
        in operator_client.get(path, follow=True).content.decode()
    )
    assert Tool.objects.get(pk=tool.pk).version == 1
    assert operator_client.get(f"/tools/{tool.pk}/history/{events(other)[0]}/restore/").status_code == 404
    assert operator_client.get(f"/tools/{tool.pk}/history/999999999/restore/").status_code == 404


def test_CAT_8_viewers_restore_nothing(viewer_client: Client, make_tool: Callable[..., Tool]) -> None:
    tool = make_tool()
    edit(tool, description="Second.")
    path = f"/tools/{tool.pk}/history/{events(tool)[0]}/restore/"
    assert viewer_client.get(path).status_code == 403
    assert viewer_client.post(path, {"version": 2}).status_code == 403
    assert Tool.objects.get().description == "Second."


def test_CAT_8_reset_keep_and_undo_stand_in_the_history_with_their_authors(
    viewer_client: Client, tenant: Tenant
) -> None:
    import_document(tenant, pets())
    tool = Tool.objects.get()
    edit(tool, parameter_descriptions={"dry": "Ours."})
    import_document(tenant, pets(dry="Only tests."))
    keep_override(pk=tool.pk, field="parameters.dry", actor="kim")
    reset = uuid4()
    reset_override(pk=tool.pk, field="parameters.dry", actor="rita", reset=reset)
    overrides.undo_reset(reset=reset, actor="uma")
    html = " ".join(history(viewer_client, tool).split())
    for words, who in (
        ("Imported description of dry overridden", "olga"),
        ("Override of description of dry kept over a newer imported text", "kim"),
        ("Override of description of dry reset to imported", "rita"),
        ("Reset of description of dry undone", "uma"),
    ):
        assert f'<h3>{words}</h3><span class="text-secondary small">{who},' in html


def test_CAT_8_what_happened_at_the_end_of_a_page_is_told_by_what_was_before_it(tenant: Tenant) -> None:
    import_document(tenant, pets())
    tool = Tool.objects.get()
    edit(tool, parameter_descriptions={"dry": "Ours."})
    edit(tool, description="Ours too.")
    import_document(tenant, pets(dry="Only tests."))
    keep_override(pk=tool.pk, field="parameters.dry", actor="kim")
    # Newer events of another override, so that this one is the last that the page asks for.
    for number in range(PAGE):
        edit(tool, description=f"Edit {number}.")
    newest = entry_row(entries(ManualOverride, PAGE + 1, tool_id=tool.pk)[PAGE])
    assert newest.what == "Override of description of dry kept over a newer imported text"
    assert [change.label for change in newest.changes] == ["Imported text"]


def test_CAT_8_the_history_of_a_source_names_its_servers_also_those_that_are_gone(tenant: Tenant) -> None:
    first, second = (
        McpServer.objects.create(slug=slug, url=f"https://{slug}.example.org/mcp")
        for slug in ("sums", "lamps")
    )
    source = Source.objects.create(slug="tools", kind="mcp", server=first)
    sources.update_source(pk=source.pk, actor="olga", server=second)
    servers.delete_server(pk=first.pk, actor="olga")
    newest, _ = settings_history(source, PAGE)
    assert [(one.label, [part.text for part in one.diff]) for one in newest.changes] == [
        ("Server", ["sums", "lamps"])
    ]


def test_S2_whoever_reads_events_asks_for_those_of_the_current_tenant(
    operator_client: Client, tenant: Tenant
) -> None:
    import_document(tenant, pets())
    tool, source = Tool.objects.get(), Source.objects.get()
    edit(tool, description="Ours.")
    reset = uuid4()
    reset_override(pk=tool.pk, field="description", actor="rita", reset=reset)
    created = events(tool)[0]
    with CaptureQueriesContext(connection) as asked:
        overrides.undo_reset(reset=reset, actor="uma")
        for path in (
            f"/tools/{tool.pk}/history/",
            f"/tools/{tool.pk}/history/{created}/restore/",
            f"/sources/{source.pk}/?restore=1",
        ):
            operator_client.get(path)
        assert seen_version(tool, 1)
    tables = re.compile(r'FROM "tools_\w+event" ')
    reading = [one["sql"] for one in asked if tables.search(one["sql"])]
    assert len(reading) > 5
    assert [sql for sql in reading if tenant.pk.hex not in sql] == []


def test_CAT_8_the_history_of_any_tracked_row_can_be_read(tenant: Tenant) -> None:
    import_document(tenant, pets())
    source = Source.objects.get()
    Source.objects.filter(pk=source.pk).update(sync_wins=True)
    newest, *_, first = settings_history(source, PAGE)
    assert (newest.what, [change.label for change in newest.changes]) == (
        "Source changed",
        ["Sync wins over edits"],
    )
    assert (first.what, first.who) == ("Source created", "importer")
