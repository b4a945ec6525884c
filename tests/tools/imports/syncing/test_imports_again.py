"""SYN-4, SYN-5, SYN-6, CAT-2: what an import does to the catalogue, and above all what a second one leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from embeddings.models import Priority
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import INPUTS, OPENAPI, document, import_document, needs_inputs
from tests.support.imports.syncs import edit, embedding, fingerprints, tool
from tests.support.overrides import keep_override, reset_override
from tools.catalogue import sources
from tools.catalogue.errors import CatalogueError
from tools.catalogue.tools import create_tool
from tools.models import Endpoint, ManualOverride, Source, SourceDocument, Tool, ToolEmbedding

REPORT = {
    "operations",
    "tools",
    "added",
    "changed",
    "moved",
    "removed",
    "unchanged",
    "protected",
    "conflicts",
    "left_out",
    "warnings",
}


@needs_inputs
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("petstore-3.0.yaml", 20),
        ("netbox-3.0.json", 844),
        ("stripe-2020-3.0.yaml", 352),
        ("slack-web-2.0.json", 174),
    ],
)
def test_syn_5_importing_a_real_document_again_writes_no_row(
    committed: Tenant, capsys: pytest.CaptureFixture[str], name: str, count: int
) -> None:
    def run() -> dict[str, Any]:
        call_command("import_openapi", str(OPENAPI / name), "--tenant", committed.slug, "--json")
        out, err = capsys.readouterr()
        assert err == ""
        return dict(json.loads(out))

    first = run()
    assert set(first) >= REPORT
    assert (first["tools"], first["added"]) == (count, count)
    assert first["operations"] == first["tools"] + len(first["left_out"])
    with tenant_context(committed.pk):
        assert Tool.objects.count() == Endpoint.objects.count() == ToolEmbedding.objects.count() == count
        assert Source.objects.get().slug == name.rpartition(".")[0]
        assert set(Tool.objects.values_list("namespace", flat=True)) == {name.rpartition(".")[0]}
    before = fingerprints(committed)
    second = run()
    assert (second["unchanged"], second["added"], second["changed"], second["removed"]) == (count, 0, 0, 0)
    assert fingerprints(committed) == before


def test_that_comparison_sees_a_write_that_changes_nothing(committed: Tenant) -> None:
    import_document(committed, document("a"))
    before = fingerprints(committed)
    with tenant_context(committed.pk):
        Endpoint.objects.update(name="a")
    assert fingerprints(committed) != before


def test_syn_5_an_override_is_not_rewritten_by_an_unchanged_document(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    edit(committed, description="Ours.")
    before = fingerprints(committed)
    again = import_document(committed, document("a", "b"))
    assert (again.unchanged, again.protected) == (2, 1)
    assert fingerprints(committed) == before


@needs_inputs
def test_done_when_2_two_petstore_files_are_two_sources(committed: Tenant) -> None:
    for name in ("petstore-3.0.yaml", "petstore-2.0.json"):
        call_command("import_openapi", str(OPENAPI / name), "--tenant", committed.slug)
    with tenant_context(committed.pk):
        assert list(Source.objects.values_list("slug", flat=True)) == ["petstore-2.0", "petstore-3.0"]
        assert Tool.objects.filter(tool_id="addPet").count() == 2
        assert Tool.objects.count() == 40


@needs_inputs
def test_case_01_the_same_operation_id_in_two_apis_stays_apart(committed: Tenant) -> None:
    folder = INPUTS / "cases" / "01-same-operationid-two-apis"
    import_document(committed, (folder / "shop.json").read_bytes(), "shop")
    first = fingerprints(committed)["tools_tool"]
    import_document(committed, (folder / "crm.json").read_bytes(), "crm")
    with tenant_context(committed.pk):
        tools = Tool.objects.filter(tool_id="listItems").select_related("source", "endpoint")
        assert {(one.namespace, one.source.slug, one.endpoint.source_id == one.source_id) for one in tools} == {
            ("shop", "shop", True), ("crm", "crm", True),
        }  # fmt: skip
        assert len({one.server for one in tools}) == 2
    assert set(first) <= set(fingerprints(committed)["tools_tool"])


@needs_inputs
def test_case_42_texts_with_nul_are_stored_without_and_the_document_to_the_byte(committed: Tenant) -> None:
    raw = (INPUTS / "cases" / "42-nul-and-control-characters" / "doc.json").read_bytes()
    report = import_document(committed, raw)
    assert report.tools == 4
    with tenant_context(committed.pk):
        assert bytes(SourceDocument.objects.get().content) == raw
        for one in Tool.objects.all():
            assert not {"\x00", "\x1b", "\ufffe"} & set(
                one.description + one.name + json.dumps(one.parameters, ensure_ascii=False)
            )


def test_syn_5_an_override_survives_a_changed_document_whose_text_is_kept_beside_it(
    committed: Tenant,
) -> None:
    import_document(committed, document("a", "b", a="Imported one."))
    before = edit(committed, description="Ours.", tags=["mine"])
    report = import_document(committed, document("a", "b", a="Imported two."))
    assert (report.changed, report.unchanged, report.protected) == (1, 1, 1)
    now = tool(committed)
    assert (now.description, now.tags, now.description_source) == ("Ours.", ["mine"], "manual")
    assert now.endpoint is not None
    assert now.endpoint.description == "Imported two."
    assert now.version == before.version  # nothing of the tool moved, so nobody's form goes stale
    with tenant_context(committed.pk):
        override = ManualOverride.objects.get(field="description")
        # Moved on: what was replaced is no longer what the source says.
        assert override.imported_value == "Imported one." != now.endpoint.description
        assert (override.value, override.made_by) == ("Ours.", "olga")
        keep_override(pk=now.pk, field="description", actor="olga")
        assert ManualOverride.objects.get(field="description").imported_value == "Imported two."


def test_syn_5_reset_brings_back_todays_text_and_embeds_anew(committed: Tenant) -> None:
    import_document(committed, document("a", a="Imported one."))
    edit(committed, description="Ours.")
    import_document(committed, document("a", a="Imported two."))
    wanted = embedding(committed).source_hash
    with tenant_context(committed.pk):
        reset_override(pk=tool(committed).pk, field="description", actor="olga")
    now = tool(committed)
    assert (now.description, now.description_source) == ("Imported two.", "endpoint_sync")
    assert embedding(committed).source_hash != wanted
    assert embedding(committed).status == "pending"
    with tenant_context(committed.pk):
        assert not ManualOverride.objects.exists()
        version = now.version
        reset_override(pk=now.pk, field="description", actor="olga")
        assert tool(committed).version == version
    assert import_document(committed, document("a", a="Imported three.")).protected == 0
    assert tool(committed).description == "Imported three."


def test_syn_5_writing_the_imported_text_by_hand_ends_the_override(committed: Tenant) -> None:
    import_document(committed, document("a", a="Imported."))
    edit(committed, description="Ours.")
    edit(committed, description="Imported.")
    with tenant_context(committed.pk):
        assert not ManualOverride.objects.exists()
    assert tool(committed).description_source == "endpoint_sync"


def test_syn_5_what_a_person_set_beside_the_overridable_fields_survives_as_well(committed: Tenant) -> None:
    import_document(committed, document("a"))
    edit(
        committed,
        category="ours",
        lifecycle="deprecated",
        sensitivity="restricted",
    )
    import_document(committed, document("a", a="Changed."))
    now = tool(committed)
    assert (now.category, now.lifecycle, now.sensitivity, now.description) == (
        "ours",
        "deprecated",
        "restricted",
        "Changed.",
    )


def test_syn_5_sync_wins_overwrites_edits_at_the_next_sync_even_of_an_unchanged_document(
    committed: Tenant,
) -> None:
    import_document(committed, document("a", "b"))
    imported = tool(committed).description
    edit(committed, description="Ours.")
    with tenant_context(committed.pk):
        sources.update_source(pk=Source.objects.get().pk, sync_wins=True, actor="olga")
    assert tool(committed).description == "Ours."
    report = import_document(committed, document("a", "b"))
    assert (report.changed, report.unchanged, report.protected) == (1, 1, 0)
    assert (tool(committed).description, tool(committed).description_source) == (imported, "endpoint_sync")
    with tenant_context(committed.pk):
        assert not ManualOverride.objects.exists()
    edit(committed, description="Ours again.")
    assert tool(committed).description_source == "manual"
    import_document(committed, document("a", "b", a="Changed."))
    assert tool(committed).description == "Changed."
    with tenant_context(committed.pk):
        assert not ManualOverride.objects.exists()
    before = fingerprints(committed)
    assert import_document(committed, document("a", "b", a="Changed.")).unchanged == 2
    assert fingerprints(committed) == before


def test_syn_5_an_edit_that_no_sync_has_taken_back_stays_when_syncs_no_longer_win(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    edit(committed, description="First.")
    for wins, text in ((True, "Second."), (False, "Second.")):
        with tenant_context(committed.pk):
            sources.update_source(pk=Source.objects.get().pk, sync_wins=wins, actor="olga")
        edit(committed, description=text)
    import_document(committed, document("a", "b", a="Changed."))
    assert tool(committed).description == "Second."
    with tenant_context(committed.pk):
        assert ManualOverride.objects.get().value == "Second."


def test_syn_5_a_sync_that_wins_has_nothing_to_say_of_what_the_source_never_says(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    with tenant_context(committed.pk):
        sources.update_source(pk=Source.objects.get().pk, sync_wins=True, actor="olga")
    edit(committed, description="Ours.", category="ours")
    import_document(committed, document("a", "b", a="Changed."))
    assert (tool(committed).description, tool(committed).category) == ("Changed.", "ours")
    with tenant_context(committed.pk):
        kept = ManualOverride.objects.get()
        assert (kept.field, kept.value, kept.made_by) == ("category", "ours", "olga")


def test_syn_6_what_an_operator_decided_while_it_was_gone_no_return_undoes(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    import_document(committed, document("b"), confirm_removals=True)
    edit(committed, active=True)
    edit(committed, active=False)
    import_document(committed, document("a", "b"))
    assert not tool(committed).active


def test_syn_6_a_vanished_endpoint_deactivates_its_tool_and_brings_it_back(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    edit(committed, description="Ours.")
    report = import_document(committed, document("b"), confirm_removals=True)
    assert (report.removed, report.unchanged, report.tools, report.protected) == (1, 1, 1, 0)
    gone = tool(committed)
    assert gone.endpoint is not None
    assert (gone.active, gone.endpoint.active, gone.description) == (False, False, "Ours.")
    assert not embedding(committed).active
    with tenant_context(committed.pk), connection.cursor() as cursor:
        assert ManualOverride.objects.count() == 1
        cursor.execute("SELECT count(*) FROM embeddings_embeddingtask WHERE entity_id = %s", [gone.pk])
        assert cursor.fetchall() == [(0,)]
        cursor.execute("SELECT count(*) FROM tools_toolevent WHERE pgh_obj_id = %s", [gone.pk])
        assert cursor.fetchall()[0][0] >= 3
    before = fingerprints(committed)
    assert import_document(committed, document("b")).removed == 0
    assert fingerprints(committed) == before
    report = import_document(committed, document("a", "b"))
    assert (report.changed, report.added, report.protected) == (1, 0, 1)
    back = tool(committed)
    assert (back.pk, back.active, back.description) == (gone.pk, True, "Ours.")
    assert embedding(committed).active
    with tenant_context(committed.pk), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM embeddings_embeddingtask WHERE entity_id = %s", [gone.pk])
        assert cursor.fetchall() == [(1,)]  # reactivation asks again (EMB-2)


def test_a_new_title_of_the_api_reaches_all_of_its_tools(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    report = import_document(committed, document("a", "b", title="Store"))
    assert (report.changed, report.unchanged) == (2, 0)
    with tenant_context(committed.pk):
        assert set(Tool.objects.values_list("server", flat=True)) == {"Store"}
        assert Source.objects.get().display_title == "Store"


def test_syn_5_the_title_that_an_operator_gave_a_source_is_kept_by_its_syncs(committed: Tenant) -> None:
    def given(title: str) -> None:
        with tenant_context(committed.pk):
            sources.update_source(pk=Source.objects.get().pk, actor="olga", title=title)

    def shown() -> tuple[str, set[str]]:
        with tenant_context(committed.pk):
            return Source.objects.get().display_title, set(Tool.objects.values_list("server", flat=True))

    import_document(committed, document("a", "b"))
    given("Our shop")
    assert shown() == ("Our shop", {"Our shop"})  # the tools follow at once
    assert import_document(committed, document("a", "b")).unchanged == 2
    assert import_document(committed, document("a", "b", title="Store")).unchanged == 2
    assert shown() == ("Our shop", {"Our shop"})
    given("")
    assert shown() == ("Store", {"Store"})
    assert import_document(committed, document("a", "b", title="Store")).unchanged == 2


def test_a_new_title_of_a_source_is_embedded_with_its_tools_and_with_no_others_EMB_2(
    committed: Tenant, rows: Any
) -> None:
    import_document(committed, document("a", "b"))
    import_document(committed, document("c", title="Other"), "other")
    with tenant_context(committed.pk):
        rows("DELETE FROM embeddings_embeddingtask RETURNING 1")
        shop = Source.objects.get(slug="shop")
        sources.update_source(pk=shop.pk, actor="olga", schedule="", title=shop.document_title)
        assert rows("SELECT count(*) FROM embeddings_embeddingtask") == [(0,)]  # it is called the same
        sources.update_source(pk=shop.pk, actor="olga", title="Emporium of Olga")
        tasks = "SELECT name, priority FROM embeddings_embeddingtask t JOIN tools_tool ON tools_tool.id = t.entity_id ORDER BY name"
        assert rows(tasks) == [("a", Priority.BACKFILL), ("b", Priority.BACKFILL)]
        renamed = Tool.objects.get(name="a")
        assert (renamed.server, renamed.version, renamed.updated_by) == ("Emporium of Olga", 2, "olga")
        assert "Emporium of Olga" in renamed.search_text


def test_cat_2_what_a_document_no_longer_says_is_gone_from_the_tool(committed: Tenant) -> None:
    answer = {"application/json": {"schema": {"type": "object", "properties": {"x": {"type": "string"}}}}}
    rich = document("a")
    rich["paths"]["/a"]["get"]["responses"]["200"]["content"] = answer
    rich["paths"]["/a"]["get"]["deprecated"] = True
    import_document(committed, rich)
    assert tool(committed).output is not None
    assert tool(committed).lifecycle == "deprecated"
    import_document(committed, document("a"))
    with tenant_context(committed.pk):
        assert Tool.objects.filter(output__isnull=True, lifecycle="active").count() == 1
        assert Endpoint.objects.filter(output_schema__isnull=True).count() == 1


def test_syn_4_a_dry_run_reports_the_same_and_stores_nothing(committed: Tenant) -> None:
    counts = (
        "operations",
        "tools",
        "added",
        "changed",
        "moved",
        "removed",
        "unchanged",
        "protected",
        "conflicts",
        "left_out",
        "warnings",
    )

    def both(content: dict[str, Any]) -> None:
        before = fingerprints(committed)
        dry = import_document(committed, content, dry_run=True).as_dict()
        assert fingerprints(committed) == before
        assert dry["dry_run"]
        wet = import_document(committed, content, confirm_removals=True).as_dict()
        assert {name: dry[name] for name in counts} == {name: wet[name] for name in counts}

    both(document("a", "b", "c"))
    edit(committed, description="Ours.")
    both(document("a", "b", "d", a="Changed.", b="Changed."))


def test_an_import_of_another_kind_under_the_same_name_is_refused(committed: Tenant) -> None:
    import_document(committed, document("a"))
    with tenant_context(committed.pk):
        Source.objects.update(kind="mcp")
    before = fingerprints(committed)
    with pytest.raises(
        CatalogueError, match="of kind MCP and the document of kind OpenAPI; import it under another name"
    ):
        import_document(committed, document("a", "b"))
    assert fingerprints(committed) == before


def test_an_operations_name_that_a_hand_written_tool_has_gets_another(committed: Tenant) -> None:
    with tenant_context(committed.pk):
        create_tool(actor="olga", tool_id="a", namespace="shop", name="a", description="By hand.")
    import_document(committed, document("a"))
    with tenant_context(committed.pk):
        ids = set(Tool.objects.values_list("tool_id", flat=True))
    assert len(ids) == 2
    assert all(one == "a" or one.startswith("a_") for one in ids)
    before = fingerprints(committed)
    import_document(committed, document("a"))
    assert fingerprints(committed) == before
