"""SYN-5, CAT-8, EMB-2: overrides field by field: recorded by an edit, kept by syncs, and reset."""

from __future__ import annotations

import json
from typing import Any

import pytest

from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.overrides import edit, keep_override, pets, recorded, reset_override, texts, wanted
from tools import fields
from tools.catalogue import embedding_text, overrides
from tools.catalogue.errors import Invalid
from tools.imports.syncing.documents import tool_file
from tools.imports.syncing.service import import_document as import_incoming
from tools.models import ManualOverride, Source, Tool


def describe(**texts: str) -> Tool:
    return edit(parameter_descriptions={name.replace("__", "."): text for name, text in texts.items()})


# --- Field by field ---------------------------------------------------------------------------------------------------

# (what the source said, the operator's, what the source says later). What an API document says of a tool comes from an
# OpenAPI document, the rest from a file of tools.
OF_A_FILE: dict[str, tuple[Any, Any, Any]] = {
    "name": ("first", "ours", "second"),
    "description": ("First.", "Ours.", "Second."),
    "tags": (["first"], ["ours"], ["second"]),
    "routing_domain": ("first", "ours", "second"),
    "sensitivity": ("public", "restricted", "confidential"),
    "annotations": ({"readOnlyHint": True}, {"readOnlyHint": False}, {"openWorldHint": True}),
    "lifecycle": ("active", "retired", "deprecated"),
    "tool_type": ("bash", "python", "docker"),
    "category": ("first", "ours", "second"),
    "subcategory": ("first", "ours", "second"),
    "use_cases": (["First?"], ["Ours?"], ["Second?"]),
    "tech_stack": (["first"], ["ours"], ["second"]),
    "semantic_namespace": ("first", "ours", "second"),
    "target_personas": (["first"], ["ours"], ["second"]),
    "visibility": ("public", "private", "unlisted"),
    "owner": ("first", "ours", "second"),
}


def sync_file(tenant: Tenant, field: str, value: Any) -> None:
    line = {
        "id": "one",
        "name": "one",
        "description": "Does it.",
        "parameters": {"type": "object"},
        field: value,
    }
    import_incoming(
        tool_file(raw=json.dumps(line).encode(), name="file.jsonl"), tenant_id=tenant.pk, actor="importer"
    )


def test_syn_5_every_overridable_field_is_tried() -> None:
    # A file cannot say that a tool is not core, so that one has a test of its own.
    assert {*OF_A_FILE, "core"} == set(fields.OVERRIDABLE)


@pytest.mark.parametrize("field", OF_A_FILE)
def test_syn_5_an_edited_field_is_recorded_kept_by_a_sync_in_conflict_then_and_reset(
    tenant: Tenant, field: str
) -> None:
    first, ours, second = OF_A_FILE[field]
    sync_file(tenant, field, first)
    before = wanted()
    edited = edit(**{field: ours})
    override = ManualOverride.objects.get()
    assert (override.field, override.value, override.imported_value, override.made_by) == (
        field, ours, first, "olga",
    )  # fmt: skip
    of_ours = wanted()
    assert overrides.conflicts(ManualOverride.objects.all()) == set()

    sync_file(tenant, field, second)
    now = Tool.objects.get()
    assert (getattr(now, field), now.pk) == (ours, edited.pk)
    assert [one.imported for one in overrides.override_statuses(ManualOverride.objects.all())] == [second]
    assert overrides.conflicts(ManualOverride.objects.all()) == {override.pk}

    reset_override(pk=now.pk, field=field, actor="rita")
    again = Tool.objects.get()
    assert (getattr(again, field), again.version, again.updated_by) == (second, now.version + 1, "rita")
    assert recorded() == {}
    # EMB-2: what is embedded followed at every step, for the fields that are embedded.
    assert (before != of_ours) == (of_ours != wanted()) == (field in EMBEDDED)
    assert embedding_text.source_text(again) == embedding_text.source_text(Tool.objects.get())

    sync_file(tenant, field, first)
    assert getattr(Tool.objects.get(), field) == first


def test_syn_5_an_override_that_its_source_now_says_itself_is_no_conflict_until_it_moves_on(
    tenant: Tenant,
) -> None:
    sync_file(tenant, "category", "first")
    edit(category="ours")
    sync_file(tenant, "category", "ours")
    assert overrides.conflicts(ManualOverride.objects.all()) == set()
    sync_file(tenant, "category", "third")
    assert overrides.conflicts(ManualOverride.objects.all()) == {ManualOverride.objects.get().pk}
    assert recorded() == {"category": "ours"}


