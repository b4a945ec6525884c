"""SYN-5, CAT-8, EMB-2: overrides by the many: conflicts first, kept or reset in one transaction, a reset undone, and races."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from embeddings.text import source_hash
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.overrides import (
    Json,
    edit,
    ids,
    many,
    overrule,
    pets,
    recorded,
    reset_override,
    texts,
    wanted,
)
from tests.support.threads import together
from tools.catalogue import embedding_text, overrides
from tools.catalogue.errors import CatalogueError, StaleVersion
from tools.catalogue.tools import sync_embeddings, update_tool
from tools.models import ManualOverride, Tool, ToolEmbedding

# --- Keep, reset many -------------------------------------------------------------------------------------------------


def test_syn_5_keep_ends_the_conflict_in_favour_of_the_operator_with_version_and_author(
    tenant: Tenant, rows: Any
) -> None:
    first, second = many(tenant, 2)
    overrule([first, second])
    many(tenant, 2, text="Moved on.")
    assert overrides.conflicts(ManualOverride.objects.all()) == set(ids(field="description"))
    assert overrides.keep_many(overrides=ids(), actor="kim") == 2  # the tags were in no conflict
    assert overrides.conflicts(ManualOverride.objects.all()) == set()
    for tool in Tool.objects.all():
        assert (tool.description, tool.version, tool.updated_by) == ("Ours.", 3, "kim")
    assert {row[0] for row in rows(
        "SELECT pgh_context ->> 'actor' FROM tools_manualoverrideevent WHERE pgh_label = 'update'"
    )} == {"kim"}  # fmt: skip
    assert overrides.keep_many(overrides=ids(), actor="kim") == 0
    assert set(Tool.objects.values_list("version", flat=True)) == {3}


def test_syn_5_conflicts_come_first_in_a_bounded_number_of_queries(
    tenant: Tenant, django_assert_num_queries: Any
) -> None:
    tools = many(tenant, 12)
    overrule(tools)
    names = [tool.name for tool in tools]
    import_document(tenant, document(*names, **{**dict.fromkeys(names, "Imported."), names[7]: "Moved on."}))
    import_document(tenant, pets(), "pets")
    pet = Tool.objects.get(name="addPet")
    update_tool(
        pk=pet.pk, expected_version=1, changes={"parameter_descriptions": {"dry": "Ours."}}, actor="olga"
    )
    import_document(tenant, pets(dry="Moved on."), "pets")
    with django_assert_num_queries(3):
        found = overrides.override_statuses(ManualOverride.objects.all())
    assert len(found) == 25
    assert [(one.tool_name, one.field, one.imported) for one in found if one.conflict] == [
        ("addPet", "parameters.dry", "Moved on."), (names[7], "description", "Moved on."),
    ]  # fmt: skip
    assert [one.conflict for one in found] == [True] * 2 + [False] * 23


def test_syn_5_one_selected_or_a_whole_source_is_reset_in_one_transaction(
    tenant: Tenant, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overrides, "_CHUNK", 3)
    shop, other = many(tenant, 8), many(tenant, 2, "other")
    overrule(shop + other)
    many(tenant, 8, text="Moved on.")
    assert overrides.reset_many(overrides=ids(tool__source__slug="shop"), actor="rita") == 16
    for tool in Tool.objects.filter(source__slug="shop"):
        assert (tool.description, tool.tags, tool.version, tool.updated_by) == (
            "Moved on.",
            ["shop"],
            3,
            "rita",
        )
        embedded = ToolEmbedding.objects.get(entity=tool)
        assert (embedded.status, embedded.source_hash) == ("pending", _hash(tool))
    assert set(Tool.objects.filter(source__slug="other").values_list("description", "version")) == {
        ("Ours.", 2)
    }
    assert overrides.reset_many(overrides=[uuid4()], actor="rita") == 0


def _hash(tool: Tool) -> str:
    return source_hash(embedding_text.source_text(tool))


def test_syn_5_a_reset_that_fails_half_way_resets_nothing(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = many(tenant, 6)
    overrule(tools)
    monkeypatch.setattr(overrides, "_CHUNK", 3)
    real, calls = sync_embeddings, []

    def dies(*arguments: Any, **options: Any) -> int:
        calls.append(1)
        if len(calls) == 2:
            raise ZeroDivisionError
        return real(*arguments, **options)

    monkeypatch.setattr("tools.catalogue.tools.sync_embeddings", dies)
    with pytest.raises(ZeroDivisionError):
        overrides.reset_many(overrides=ids(), actor="rita")
    assert len(ids()) == 12
    assert set(Tool.objects.values_list("description", "version")) == {("Ours.", 2)}


def test_an_override_of_another_tenant_is_neither_seen_nor_reset(tenant: Tenant, make_tenant: Any) -> None:
    overrule(many(tenant, 1))
    mine = ids()
    with tenant_context(make_tenant().pk):
        assert overrides.override_statuses(ManualOverride.objects.all()) == []
        assert overrides.reset_many(overrides=mine, actor="eve") == 0
        assert overrides.keep_many(overrides=mine, actor="eve") == 0
    assert ids() == mine


# --- Undo -------------------------------------------------------------------------------------------------------------


def test_syn_5_a_reset_is_undone_with_who_when_and_what_it_had_replaced(tenant: Tenant, rows: Any) -> None:
    import_document(tenant, pets())
    edit(description="Ours.", parameter_descriptions={"dry": "Ours.", "body.name": "Ours."})
    import_document(tenant, pets(dry="Moved on."))
    before = list(ManualOverride.objects.order_by("field").values())
    embedded, fields, reset = wanted(), texts(), uuid4()
    overrides.reset_many(overrides=ids(), actor="rita", reset=reset)
    assert wanted() != embedded
    assert overrides.undo_reset(reset=reset, actor="uma") == (3, 0)
    assert list(ManualOverride.objects.order_by("field").values()) == before
    tool = Tool.objects.get()
    assert (tool.description, tool.description_source, texts(), tool.updated_by) == (
        "Ours.", "manual", fields, "uma",
    )  # fmt: skip
    assert wanted() == embedded
    assert len(overrides.conflicts(ManualOverride.objects.all())) == 1
    assert rows("SELECT DISTINCT pgh_context ->> 'actor' FROM tools_manualoverrideevent WHERE pgh_context ? 'undo'") == [("uma",)]  # fmt: skip
    with pytest.raises(CatalogueError, match="uma changed addPet after the reset"):
        overrides.undo_reset(reset=reset, actor="uma")


def test_syn_5_a_tool_that_was_edited_since_is_not_undone_and_the_others_are(tenant: Tenant) -> None:
    tools = many(tenant, 3)
    overrule(tools)
    reset = uuid4()
    overrides.reset_many(overrides=ids(), actor="rita", reset=reset)
    update_tool(pk=tools[1].pk, expected_version=3, changes={"description": "Newer."}, actor="olga")
    assert overrides.undo_reset(reset=reset, actor="uma") == (4, 1)
    assert list(Tool.objects.order_by("name").values_list("description", flat=True)) == [
        "Ours.",
        "Newer.",
        "Ours.",
    ]


def test_syn_5_undo_refuses_with_a_sentence_when_the_only_tool_was_edited_and_changes_nothing(
    tenant: Tenant,
) -> None:
    (tool,) = many(tenant, 1)
    overrule([tool])
    reset = uuid4()
    reset_override(pk=tool.pk, field="description", actor="rita", reset=reset)
    edit(category="new")
    with pytest.raises(
        CatalogueError, match=f"olga changed {tool.name} after the reset, so it was not undone"
    ):
        overrides.undo_reset(reset=reset, actor="uma")
    assert recorded() == {"tags": ["ours"], "category": "new"}


def test_syn_5_that_refusal_needs_the_versions(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken for unchanged, the tool would lose the newer edit: the test above can fail."""
    (tool,) = many(tenant, 1)
    overrule([tool])
    reset = uuid4()
    reset_override(pk=tool.pk, field="description", actor="rita", reset=reset)
    edit(use_cases=["Newer?"])
    monkeypatch.setattr(
        overrides, "_versions_after", lambda reset, tools: {one.pk: one.version for one in tools}
    )
    assert overrides.undo_reset(reset=reset, actor="uma") == (1, 0)


