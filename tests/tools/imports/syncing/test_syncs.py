"""SYN-4, R16: a sync is planned, looked at, and applied whole or in part; whatever fails leaves the source as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID

import pytest

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.imports.syncs import (
    Json,
    again,
    apply,
    changes,
    edit,
    nothing_written,
    plan,
    texts,
    tool,
)
from tools.catalogue import overrides, sources
from tools.catalogue.errors import CatalogueError, StalePlan, WrongSyncState
from tools.imports.syncing import service as syncs
from tools.models import Action, Endpoint, ManualOverride, Source, SourceDocument, Sync, SyncState, Tool

SIX = ("a", "b", "c", "d", "e", "f")


pytestmark = pytest.mark.usefixtures("parse_in_process")


# --- Plan -------------------------------------------------------------------------------------------------------------
def test_syn_4_a_plan_shows_what_would_be_added_changed_removed_and_protected_and_writes_no_tool(
    committed: Tenant,
) -> None:
    import_document(committed, document(*SIX))
    edit(committed, "a", description="Ours.")
    edit(committed, "b", tags=["mine"])
    edit(committed, "d", description="Ours as well.")
    with nothing_written(committed, "tools_source", "tools_sourcedocument"):
        sync = plan(committed, document("a", "b", "c", "d", "e", "g", a="New a.", b="New b."))
    rows = changes(committed, sync)
    assert {key: row.action for key, row in rows.items()} == {
        "/a@get": Action.CHANGE, "/b@get": Action.CHANGE, "/f@get": Action.REMOVE, "/g@get": Action.ADD,
    }  # fmt: skip
    was = "Does {} as the shop wants it."
    assert rows["/a@get"].fields == [
        {"field": "description", "before": was.format("a"), "after": "New a.", "override": "conflict"}
    ]
    assert rows["/b@get"].fields == [
        {"field": "description", "before": was.format("b"), "after": "New b.", "override": ""}
    ]
    assert rows["/g@get"].fields == [
        {"field": "description", "before": None, "after": was.format("g"), "override": ""}
    ]
    assert (rows["/a@get"].conflict, rows["/b@get"].conflict, rows["/b@get"].kept) == (True, False, ["tags"])
    assert rows["/f@get"].tool_uuid == tool(committed, "f").pk
    names = (
        "operations",
        "tools",
        "added",
        "changed",
        "moved",
        "removed",
        "unchanged",
        "protected",
        "conflicts",
    )
    assert [sync.summary[name] for name in names] == [6, 6, 1, 2, 0, 1, 3, 3, 1]
    assert (sync.state, sync.created_by, sync.ended_at) == (SyncState.PLANNED, "petra", None)


def test_syn_4_applying_does_what_the_plan_showed_and_says_who_did_it(committed: Tenant) -> None:
    import_document(committed, document(*SIX))
    edit(committed, "a", description="Ours.")
    sync = plan(committed, document("a", "b", "c", "d", "e", "g", a="New a.", b="New b."))
    report = apply(committed, sync)
    assert report.as_dict() == sync.summary
    assert texts(committed).keys() == {"a", "b", "c", "d", "e", "g"}
    assert (texts(committed)["a"], texts(committed)["b"]) == ("Ours.", "New b.")
    assert tool(committed, "b").updated_by == tool(committed, "g").updated_by == "anton"
    over = again(committed, sync)
    assert (over.state, over.ended_by, over.summary) == (SyncState.APPLIED, "anton", sync.summary)
    assert over.ended_at is not None
    assert all(row.applied for row in changes(committed, sync).values())
    with nothing_written(committed):
        assert import_document(
            committed, document("a", "b", "c", "d", "e", "g", a="New a.", b="New b.")
        ).unchanged == 6  # fmt: skip


def test_syn_4_a_plan_of_a_new_source_makes_no_tool_and_goes_with_its_discard(committed: Tenant) -> None:
    sync = plan(committed, document("a", "b"))
    assert (sync.summary["added"], texts(committed)) == (2, {})
    with tenant_context(committed.pk):
        assert Source.objects.get().display_title == "Shop"
        syncs.discard_sync(sync_id=sync.pk, actor="olga")
        assert not Source.objects.exists()
        assert not SourceDocument.objects.exists()


def test_syn_4_a_discard_leaves_a_source_that_has_tools_and_no_endpoints(committed: Tenant) -> None:
    import_document(committed, document("a"))
    with tenant_context(committed.pk):
        Tool.objects.update(endpoint=None)
        Endpoint.objects.all().delete()
        Sync.objects.all().delete()
    sync = plan(committed, document("b"))
    with tenant_context(committed.pk):
        syncs.discard_sync(sync_id=sync.pk, actor="olga")
    assert texts(committed).keys() == {"a"}


def test_syn_4_a_discarded_plan_leaves_an_older_source_and_is_over(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    sync = plan(committed, document("a", "b", a="New."))
    with tenant_context(committed.pk):
        syncs.discard_sync(sync_id=sync.pk, actor="olga")
    over = again(committed, sync)
    assert (over.state, over.ended_by) == (SyncState.DISCARDED, "olga")
    with nothing_written(committed), pytest.raises(WrongSyncState, match="over"):
        apply(committed, sync)
    with tenant_context(committed.pk), pytest.raises(WrongSyncState):
        syncs.discard_sync(sync_id=sync.pk, actor="olga")


def test_syn_4_a_plan_without_a_change_is_over_at_once(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    with nothing_written(committed, "tools_source"):
        sync = plan(committed, document("a", "b"))
    assert (sync.state, sync.summary["unchanged"]) == (SyncState.APPLIED, 2)
    assert changes(committed, sync) == {}


def test_syn_4_a_later_plan_ends_the_one_before(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    first = plan(committed, document("a", "b", a="One."))
    second = plan(committed, document("a", "b", a="Two."))
    assert again(committed, first).state == SyncState.DISCARDED
    with pytest.raises(WrongSyncState):
        apply(committed, first)
    apply(committed, second)
    assert texts(committed)["a"] == "Two."
    with pytest.raises(WrongSyncState, match="over"):
        apply(committed, second)


def test_syn_4_what_is_applied_is_the_document_that_was_stored_to_the_byte(committed: Tenant) -> None:
    raw = json.dumps(document("a", "b"), indent=3).encode()
    sync = plan(committed, raw)
    apply(committed, sync)
    kept = again(committed, sync).document
    assert kept is not None
    assert bytes(kept.content) == raw
    assert texts(committed).keys() == {"a", "b"}


# --- A choice ---------------------------------------------------------------------------------------------------------
def test_syn_4_a_choice_is_applied_and_the_rest_is_found_again_by_the_next_plan(committed: Tenant) -> None:
    import_document(committed, document(*SIX))
    content = document("a", "b", "c", "d", "e", "g", a="New a.", b="New b.")
    sync = plan(committed, content)
    report = apply(committed, sync, "a")
    assert (report.added, report.changed, report.removed) == (0, 1, 0)
    assert texts(committed).keys() == set(SIX)
    assert (texts(committed)["a"], texts(committed)["b"]) == ("New a.", "Does b as the shop wants it.")
    assert [key for key, row in changes(committed, sync).items() if row.applied] == ["/a@get"]
    rest = plan(committed, content)
    assert {key: row.action for key, row in changes(committed, rest).items()} == {
        "/b@get": Action.CHANGE, "/f@get": Action.REMOVE, "/g@get": Action.ADD,
    }  # fmt: skip
    apply(committed, rest)
    assert plan(committed, content).state == SyncState.APPLIED


def test_syn_4_a_new_title_reaches_the_tools_that_were_not_chosen_by_the_next_sync(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    content = document("a", "b", title="Store")
    apply(committed, plan(committed, content), "a")
    assert (tool(committed, "a").server, tool(committed, "b").server) == ("Store", "Shop")
    rest = plan(committed, content)
    assert changes(committed, rest).keys() == {"/b@get"}
    apply(committed, rest)
    assert tool(committed, "b").server == "Store"


def test_syn_4_a_choice_of_nothing_writes_no_tool(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    sync = plan(committed, document("a", "b", a="New."))
    with nothing_written(committed, "tools_source"):
        report = apply(committed, sync, chosen=[])
    assert (report.changed, report.unchanged) == (0, 2)


# --- Stale plans ---------------------------------------------------------------------------------------------------
STALE: dict[str, Callable[[Tenant], object]] = {
    "an edit of what it changes": lambda tenant: edit(tenant, "a", description="Ours."),
    "another import": lambda tenant: import_document(tenant, document("a", "b", a="Between.")),
    "an import that takes it away": lambda tenant: import_document(
        tenant, document("b"), confirm_removals=True
    ),
}


@pytest.mark.parametrize("between", STALE)
def test_syn_4_a_plan_that_the_catalogue_has_outgrown_is_refused_and_names_what_differs(
    committed: Tenant, between: str
) -> None:
    import_document(committed, document("a", "b"))
    sync = plan(committed, document("a", "b", a="New."))
    STALE[between](committed)
    with nothing_written(committed), pytest.raises(StalePlan, match=r"/a@get.*Plan the sync again"):
        apply(committed, sync)
    assert again(committed, sync).state == SyncState.PLANNED


def test_syn_5_an_edit_between_plan_and_apply_is_not_lost_if_the_plan_does_not_touch_its_field(
    committed: Tenant,
) -> None:
    import_document(committed, document("a", "b"))
    sync = plan(committed, document("a", "b", a="New."))
    edit(committed, "a", tags=["mine"], category="ours")
    apply(committed, sync)
    now = tool(committed, "a")
    assert (now.description, now.tags, now.category) == ("New.", ["mine"], "ours")
    with tenant_context(committed.pk):
        kept = set(ManualOverride.objects.values_list("field", "made_by"))
    assert kept == {("tags", "olga"), ("category", "olga")}


def test_syn_4_an_edit_of_what_was_not_chosen_does_not_refuse_the_rest(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    sync = plan(committed, document("a", "b", a="New a.", b="New b."))
    edit(committed, "b", description="Ours.")
    apply(committed, sync, "a")
    assert texts(committed) == {"a": "New a.", "b": "Ours."}


def test_syn_4_a_plan_that_was_made_before_the_sync_wins_is_refused_rather_than_take_an_edit(
    committed: Tenant,
) -> None:
    """It was shown as protected."""
    import_document(committed, document("a", "b"))
    edit(committed, "a", description="Ours.")
    sync = plan(committed, document("a", "b", a="New."))
    with tenant_context(committed.pk):
        sources.update_source(pk=sync.source_id, actor="olga", sync_wins=True)
    with nothing_written(committed), pytest.raises(StalePlan):
        apply(committed, sync)


def with_limit(text: str) -> Json:
    """An API with `GET /a`, whose parameter `limit` has this description."""
    content = document("a")
    limit = {"name": "limit", "in": "query", "description": text, "schema": {"type": "integer"}}
    content["paths"]["/a"]["get"]["parameters"] = [limit]
    return content


def test_syn_5_where_syncs_win_a_plan_tells_every_edit_that_is_lost_and_calls_none_of_them_kept(
    committed: Tenant,
) -> None:
    import_document(committed, with_limit("How many."))
    edit(
        committed, tags=["mine"], annotations={"readOnlyHint": True}, category="ours",
        parameter_descriptions={"limit": "Ours."},
    )  # fmt: skip
    with tenant_context(committed.pk):
        sources.update_source(pk=Source.objects.get().pk, actor="olga", sync_wins=True)
    sync = plan(committed, with_limit("At most."))
    row = changes(committed, sync)["/a@get"]
    told = {one["field"]: (one["before"], one["after"], one["override"]) for one in row.fields}
    assert told == {
        "tags": (["mine"], ["shop"], "reset"),
        "annotations": ([], ["removed readOnlyHint"], "reset"),
        "parameters": ([], ['properties/limit/description: "Ours." → "At most."'], ""),
        "parameters.limit": ("Ours.", "At most.", "reset"),
    }
    assert (row.kept, row.conflict) == (["category"], False)
    apply(committed, sync)
    with tenant_context(committed.pk):
        assert list(ManualOverride.objects.values_list("field", flat=True)) == row.kept
    assert plan(committed, with_limit("At most.")).state == SyncState.APPLIED


@pytest.mark.parametrize("sync_wins", [False, True])
def test_syn_5_an_edit_that_the_source_now_says_itself_is_no_conflict_and_kept_only_where_it_is(
    committed: Tenant, *, sync_wins: bool
) -> None:
    import_document(committed, with_limit("How many."))
    edit(committed, description="Ours.", parameter_descriptions={"limit": "Ours too."})
    with tenant_context(committed.pk):
        sources.update_source(pk=Source.objects.get().pk, actor="olga", sync_wins=sync_wins)
    content = with_limit("Ours too.")
    content["paths"]["/a"]["get"] |= {"description": "Ours.", "tags": ["new"]}
    sync = plan(committed, content)
    row = changes(committed, sync)["/a@get"]
    assert (row.conflict, sync.summary["conflicts"]) == (False, 0)
    assert not any(one["override"] for one in row.fields)
    apply(committed, sync)
    with tenant_context(committed.pk):
        kept = ManualOverride.objects.order_by("field")
        assert list(kept.values_list("field", flat=True)) == row.kept
        assert overrides.conflicts(kept) == set()
    assert row.kept == ([] if sync_wins else ["description", "parameters.limit"])


# --- History ----------------------------------------------------------------------------------------------------------
def test_syn_4_the_history_of_a_source_has_every_sync_with_its_document(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    apply(committed, plan(committed, document("a", "b", a="Two.")))
    plan(committed, document("a", "b", a="Three."))
    plan(committed, document("a", "b", a="Four."))
    with tenant_context(committed.pk):
        found = list(Source.objects.get().syncs.select_related("document"))
    assert [one.state for one in found] == [
        SyncState.PLANNED, SyncState.DISCARDED, SyncState.APPLIED, SyncState.APPLIED,
    ]  # fmt: skip
    said = [json.loads(bytes(one.document.content))["paths"]["/a"]["get"]["description"] for one in found]
    assert said == ["Four.", "Three.", "Two.", "Does a as the shop wants it."]
    assert [one.ended_by for one in found] == ["", "a later plan", "anton", "importer"]


def test_syn_4_an_older_document_planned_again_brings_back_what_it_said(committed: Tenant) -> None:
    first, second = document("a", "b", a="One."), document("a", "b", a="Two.")
    import_document(committed, first)
    import_document(committed, second)
    apply(committed, plan(committed, first))
    assert texts(committed)["a"] == "One."
    assert plan(committed, second).summary["changed"] == 1


def test_a_sync_that_there_is_not_is_said_to_be_none(committed: Tenant) -> None:
    import_document(committed, document("a"))
    with pytest.raises(Sync.DoesNotExist):
        syncs.apply_sync(tenant_id=committed.pk, sync_id=UUID(int=0), actor="anton")
    assert issubclass(StalePlan, CatalogueError)
