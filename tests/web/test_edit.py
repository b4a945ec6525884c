from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from embeddings.models import EmbeddingTask
from tools import services
from tools.models import ManualOverride, Source, Tool
from tools.web.forms import ToolForm


def form_of(tool: Tool, **changes: Any) -> dict[str, Any]:
    """What a browser sends for the untouched form, with its line ends, and then the changes."""
    fresh = Tool.objects.get(pk=tool.pk)
    sent = {}
    for name, value in ToolForm.initial_of(fresh).items():
        text = "\n".join(value) if isinstance(value, list) else value
        sent[name] = text.replace("\n", "\r\n") if isinstance(text, str) else text
    sent |= changes
    return {name: value for name, value in sent.items() if value is not False}


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


def test_UI_1_an_edit_that_changes_no_meaning_says_that_the_vector_stays(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", form_of(tool, owner="me"), follow=True)
    assert "its vector stays" in answer.content.decode()
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", form_of(tool), follow=True)
    assert "Nothing was changed." in answer.content.decode()


def test_SYN_5_the_form_says_beforehand_what_becomes_of_an_edit(
    operator_client: Client, imported_tool: Tool
) -> None:
    html = operator_client.get(f"/tools/{imported_tool.pk}/edit/").content.decode()
    assert "your text is kept as an override" in html
    Source.objects.update(sync_wins=True)
    html = operator_client.get(f"/tools/{imported_tool.pk}/edit/").content.decode()
    assert "its next import overwrites name, description and tags" in html


def test_SYN_5_only_the_field_that_was_really_edited_becomes_an_override(
    operator_client: Client, imported_tool: Tool
) -> None:
    Tool.objects.filter(pk=imported_tool.pk).update(description="Two\nlines with a blank at the end ")
    form = form_of(imported_tool, tags="orders\r\nsales")
    assert operator_client.post(f"/tools/{imported_tool.pk}/edit/", form).status_code == 302
    assert list(ManualOverride.objects.values_list("field", "value")) == [("tags", ["orders", "sales"])]
    html = operator_client.get(f"/tools/{imported_tool.pk}/edit/").content.decode()
    assert "Imported tags" in html


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
    services.update_tool(
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
        services.update_tool(
            pk=tool.pk, expected_version=version, changes={"owner": f"o{version}"}, actor="x"
        )
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
