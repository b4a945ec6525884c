from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from embeddings.models import EmbeddingTask
from portal.tenancy.models import Tenant
from tests.tools.web.tools.conftest import form_of
from tools import fields
from tools.catalogue.projection import tool_fields
from tools.catalogue.tools import create_tool, update_tool
from tools.imports.formats.tool_files import parse_tools
from tools.models import ManualOverride, Source, Tool
from tools.web.tools.forms import ToolForm


def test_UI_1_saving_goes_back_to_the_page_and_queues_the_embedding(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    form = form_of(
        tool,
        description="Sends a letter.\r\nBy post.",
        use_cases="How do I write?\r\n\r\nPost this",
        tags="a\r\nb",
    )
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", form, follow=True)
    assert answer.redirect_chain == [(f"/tools/{tool.pk}/", 302)]
    assert "Saved. Embedding queued." in answer.content.decode()
    saved = Tool.objects.get(pk=tool.pk)
    assert saved.description == "Sends a letter.\nBy post."
    assert (saved.use_cases, saved.tags) == (["How do I write?", "Post this"], ["a", "b"])
    assert saved.version == 2
    assert EmbeddingTask.objects.filter(entity_id=tool.pk).count() == 1


def test_CAT_1_the_parameters_of_a_tool_by_hand_are_edited_on_its_page_and_those_of_an_imported_one_are_not(
    operator_client: Client, make_tool: Callable[..., Tool], imported_tool: Tool
) -> None:
    tool = make_tool()
    path = f"/tools/{tool.pk}/edit/"
    schema = {"type": "object", "properties": {"to": {"type": "string", "description": "Who gets it."}}}
    assert 'name="parameters"' in operator_client.get(path).content.decode()
    operator_client.post(path, form_of(tool, parameters=json.dumps(schema)))
    tool.refresh_from_db()
    assert tool.parameters == schema
    assert "Who gets it." in tool.search_text
    assert "Who gets it." in operator_client.get(f"/tools/{tool.pk}/").content.decode()
    for wrong in ("{", "[1]"):
        refused = operator_client.post(path, form_of(tool, parameters=wrong))
        assert refused.status_code == 422, wrong
        assert (
            wrong[0] in refused.content.decode().partition('name="parameters"')[2].partition("</textarea>")[0]
        )
    without = form_of(tool, name="renamed")
    del without["parameters"]  # as of a form that had none
    operator_client.post(path, without)
    tool.refresh_from_db()
    assert (tool.name, tool.parameters) == ("renamed", schema)
    imported = f"/tools/{imported_tool.pk}/edit/"
    assert 'name="parameters"' not in operator_client.get(imported).content.decode()
    before = imported_tool.parameters
    operator_client.post(imported, form_of(imported_tool, parameters="{}"))
    imported_tool.refresh_from_db()
    assert imported_tool.parameters == before


def test_CAT_1_a_new_tool_has_its_parameters_from_the_start(operator_client: Client) -> None:
    form = form_of(
        Tool(), tool_id="mail", name="mail", namespace="public", parameters='{"type": "object"}', active="on"
    )
    operator_client.post("/tools/new/", {name: value for name, value in form.items() if value is not None})
    assert Tool.objects.get(tool_id="mail").parameters == {"type": "object"}


def test_no_page_says_that_an_embedding_is_queued_while_embedding_is_off_EMB_5(
    operator_client: Client, admin_client: Client, imported_tool: Tool, settings: Any
) -> None:
    settings.EMBEDDING_PROVIDER = "disabled"
    new = form_of(Tool(), tool_id="mail", name="mail", namespace="public", parameters="{}", active="on")
    given = {name: value for name, value in new.items() if value is not None}
    made = operator_client.post("/tools/new/", given, follow=True).content.decode()
    path = f"/tools/{imported_tool.pk}/edit/"
    edited = operator_client.post(
        path, form_of(imported_tool, description="Ours."), follow=True
    ).content.decode()
    for html in (made, edited):
        assert "Saved." in html
        assert "Embedding queued." not in html
    off = "Embedding is switched off"
    assert off in admin_client.get("/models/").content.decode()
    counted = operator_client.post("/jobs/new/", {"statuses": "all", "count": "1"}).content.decode()
    assert off in counted
    assert "There is nothing to do." in counted


def test_UI_1_an_edit_that_changes_no_meaning_says_that_the_vector_stays(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", form_of(tool, owner="me"), follow=True)
    assert "the vector is kept" in answer.content.decode()
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", form_of(tool), follow=True)
    assert "Nothing was changed." in answer.content.decode()


def test_SYN_5_the_form_says_beforehand_what_becomes_of_an_edit(
    operator_client: Client, imported_tool: Tool
) -> None:
    html = operator_client.get(f"/tools/{imported_tool.pk}/edit/").content.decode()
    assert "Each imported field that you change becomes an override" in html
    Source.objects.update(sync_wins=True)
    html = operator_client.get(f"/tools/{imported_tool.pk}/edit/").content.decode()
    assert "its next sync removes your changes to imported fields: name, description, tags" in html


def test_SYN_5_only_the_field_that_was_really_edited_becomes_an_override(
    operator_client: Client, imported_tool: Tool
) -> None:
    Tool.objects.filter(pk=imported_tool.pk).update(description="Two\nlines with a blank at the end ")
    form = form_of(imported_tool, tags="orders\r\nsales")
    assert operator_client.post(f"/tools/{imported_tool.pk}/edit/", form).status_code == 302
    assert list(ManualOverride.objects.values_list("field", "value")) == [("tags", ["orders", "sales"])]
    html = operator_client.get(f"/tools/{imported_tool.pk}/edit/").content.decode()
    assert f"Overridden by {ManualOverride.objects.get().made_by}" in html
    assert "<del>orders</del>" not in html
    assert "<ins>" in html


def test_UI_1_mistakes_come_back_with_status_422_beside_their_fields(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    form = form_of(tool, name="", semantic_weight="9", description="Still here.")
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", form)
    html = answer.content.decode()
    assert answer.status_code == 422
    assert 'href="#id_name"' in html
    assert 'id="id_semantic_weight_error"' in html
    assert 'aria-invalid="true"' in html
    assert "Still here." in html
    assert Tool.objects.get(pk=tool.pk).version == 1


@pytest.mark.parametrize("version", ["", "nonsense", "7"])
def test_UI_1_a_form_without_the_right_version_stores_nothing(
    operator_client: Client, make_tool: Callable[..., Tool], version: str
) -> None:
    tool = make_tool()
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", form_of(tool, version=version, name="other"))
    assert answer.status_code in {409, 422}
    assert Tool.objects.get(pk=tool.pk).name == "tool_0"


def test_UI_1_the_second_of_two_tabs_gets_both_texts_and_loses_nothing(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool(description="Sends a letter by post.")
    mine = form_of(tool, description="Sends a letter by pigeon.", owner="me")
    update_tool(
        pk=tool.pk, expected_version=1, actor="olga",
        changes={"description": "Sends a letter by train.", "category": "Mail"},
    )  # fmt: skip
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", mine)
    html = answer.content.decode()
    assert answer.status_code == 409
    assert "olga saved this tool while you were editing it" in html
    assert "<del>train</del><ins>pigeon</ins>" in html
    assert "both of you changed it" in html
    assert Tool.objects.get(pk=tool.pk).description == "Sends a letter by train."
    # The form holds mine, what they did elsewhere, and the version to save over.
    form = answer.context["form"]
    again = {name: form[name].value() for name in form.fields if form[name].value() is not False}
    assert (again["description"], again["category"], again["owner"]) == (
        "Sends a letter by pigeon.",
        "Mail",
        "me",
    )
    assert again["version"] == 2
    assert operator_client.post(f"/tools/{tool.pk}/edit/", again).status_code == 302
    saved = Tool.objects.get(pk=tool.pk)
    assert (saved.description, saved.category, saved.owner) == ("Sends a letter by pigeon.", "Mail", "me")
    assert saved.version == 3


def test_UI_1_a_third_save_in_between_is_a_conflict_again(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    form = form_of(tool, description="Mine.")
    for version in (1, 2):
        update_tool(pk=tool.pk, expected_version=version, changes={"owner": f"o{version}"}, actor="x")
        assert (
            operator_client.post(f"/tools/{tool.pk}/edit/", {**form, "version": version}).status_code == 409
        )


def test_CAT_1_a_new_tool_is_made_and_queued(operator_client: Client) -> None:
    html = operator_client.get("/tools/new/").content.decode()
    assert 'value="public"' in html
    form = {
        "name": "Send mail", "tool_id": "mail.send", "namespace": "public", "description": "Sends mail.", "tool_type": "api",
        "lifecycle": "active", "sensitivity": "internal", "visibility": "public", "semantic_weight": "1", "active": "on",
    }  # fmt: skip
    assert operator_client.post("/tools/new/", form).status_code == 302
    tool = Tool.objects.get(tool_id="mail.send")
    assert EmbeddingTask.objects.filter(entity_id=tool.pk).exists()
    taken = operator_client.post("/tools/new/", form)
    assert taken.status_code == 409
    assert "exists in this namespace" in taken.content.decode()
    assert operator_client.post("/tools/new/", {**form, "tool_id": "no blanks"}).status_code == 422


def test_EMB_2_deactivation_is_versioned_and_activation_asks_again(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    path = f"/tools/{tool.pk}/active/"
    operator_client.post(path, {"active": "no", "version": 1})
    assert not Tool.objects.get(pk=tool.pk).active
    assert not EmbeddingTask.objects.filter(entity_id=tool.pk).exists()
    stale = operator_client.post(path, {"active": "yes", "version": 1}, follow=True)
    assert "saved this tool while you were editing it" in stale.content.decode()
    operator_client.post(path, {"active": "yes", "version": 2})
    assert Tool.objects.get(pk=tool.pk).active
    assert EmbeddingTask.objects.filter(entity_id=tool.pk).exists()


def test_SYN_6_an_imported_tool_is_not_deleted_but_explained(
    admin_client: Client, imported_tool: Tool
) -> None:
    answer = admin_client.post(f"/tools/{imported_tool.pk}/delete/", follow=True)
    assert "Deactivate it instead" in answer.content.decode()
    assert Tool.objects.filter(pk=imported_tool.pk).exists()


def test_SYN_5_every_overridable_field_can_be_edited_in_the_form() -> None:
    assert set(fields.OVERRIDABLE) <= ToolForm.base_fields.keys()


def test_SYN_5_blanks_around_an_imported_line_are_no_edit(
    operator_client: Client, imported_tool: Tool
) -> None:
    Tool.objects.filter(pk=imported_tool.pk).update(routing_domain=" shop ")
    assert operator_client.post(f"/tools/{imported_tool.pk}/edit/", form_of(imported_tool)).status_code == 302
    assert Tool.objects.get().version == 1


def test_case_65_an_untouched_form_never_writes_whatever_the_entries_hold_CAT_1(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    # As rows have them that were written before, or by SQL.
    Tool.objects.filter(pk=tool.pk).update(
        use_cases=["Which crates\nare late?", "second"], tags=["a\nb", "c"]
    )
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", form_of(tool), follow=True)
    assert "Nothing was changed." in answer.content.decode()
    saved = Tool.objects.get(pk=tool.pk)
    assert (saved.use_cases, saved.tags) == (["Which crates\nare late?", "second"], ["a\nb", "c"])
    assert saved.version == tool.version


def test_case_65_entries_of_a_list_are_one_line_at_every_entrance_CAT_1(tenant: Tenant) -> None:
    lists = {"use_cases": ["Which crates\nare late?", "second"], "tags": ["a\nb", "c"]}
    wanted = (["Which crates are late?", "second"], ["a b", "c"])
    made = create_tool(actor="ann", tool_id="crates", namespace="default", name="crates", **lists)
    assert (made.use_cases, made.tags) == wanted
    saved = update_tool(pk=made.pk, expected_version=made.version, changes={"tags": ["d\r\ne"]}, actor="ann")
    assert saved.tags == ["d e"]
    again = update_tool(pk=made.pk, expected_version=saved.version, changes={"tags": ["d\ne"]}, actor="ann")
    assert again.version == saved.version
    entry = {"id": "file", "name": "file", "description": "F", **lists}
    (spec,) = parse_tools(json.dumps([entry]).encode(), name="tools.json").endpoints
    imported = tool_fields(spec, Source(kind="manual"))
    assert (imported["use_cases"], imported["tags"]) == wanted