def test_syn_5_after_ten_minutes_a_reset_stays(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    (tool,) = many(tenant, 1)
    overrule([tool])
    reset = uuid4()
    overrides.reset_many(overrides=ids(), actor="rita", reset=reset)
    assert timedelta(minutes=10) == overrides.UNDO
    monkeypatch.setattr(overrides, "UNDO", timedelta(0))
    with pytest.raises(CatalogueError, match="undone for ten minutes"):
        overrides.undo_reset(reset=reset, actor="uma")
    assert recorded() == {}


def test_syn_5_only_a_reset_can_be_undone(tenant: Tenant) -> None:
    many(tenant, 1)
    edit(description="Ours.")
    edit(description="Imported.")
    with pytest.raises(CatalogueError, match="undone for ten minutes"):
        overrides.undo_reset(reset=uuid4(), actor="uma")


# --- Races ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow_sync(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the thread "sync" has written tools and has not committed; it waits a second then."""
    event, real = threading.Event(), sync_embeddings

    def slow(*arguments: Any, **options: Any) -> int:
        queued = real(*arguments, **options)
        if threading.current_thread().name == "sync" and not event.is_set():
            event.set()
            time.sleep(1)
        return queued

    monkeypatch.setattr("tools.imports.syncing.apply.sync_embeddings", slow)
    return event


def in_sync(tenant: Tenant, content: Json) -> Any:
    def work() -> Any:
        threading.current_thread().name = "sync"
        return import_document(tenant, content)

    return work


@pytest.mark.parametrize("count", [1, 5])
def test_syn_5_a_reset_that_waits_for_a_sync_brings_back_what_the_sync_says(
    committed: Tenant, slow_sync: threading.Event, count: int
) -> None:
    """Read before the wait, the imported text would be yesterday's, and no later sync would mend it."""
    with tenant_context(committed.pk):
        tools = many(committed, count)
        overrule(tools)
        chosen = ids(field="description")
        names = [tool.name for tool in tools]

    def reset() -> int:
        assert slow_sync.wait(20)
        with tenant_context(committed.pk):
            return overrides.reset_many(overrides=chosen, actor="rita")

    moved = document(*names, title="Store", **dict.fromkeys(names, "Moved on."))
    imported, done = together(in_sync(committed, moved), reset)
    assert not isinstance(imported, Exception), imported
    assert done == count
    with tenant_context(committed.pk):
        assert set(Tool.objects.values_list("description", flat=True)) == {"Moved on."}
        assert recorded() == {"tags": ["ours"]}
        assert all(
            ToolEmbedding.objects.get(entity=tool).source_hash == _hash(tool) for tool in Tool.objects.all()
        )


def test_syn_5_that_race_needs_the_endpoint_read_after_the_lock(
    committed: Tenant, slow_sync: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the endpoint joined into the locking query, yesterday's text comes back: the test above can fail."""
    with tenant_context(committed.pk):
        tools = many(committed, 1)
        overrule(tools)
        chosen = ids(field="description")

    def joined(wanted: Any) -> list[list[Tool]]:
        locked = Tool.objects.filter(overrides__in=wanted).select_related("endpoint", "source")
        return [list(locked.select_for_update(of=("self",)))]

    monkeypatch.setattr(overrides, "_locked", joined)

    def reset() -> int:
        assert slow_sync.wait(20)
        with tenant_context(committed.pk):
            return overrides.reset_many(overrides=chosen, actor="rita")

    moved = document(tools[0].name, title="Store", **{tools[0].name: "Moved on."})
    together(in_sync(committed, moved), reset)
    with tenant_context(committed.pk):
        assert Tool.objects.get().description == "Imported."


def test_syn_5_an_edit_and_a_reset_at_one_moment_leave_tool_and_override_agreed(committed: Tenant) -> None:
    with tenant_context(committed.pk):
        (tool,) = many(committed, 1)

    for round_ in range(5):
        with tenant_context(committed.pk):
            edit(description=f"Ours {round_}.")
            chosen, version = ids(field="description"), Tool.objects.get().version

        def reset(chosen: Any = chosen) -> int:
            with tenant_context(committed.pk):
                return overrides.reset_many(overrides=chosen, actor="rita")

        def change(version: int = version, round_: int = round_) -> Tool:
            with tenant_context(committed.pk):
                return update_tool(
                    pk=tool.pk,
                    expected_version=version,
                    changes={"description": f"Then {round_}."},
                    actor="olga",
                )

        done, changed = together(reset, change)
        assert done in {0, 1}, done
        assert isinstance(changed, Tool | StaleVersion), changed
        with tenant_context(committed.pk):
            now = Tool.objects.get()
            assert now.description == recorded().get("description", "Imported.")
        connection.close()
