"""The descriptions of parameters on the form of a tool."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from portal.tenancy.models import Tenant
from tests.support.imports.documents import import_document
from tests.support.overrides import pets
from tests.tools.web.tools.conftest import form_of
from tools.models import ManualOverride, Tool
from tools.web.tools.forms import parameter_field


def imported_pet(tenant: Tenant, **said: str) -> Tool:
    import_document(tenant, pets(**said))
    tool: Tool = Tool.objects.select_related("endpoint", "source").get(name="addPet")
    return tool


def test_SYN_5_parameters_of_the_body_have_fields_of_their_own_and_are_overruled_alone(
    operator_client: Client, tenant: Tenant
) -> None:
    tool = imported_pet(tenant)
    form = form_of(tool)
    assert {name for name in form if name.startswith("parameters.")} == {
        "parameters.dry", "parameters.body", "parameters.body.name", "parameters.body.owner", "parameters.body.parent",
        "parameters.body.age",
    }  # fmt: skip
    form |= {"parameters.body.name": "Ours.\r\nTwo lines.", "parameters.body.age": "In years."}
    assert operator_client.post(f"/tools/{tool.pk}/edit/", form).status_code == 302
    assert dict(ManualOverride.objects.values_list("field", "value")) == {
        "parameters.body.name": "Ours.\nTwo lines.", "parameters.body.age": "In years.",
    }  # fmt: skip
    html = operator_client.get(f"/tools/{tool.pk}/edit/").content.decode()
    assert "What it is called." in html
    assert "Ours.\nTwo lines." in html
    html = operator_client.get(f"/tools/{tool.pk}/").content.decode()
    assert "Description of body.age overridden" in html
    assert "<code>body.age</code>" in html


@pytest.mark.parametrize("name", ["with blank", "a/b", "../x", "é", "q?#&=%20", "<b>", 'quo"te', "=20"])
def test_SYN_5_a_parameter_may_have_any_name(
    operator_client: Client, make_tool: Callable[..., Tool], name: str
) -> None:
    tool = make_tool(parameters={"type": "object", "properties": {name: {"type": "string"}, "x": {}}})
    html = operator_client.get(f"/tools/{tool.pk}/edit/").content.decode()
    ids = re.findall(r' id="([^"]*)"', html)
    assert len(ids) == len(set(ids))
    assert not any(" " in one for one in ids)
    form = {**form_of(tool), parameter_field(name): "Ours."}
    assert operator_client.post(f"/tools/{tool.pk}/edit/", form).status_code == 302
    assert Tool.objects.get().parameters["properties"] == {
        name: {"type": "string", "description": "Ours."}, "x": {},
    }  # fmt: skip


def test_UI_1_a_mistake_elsewhere_loses_nothing_of_what_was_typed(
    operator_client: Client, tenant: Tenant
) -> None:
    tool = imported_pet(tenant)
    form = form_of(tool, annotations="{no json", tech_stack="python", sensitivity="restricted", name="")
    form["parameters.body.name"] = "Typed here."
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", form)
    html = answer.content.decode()
    assert answer.status_code == 422
    assert 'href="#id_annotations"' in html
    for typed in ("{no json", "Typed here.", "python", 'value="restricted" selected'):
        assert typed in html
    assert '<details class="more" open><summary>More fields' in html


def test_UI_1_a_sync_in_between_is_a_conflict_that_merges_parameters_too(
    operator_client: Client, tenant: Tenant
) -> None:
    tool = imported_pet(tenant)
    mine = form_of(tool)
    mine |= {"parameters.body.name": "My words.", "parameters.dry": "My dry words."}
    changed = pets(owner="Who pays for it.", name="Its call name.")
    del changed["paths"]["/pets"]["post"]["parameters"]
    changed["components"]["schemas"]["Pet"]["properties"]["colour"] = {
        "type": "string",
        "description": "Its fur.",
    }
    import_document(tenant, changed)
    answer = operator_client.post(f"/tools/{tool.pk}/edit/", mine)
    html = answer.content.decode()
    assert answer.status_code == 409
    assert "<del>Its call name</del><ins>My words</ins>" in html
    assert "Taken from their version, because you had not changed it: body.owner." in html
    assert "no longer a parameter of this tool" in html
    assert "My dry words." in html
    form = answer.context["form"]
    again = {name: form[name].value() for name in form.fields if form[name].value() is not False}
    again["annotations"] = "{}"
    assert again["parameters.body.colour"] == "Its fur."
    assert again["parameters.body.owner"] == "Who pays for it."
    assert again["parameters.body.name"] == "My words."
    assert operator_client.post(f"/tools/{tool.pk}/edit/", again).status_code == 302
    assert dict(ManualOverride.objects.values_list("field", "value")) == {"parameters.body.name": "My words."}


def test_SYN_5_a_field_in_conflict_shows_what_changed_with_keep_reset_and_edit(
    operator_client: Client, tenant: Tenant
) -> None:
    tool = imported_pet(tenant)
    form = {**form_of(tool), "parameters.dry": "My own words."}
    operator_client.post(f"/tools/{tool.pk}/edit/", form)
    imported_pet(tenant, dry="Only tests.")
    html = operator_client.get(f"/tools/{tool.pk}/edit/").content.decode()
    override = ManualOverride.objects.get()
    assert "The imported text has changed since" in html
    assert "Only <del>checks</del><ins>tests</ins>." in html
    assert "Reset to imported" in html
    assert 'href="#id_parameters.dry"' in html
    kept = operator_client.post("/overrides/keep/", {"only": override.pk, "next": f"/tools/{tool.pk}/edit/"})
    assert kept["Location"] == f"/tools/{tool.pk}/edit/"
    html = operator_client.get(f"/tools/{tool.pk}/edit/").content.decode()
    assert "The imported text has changed since" not in html
    assert "My own words." in html
