"""SYN-6: an operation that left its path and stands at another under its old operationId is the same tool."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import INPUTS, document, import_document, needs_inputs
from tests.support.imports.syncs import edit, embedding, tool
from tools.imports.syncing import plan
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.identity import match_endpoints
from tools.models import Action, Endpoint, ManualOverride, SyncChange, Tool

Json = dict[str, Any]


pytestmark = pytest.mark.usefixtures("parse_in_process")


def moved(content: Json, old: str, new: str, *, method: str = "get") -> Json:
    """The document with the operation of path `old` at path `new`."""
    paths = {path: item for path, item in content["paths"].items() if path != old}
    return {**content, "paths": {**paths, new: {method: content["paths"][old]["get"]}}}


def tool_ids(tenant: Tenant) -> set[tuple[str, bool]]:
    with tenant_context(tenant.pk):
        return set(Tool.objects.values_list("tool_id", "active"))


@pytest.fixture
def used(committed: Tenant) -> Tool:
    """A tool with an override and a count of its use."""
    import_document(committed, document("a", "b"))
    edit(committed, description="Ours.")
    with tenant_context(committed.pk):
        Tool.objects.filter(tool_id="a").update(download_count=7)
    return tool(committed)


def its_id_its_override_and_its_use_stay(tenant: Tenant, used: Tool, content: Json) -> None:
    report = import_document(tenant, content)
    assert (report.moved, report.added, report.removed, report.changed, report.unchanged) == (1, 0, 0, 0, 1)
    assert (report.tools, report.protected) == (2, 1)
    now = tool(tenant)
    assert (now.pk, now.active, now.description, now.download_count) == (used.pk, True, "Ours.", 7)
    assert tool_ids(tenant) == {("a", True), ("b", True)}
    with tenant_context(tenant.pk), connection.cursor() as cursor:
        assert ManualOverride.objects.get().tool_id == used.pk
        assert Endpoint.objects.count() == 2
        cursor.execute("SELECT count(*) FROM tools_toolevent WHERE pgh_obj_id = %s", [used.pk])
        assert cursor.fetchall()[0][0] >= 3  # made, edited, used


@pytest.mark.parametrize(("path", "method"), [("/v2/a", "get"), ("/a", "post"), ("/v2/a", "delete")])
def test_syn_6_another_path_or_method_keeps_the_tools_id_override_use_and_history(
    committed: Tenant, used: Tool, path: str, method: str
) -> None:
    its_id_its_override_and_its_use_stay(
        committed, used, moved(document("a", "b"), "/a", path, method=method)
    )
    endpoint = tool(committed).endpoint
    assert endpoint is not None
    assert (endpoint.key, endpoint.path, endpoint.method) == (f"{path}@{method}", path, method)


def test_syn_6_the_test_of_moves_notices_a_move_that_makes_a_new_tool(
    committed: Tenant, used: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        plan,
        "match_endpoints",
        lambda wanted, known, **_: match_endpoints(wanted, known, is_whole=False, ids_win=False),
    )
    monkeypatch.setattr("tools.imports.syncing.service.check_removals", lambda *_: None)
    with pytest.raises(AssertionError):
        its_id_its_override_and_its_use_stay(committed, used, moved(document("a", "b"), "/a", "/v2/a"))


def test_syn_4_a_plan_shows_a_move_from_where_to_where_and_it_is_no_removal(
    committed: Tenant, used: Tool
) -> None:
    """One of two tools is half of them, and nobody has to confirm anything."""
    import_document(committed, moved(document("a", "b"), "/a", "/v2/a"))
    with tenant_context(committed.pk):
        row = SyncChange.objects.get(action=Action.MOVE)
        assert (row.old_key, row.key, row.tool_uuid, row.kept, row.conflict) == (
            "/a@get", "/v2/a@get", used.pk, ["description"], False,
        )  # fmt: skip
        assert row.fields == [{"field": "key", "before": "/a@get", "after": "/v2/a@get", "override": ""}]


def test_emb_2_a_moved_tool_is_embedded_with_its_new_path(committed: Tenant, used: Tool) -> None:
    before = embedding(committed).source_hash
    import_document(committed, moved(document("a", "b"), "/a", "/v2/a"))
    assert embedding(committed).source_hash != before
    assert embedding(committed).status == "pending"


def test_syn_5_a_move_that_brings_another_text_conflicts_with_an_override_of_it(
    committed: Tenant, used: Tool
) -> None:
    report = import_document(committed, moved(document("a", "b", a="Imported anew."), "/a", "/v2/a"))
    assert (report.moved, report.conflicts) == (1, 1)
    now = tool(committed)
    assert now.endpoint is not None
    assert (now.description, now.endpoint.description) == ("Ours.", "Imported anew.")


def test_syn_6_back_at_its_old_path_it_is_still_the_same_tool(committed: Tenant, used: Tool) -> None:
    import_document(committed, moved(document("a", "b"), "/a", "/v2/a"))
    its_id_its_override_and_its_use_stay(committed, used, document("a", "b"))


def test_syn_6_what_vanished_returns_at_another_path_as_the_same_tool(committed: Tenant, used: Tool) -> None:
    import_document(committed, document("b"), confirm_removals=True)
    assert not tool(committed).active
    its_id_its_override_and_its_use_stay(committed, used, moved(document("a", "b"), "/a", "/v2/a"))
    assert embedding(committed).active


def test_syn_6_a_tool_that_an_operator_deactivated_stays_so_when_it_moves_vanishes_and_returns(
    committed: Tenant, used: Tool
) -> None:
    edit(committed, active=False)
    import_document(committed, moved(document("a", "b"), "/a", "/v2/a"))
    assert not tool(committed).active
    import_document(committed, document("b"), confirm_removals=True)
    import_document(committed, document("a", "b"))
    assert (tool(committed).pk, tool(committed).active) == (used.pk, False)


def test_syn_6_without_an_operation_id_nothing_says_that_it_is_the_same(committed: Tenant) -> None:
    content = document("a", "b")
    del content["paths"]["/a"]["get"]["operationId"]
    import_document(committed, content)
    report = import_document(committed, moved(content, "/a", "/v2/a"), confirm_removals=True)
    assert (report.moved, report.added, report.removed) == (0, 1, 1)


def test_syn_6_an_operation_id_that_several_have_is_not_guessed_from(committed: Tenant) -> None:
    content = document("a", "b", "c")
    content["paths"]["/b"]["get"]["operationId"] = "a"
    import_document(committed, content)
    both = moved(moved(content, "/a", "/v2/a"), "/b", "/v2/b")
    report = import_document(committed, both, confirm_removals=True)
    assert (report.moved, report.added, report.removed) == (0, 2, 2)


def test_syn_6_an_operation_id_that_is_still_where_it_was_has_not_moved(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    content = document("a", "b", "c")
    content["paths"]["/c"]["get"]["operationId"] = "a"
    report = import_document(committed, content)
    assert (report.moved, report.added, report.removed) == (0, 1, 0)
    assert len(tool_ids(committed)) == 3


def test_case_67_two_that_change_places_stay_the_tools_of_their_operation_ids(
    committed: Tenant, used: Tool
) -> None:
    content = document("a", "b")
    content["paths"]["/a"], content["paths"]["/b"] = content["paths"]["/b"], content["paths"]["/a"]
    report = import_document(committed, content)
    assert (report.moved, report.changed, report.added, report.removed) == (2, 0, 0, 0)
    now = tool(committed)
    assert (now.pk, now.description, now.endpoint and now.endpoint.key) == (used.pk, "Ours.", "/b@get")
    assert import_document(committed, content).unchanged == 2


def shared_case(name: str) -> Json:
    content: Json = json.loads(next(INPUTS.glob("cases/67-*")).joinpath(name).read_bytes())
    return content


@needs_inputs
@pytest.mark.parametrize("then", ["v2.json", "swap.json"])
def test_case_67_an_operation_at_anothers_path_keeps_its_own_tool_override_and_history(
    committed: Tenant, then: str
) -> None:
    import_document(committed, shared_case("v1.json"))
    edit(committed, tool_id="opA", description="Ours.")
    before = {name: tool(committed, name) for name in ("opA", "opB")}
    report = import_document(committed, shared_case(then))
    assert (report.moved, report.added, report.removed, report.warnings) == (2, 0, 0, [])
    after = {name: tool(committed, name) for name in ("opA", "opB")}
    assert {name: one.pk for name, one in after.items()} == {name: one.pk for name, one in before.items()}
    assert [after["opA"].description, after["opB"].description] == ["Ours.", "Lists the users."]
    assert [one.name for one in after.values()] == ["opA", "opB"]
    report = import_document(committed, shared_case("v1.json"))
    assert (report.moved, report.added, report.removed) == (2, 0, 0)


def test_case_67_the_tool_whose_path_is_taken_over_is_removed_and_returns_by_its_operation_id(
    committed: Tenant, used: Tool
) -> None:
    other = tool(committed, "b")
    content = moved({**document("a"), "paths": document("a")["paths"]}, "/a", "/b")
    report = import_document(committed, content, confirm_removals=True)
    assert (report.moved, report.removed, report.added) == (1, 1, 0)
    assert tool_ids(committed) == {("a", True), ("b", False)}
    with tenant_context(committed.pk):
        removal = SyncChange.objects.get(action=Action.REMOVE)
        assert removal.old_key == "/b@get"
        assert removal.key == Endpoint.objects.get(active=False).key != "/b@get"
    content["paths"]["/c"] = document("b")["paths"]["/b"]
    report = import_document(committed, content)
    assert (report.moved, report.removed, report.added) == (1, 0, 0)
    assert (tool(committed, "b").pk, tool(committed, "b").active) == (other.pk, True)


def test_case_67_a_new_operation_at_a_path_that_another_has_left_is_a_new_tool(
    committed: Tenant, used: Tool
) -> None:
    content = moved(document("a", "b"), "/a", "/v2/a")
    content["paths"]["/a"] = document("new")["paths"]["/new"]
    report = import_document(committed, content)
    assert (report.moved, report.added, report.removed) == (1, 1, 0)
    assert tool(committed).pk == used.pk
    assert tool_ids(committed) == {("a", True), ("b", True), ("new", True)}


def test_case_67_where_it_could_be_either_the_path_counts_and_the_plan_says_so(committed: Tenant) -> None:
    content = document("a", "b", "c")
    import_document(committed, content)
    content["paths"]["/c"]["get"]["operationId"] = "a"  # which /a has as well
    report = import_document(committed, content)
    assert (report.moved, report.added, report.removed, report.changed) == (0, 0, 0, 1)
    assert any("/c@get" in one and "could be either" in one for one in report.warnings)


def test_case_67_a_move_that_is_chosen_alone_does_not_meet_the_one_that_was_not(
    committed: Tenant, used: Tool
) -> None:
    content = document("a", "b")
    content["paths"]["/a"], content["paths"]["/b"] = content["paths"]["/b"], content["paths"]["/a"]
    incoming = IncomingDocument(json.dumps(content).encode(), "shop.json", "shop")
    sync = syncs.plan_document(incoming, tenant_id=committed.pk, actor="ada")
    with tenant_context(committed.pk):
        chosen = SyncChange.objects.get(sync=sync, old_key="/a@get")
    syncs.apply_sync(tenant_id=committed.pk, sync_id=sync.pk, actor="ada", chosen=[chosen.pk])
    assert tool_ids(committed) == {("a", True), ("b", True)}
    report = import_document(committed, content)
    assert (report.moved, report.unchanged) == (1, 1)


# --- Names ------------------------------------------------------------------------------------------------------------
def names_by_path(tenant: Tenant) -> dict[str, str]:
    with tenant_context(tenant.pk):
        return dict(Tool.objects.values_list("endpoint__path", "name"))


def test_the_name_of_a_tool_never_changes_because_another_arrives_or_leaves(committed: Tenant) -> None:
    """Both want to be called list_items; in a document of its own the second, which writes it so, would have it alone."""
    content = document("a", "b")
    content["paths"]["/a"]["get"]["operationId"] = "list items"
    import_document(committed, content)
    assert names_by_path(committed)["/a"] == "list_items"
    content["paths"]["/c"] = {"get": {**content["paths"]["/b"]["get"], "operationId": "list_items"}}
    report = import_document(committed, content)
    assert (report.added, report.changed, report.unchanged) == (1, 0, 2)
    names = names_by_path(committed)
    assert names["/a"] == "list_items"
    assert names["/c"].startswith("list_items_")
    del content["paths"]["/a"]
    import_document(committed, content, confirm_removals=True)
    assert names_by_path(committed) == names
    assert import_document(committed, content).unchanged == 2


def test_two_that_wanted_one_name_keep_theirs_when_a_third_wants_it(committed: Tenant) -> None:
    content = document("a", "b")
    for path in ("/a", "/b"):
        content["paths"][path]["get"]["operationId"] = "same"
    import_document(committed, content)
    names = names_by_path(committed)
    content["paths"]["/c"] = content["paths"]["/b"]
    import_document(committed, content)
    assert names_by_path(committed).items() >= names.items()
    assert len(set(names_by_path(committed).values())) == 3


def test_a_tool_whose_operation_id_changes_gets_its_name(committed: Tenant) -> None:
    content = document("a", "b")
    import_document(committed, content)
    content["paths"]["/a"]["get"]["operationId"] = "better"
    import_document(committed, content)
    assert names_by_path(committed) == {"/a": "better", "/b": "b"}