def test_syn_5_how_overrides_stand_is_found_without_reading_schemas_or_layers(
    tenant: Tenant, django_assert_num_queries: Any
) -> None:
    import_document(tenant, document("a"))
    edit(description="Ours.", tags=["ours"], annotations={"readOnlyHint": True})
    with django_assert_num_queries(2) as queries:
        overrides.override_statuses(ManualOverride.objects.all())
    for column in ("layers", "input_schema", "output_schema"):
        assert not any(f'"{column}"' in query["sql"] for query in queries if "WHERE 1=0" not in query["sql"])


EMBEDDED = {
    "name", "description", "tags", "routing_domain", "tool_type", "category", "subcategory", "use_cases",
    "semantic_namespace", "target_personas",
}  # fmt: skip


def test_syn_5_core_is_overruled_too(tenant: Tenant) -> None:
    sync_file(tenant, "core", True)
    edit(core=False)
    assert recorded() == {"core": False}
    sync_file(tenant, "core", True)
    assert Tool.objects.get().core is False
    reset_override(pk=Tool.objects.get().pk, field="core", actor="olga")
    assert Tool.objects.get().core is True


@pytest.mark.parametrize(
    ("field", "ours"),
    [("name", "ours"), ("description", "Ours."), ("tags", ["ours"]), ("routing_domain", "ours"),
     ("sensitivity", "restricted"), ("annotations", {"readOnlyHint": True}), ("lifecycle", "deprecated"),
     ("tool_type", "python")],
)  # fmt: skip
def test_syn_5_what_an_api_document_says_is_overruled_and_the_imported_value_ends_it(
    tenant: Tenant, field: str, ours: Any
) -> None:
    import_document(tenant, document("a"))
    imported = getattr(Tool.objects.get(), field)
    edit(**{field: ours})
    assert recorded() == {field: ours}
    import_document(tenant, document("a", title="Store"))
    assert getattr(Tool.objects.get(), field) == ours
    edit(**{field: imported})
    assert recorded() == {}
    import_document(tenant, document("a"))
    assert getattr(Tool.objects.get(), field) == imported


def test_syn_5_an_edit_of_which_the_source_says_nothing_stays_when_it_says_something_later(
    tenant: Tenant,
) -> None:
    sync_file(tenant, "owner", "somebody")
    edit(category="ours", semantic_weight=2.0)
    assert recorded() == {"category": "ours"}
    sync_file(tenant, "category", "theirs")
    now = Tool.objects.get()
    assert (now.category, now.semantic_weight) == ("ours", 2.0)
    assert len(overrides.conflicts(ManualOverride.objects.all())) == 1


def test_syn_5_an_override_outlives_the_field_in_its_source_and_resets_to_nothing(tenant: Tenant) -> None:
    sync_file(tenant, "category", "first")
    edit(category="ours")
    sync_file(tenant, "owner", "somebody")
    assert Tool.objects.get().category == "ours"
    assert len(overrides.conflicts(ManualOverride.objects.all())) == 1
    edit(category="ours too")
    assert recorded() == {"category": "ours too"}
    reset_override(pk=Tool.objects.get().pk, field="category", actor="olga")
    assert Tool.objects.get().category == ""


# --- Parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dry", "body.name", "body.owner", "body.parent"])
def test_syn_5_a_parameters_description_is_overruled_alone_also_behind_references(
    tenant: Tenant, name: str
) -> None:
    import_document(tenant, pets())
    imported, before = Tool.objects.get().parameters, wanted()
    said = texts()
    edit(parameter_descriptions={name: "Ours."})
    assert recorded() == {f"parameters.{name}": "Ours."}
    assert ManualOverride.objects.get().imported_value == said[name]
    assert texts() == {**said, name: "Ours."}
    assert wanted() != before
    shape = json.dumps(Tool.objects.get().parameters, sort_keys=True).replace("Ours.", said[name])
    assert json.loads(shape) == imported

    # A sync that says more of another parameter leaves ours alone, and one that says more of this one is a conflict.
    import_document(tenant, {**pets(), "info": {"title": "Pets", "version": "2"}})
    assert overrides.conflicts(ManualOverride.objects.all()) == set()
    last = name.removeprefix("body.")
    import_document(tenant, pets(**{last: "Said anew."}))
    assert texts()[name] == "Ours."
    assert len(overrides.conflicts(ManualOverride.objects.all())) == 1

    tool = reset_override(pk=Tool.objects.get().pk, field=f"parameters.{name}", actor="olga")
    assert tool.parameters == tool.endpoint.input_schema
    assert texts()[name] == "Said anew."


def test_syn_5_parameters_without_a_description_get_one_and_lose_it_again(tenant: Tenant) -> None:
    import_document(tenant, pets())
    describe(body__age="In years.")
    describe(dry="Ours.")
    assert texts()["body.age"] == "In years."
    describe(dry="")
    assert recorded() == {"parameters.body.age": "In years.", "parameters.dry": ""}
    assert texts()["dry"] == ""
    describe(dry="Only checks.", body__age="")
    assert recorded() == {}
    tool = Tool.objects.get()
    assert tool.parameters == tool.endpoint.input_schema


def test_syn_5_a_vanished_parameter_is_a_conflict_and_its_override_waits_for_its_return(
    tenant: Tenant,
) -> None:
    import_document(tenant, pets())
    describe(dry="Ours.")
    without = pets()
    del without["paths"]["/pets"]["post"]["parameters"]
    import_document(tenant, without)
    assert "dry" not in texts()
    assert len(overrides.conflicts(ManualOverride.objects.all())) == 1
    import_document(tenant, pets())
    assert texts()["dry"] == "Ours."
    import_document(tenant, without)
    keep_override(pk=Tool.objects.get().pk, field="parameters.dry", actor="olga")
    assert overrides.conflicts(ManualOverride.objects.all()) == set()
    reset_override(pk=Tool.objects.get().pk, field="parameters.dry", actor="olga")
    import_document(tenant, pets())
    assert texts()["dry"] == "Only checks."


@pytest.mark.parametrize("field", ["parameters", "output"])
def test_syn_5_what_an_imported_tool_takes_and_gives_is_its_sources(tenant: Tenant, field: str) -> None:
    import_document(tenant, pets())
    before = Tool.objects.get()
    with pytest.raises(Invalid, match=r"comes from its source.*description") as refused:
        edit(**{field: {"type": "object", "x": 1}}, description="Ours.")
    assert set(refused.value.errors) == {field}
    assert Tool.objects.get().version == before.version
    # The same again is no change: a client that sends the whole tool back is not refused.
    assert edit(parameters=before.parameters, output=before.output).version == before.version


def test_cat_1_a_hand_written_tools_schema_and_texts_are_its_authors(tenant: Tenant, make_tool: Any) -> None:
    make_tool(parameters={"type": "object", "properties": {"a": {"type": "string"}}})
    describe(a="Ours.")
    assert texts() == {"a": "Ours."}
    edit(parameters={"type": "object", "properties": {"b": {}}}, parameter_descriptions={"b": "New."})
    assert Tool.objects.get().parameters == {"type": "object", "properties": {"b": {"description": "New."}}}
    assert recorded() == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [({"nope": "x"}, "no parameter “nope”"), ({"dry": 1}, "object of texts"), (["dry"], "object of texts"),
     ({"dry": "a\x00b"}, "NUL")],
)  # fmt: skip
def test_syn_5_a_description_that_cannot_be_is_refused_and_nothing_stored(
    tenant: Tenant, given: Any, words: str
) -> None:
    import_document(tenant, pets())
    with pytest.raises(Invalid, match=words):
        edit(parameter_descriptions=given, description="Ours.")
    assert Tool.objects.get().version == 1
    assert recorded() == {}


def test_syn_5_a_parameter_whose_name_is_too_long_to_tell_apart_is_refused(tenant: Tenant) -> None:
    name = "x" * 300
    sync_file(tenant, "parameters", {"type": "object", "properties": {name: {"type": "string"}}})
    with pytest.raises(Invalid, match="too long a name"):
        edit(parameter_descriptions={name: "Ours."})


# --- Sync wins --------------------------------------------------------------------------------------------------------


def test_syn_5_where_syncs_win_an_edit_lasts_until_the_next_sync(tenant: Tenant) -> None:
    import_document(tenant, pets())
    Source.objects.update(sync_wins=True)
    edit(description="Ours.", tags=["ours"], parameter_descriptions={"dry": "Ours.", "body.name": "Ours."})
    assert recorded().keys() == {"description", "tags", "parameters.dry", "parameters.body.name"}
    now = Tool.objects.get()
    assert (now.description, now.description_source, texts()["body.name"]) == ("Ours.", "manual", "Ours.")
    import_document(tenant, pets())
    now = Tool.objects.get()
    assert (now.description, now.description_source, now.tags) == ("Adds a pet.", "endpoint_sync", [])
    assert now.parameters == now.endpoint.input_schema
    assert recorded() == {}
