"""SYN-5: the page of all overrides: conflicts first, filters, and Reset, Keep, Undo and Show as patch, one or many at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.clients import join
from tests.support.imports.documents import document, import_document
from tests.support.overrides import ids, many, overrule, pets
from tests.support.pages.web import seen_of
from tools.catalogue import overrides
from tools.catalogue.tools import update_tool
from tools.models import ManualOverride, Tool
from tools.web.overrides import views as pages

HTMX = {"HX-Request": "true"}


def page(client: Client, query: str = "") -> str:
    return client.get(f"/overrides/{query}").content.decode()


def names(html: str) -> list[str]:
    return [
        part.split("<")[0]
        for part in html.split('class="tool-name" href="')[1:]
        for part in [part.split(">")[1]]
    ]


@pytest.fixture
def shop(tenant: Tenant) -> list[Tool]:
    """Three tools with two overrides each, of which the second tool's description is in conflict."""
    tools = many(tenant, 3)
    overrule(tools, "Ours of the shop.")
    said = dict.fromkeys((tool.name for tool in tools), "Imported.")
    import_document(tenant, document(*said, **{**said, tools[1].name: "Imported and moved on."}))
    return tools


def test_SYN_5_the_page_shows_conflicts_first_with_both_differences_who_and_when(
    viewer_client: Client, shop: list[Tool]
) -> None:
    html = page(viewer_client)
    assert names(html)[0] == shop[1].name
    assert len(names(html)) == 6
    assert "<strong>6</strong> overrides, <strong>1</strong> in conflict" in html
    assert "Imported<ins> and moved on</ins>." in html
    assert "<del>Imported and moved on</del><ins>Ours of the shop</ins>." in html
    assert "olga" in html
    for action in ("Reset", "Reset to imported", "Keep"):
        assert action not in html.split("<ul class", 1)[1]
    assert "Show as patch" in html


def test_SYN_5_filters_narrow_the_list_and_a_fragment_answers_them(
    operator_client: Client, tenant: Tenant, shop: list[Tool]
) -> None:
    import_document(tenant, pets(), "pets")
    pet = Tool.objects.get(name="addPet")
    update_tool(
        pk=pet.pk, expected_version=1, changes={"parameter_descriptions": {"dry": "Ours."}}, actor="kim"
    )
    for query, count in (
        ("?source=pets", 1), ("?source=shop", 6), ("?field=tags", 3), ("?field=parameters", 1), ("?who=kim", 1),
        ("?who=olga&field=description", 3), ("?conflicts=1", 1), ("?conflicts=1&who=kim", 0), ("?source=nope", 0),
    ):  # fmt: skip
        assert len(names(page(operator_client, query))) == count, query
    answer = operator_client.get("/overrides/?field=tags", headers=HTMX)
    assert "<html" not in answer.content.decode()
    assert answer["HX-Push-Url"] == "/overrides/?field=tags"
    html = page(operator_client, "?field=nonsense")
    assert "The filter field “nonsense” no longer exists" in html
    assert "No override matches" in page(operator_client, "?source=nope")
    html = page(operator_client, "?source=nope&field=description&who=olga&conflicts=1")
    filters = "Filtered by source “nope”, field “Description”, overridden by “olga”, only conflicts."
    assert filters in html  # every one that is in force


def test_SYN_5_without_overrides_the_page_says_what_one_is(viewer_client: Client) -> None:
    assert "An override is a person's change of an imported field" in page(viewer_client)


def test_SYN_5_the_page_asks_a_bounded_number_of_queries(
    viewer_client: Client, tenant: Tenant, django_assert_max_num_queries: Any
) -> None:
    overrule(many(tenant, 30))
    with django_assert_max_num_queries(25):
        html = page(viewer_client, "?rows=50")
    assert len(names(html)) == 50
    assert "page=2" in html


def test_SYN_5_selected_overrides_are_reset_after_a_question_with_the_exact_texts_and_counts(
    operator_client: Client, shop: list[Tool]
) -> None:
    chosen = ids(field="description")
    question = operator_client.post("/overrides/reset/", {"selected": chosen, "next": "/overrides/?who=olga"})
    html = question.content.decode()
    assert question.status_code == 200
    assert "3 overrides of 3 tools are removed" in html
    assert html.count('<blockquote class="quote">Imported.</blockquote>') == 2
    assert html.count('<blockquote class="quote">Imported and moved on.</blockquote>') == 1
    assert len(ids()) == 6
    answer = operator_client.post(
        "/overrides/reset/", {"selected": chosen, "seen": seen_of(html), "next": "/overrides/?who=olga"}, follow=True
    )  # fmt: skip
    assert answer.redirect_chain == [("/overrides/?who=olga", 302)]
    assert "3 fields reset to imported. Embedding queued." in answer.content.decode()
    assert sorted(Tool.objects.values_list("description", flat=True)) == [
        "Imported and moved on.",
        "Imported.",
        "Imported.",
    ]
    assert len(ids()) == 3
    operator_client.post("/overrides/undo/", {"reset": answer.context["undoable"][0]["reset"]})
    assert len(ids()) == 6
    assert set(Tool.objects.values_list("description", flat=True)) == {"Ours of the shop."}


def test_SYN_5_all_that_match_are_reset_and_nothing_else(
    operator_client: Client, tenant: Tenant, shop: list[Tool]
) -> None:
    overrule(many(tenant, 2, "other"))
    path = "/overrides/reset/?all=1&source=shop&field=tags"
    html = operator_client.get(path).content.decode()
    assert "Reset 3 fields to imported?" in html
    operator_client.post(path, {"seen": seen_of(html)})
    assert (
        len(ids(tool__source__slug="shop")) == len(ids(field="description", tool__source__slug="shop")) == 3
    )
    assert len(ids(tool__source__slug="other")) == 4


def test_SYN_5_nothing_is_reset_that_the_question_did_not_show(
    operator_client: Client, tenant: Tenant, shop: list[Tool]
) -> None:
    path = "/overrides/reset/?all=1&source=shop"
    seen = seen_of(operator_client.get(path).content.decode())
    update_tool(
        pk=shop[0].pk, expected_version=Tool.objects.get(pk=shop[0].pk).version, changes={"routing_domain": "new"}, actor="kim"
    )  # fmt: skip
    answer = operator_client.post(path, {"seen": seen})
    assert answer.status_code == 409
    assert "Nothing was reset:" in answer.content.decode()
    assert len(ids()) == 7
    # The same for what they would become: a sync that says something else in between.
    seen = seen_of(answer.content.decode())
    many(tenant, 3, text="Said anew.")
    answer = operator_client.post(path, {"seen": seen})
    assert answer.status_code == 409
    assert "Said anew." in answer.content.decode()
    operator_client.post(path, {"seen": seen_of(answer.content.decode())})
    assert ids() == []


def test_SYN_5_that_refusal_needs_what_was_seen(
    operator_client: Client, shop: list[Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one word for all questions, the newer edit goes too: the test above can fail."""
    monkeypatch.setattr(pages, "_seen", lambda chosen: "same")
    path = "/overrides/reset/?all=1&source=shop"
    operator_client.get(path)
    update_tool(
        pk=shop[0].pk, expected_version=Tool.objects.get(pk=shop[0].pk).version, changes={"routing_domain": "new"}, actor="kim"
    )  # fmt: skip
    operator_client.post(path, {"seen": "same"})
    assert ids() == []


def test_SYN_5_more_than_a_page_has_time_for_is_refused_with_a_sentence(
    operator_client: Client, shop: list[Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_MOST_AT_ONCE", 5)
    html = operator_client.get("/overrides/reset/?all=1", follow=True).content.decode()
    assert "These are 6 overrides, and a page handles at most 5 at once." in html
    assert len(ids()) == 6


@pytest.mark.parametrize("path", ["/overrides/reset/", "/overrides/keep/"])
def test_SYN_5_with_nothing_chosen_nothing_is_done(
    operator_client: Client, shop: list[Tool], path: str
) -> None:
    for sent in ({}, {"selected": "nonsense"}, {"selected": str(shop[0].pk)}, {"seen": "x"}):
        answer = operator_client.post(path, sent, follow=True)
        assert answer.redirect_chain == [("/overrides/", 302)]
        words = "Nothing was selected" if "reset" in path else "Nothing to keep"
        assert words in answer.content.decode()
    assert len(ids()) == 6


def test_SYN_5_keep_one_selected_or_all_in_conflict(
    operator_client: Client, tenant: Tenant, shop: list[Tool]
) -> None:
    answer = operator_client.post("/overrides/keep/", {"selected": ids()}, follow=True)
    assert "Kept 1 override over the newer imported text." in answer.content.decode()
    many(tenant, 3, text="Said anew.")
    path = "/overrides/keep/?all=1&field=description"
    html = operator_client.get(path, headers=HTMX).content.decode()
    assert "Keep 3 overrides?" in html
    assert len(overrides.conflicts(ManualOverride.objects.all())) == 3
    operator_client.post(path)
    assert overrides.conflicts(ManualOverride.objects.all()) == set()
    assert "conflict" not in page(operator_client).split("<ul class")[1]


def test_SYN_5_a_patch_of_too_many_edits_is_refused_with_a_sentence(
    viewer_client: Client, shop: list[Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_MOST_AT_ONCE", 5)
    for answer in (
        viewer_client.get("/overrides/patch/?all=1&download=1", follow=True),
        viewer_client.post("/overrides/patch/?all=1", follow=True),
    ):
        assert "These are 6 overrides, and a page handles at most 5 at once." in answer.content.decode()
    assert "Propose upstream" in viewer_client.get("/overrides/patch/?all=1&field=tags").content.decode()


def test_SYN_5_a_patch_proposes_the_edits_to_the_source_as_a_unified_diff(
    viewer_client: Client, tenant: Tenant, shop: list[Tool]
) -> None:
    html = viewer_client.get("/overrides/patch/?all=1&field=tags").content.decode()
    assert "3 overrides as a patch against the source" in html
    answer = viewer_client.post("/overrides/patch/", {"selected": ids(tool=shop[0]), "download": "1"})
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert "attachment" in answer["Content-Disposition"]
    assert answer.content.decode() == (
        "--- a/shop//op0000@get#description\n+++ b/shop//op0000@get#description\n@@ -1 +1 @@\n-Imported.\n+Ours of the shop.\n"
        "--- a/shop//op0000@get#tags\n+++ b/shop//op0000@get#tags\n@@ -1 +1 @@\n-shop\n+ours\n"
    )


def test_SYN_5_an_override_of_a_parameter_that_is_gone_says_so_and_offers_no_edit(
    operator_client: Client, tenant: Tenant
) -> None:
    content = document("get_price")
    operation = content["paths"]["/get_price"]["get"]
    operation["parameters"] = [{"name": "lang", "in": "query", "schema": {"type": "string"}}]
    import_document(tenant, content)
    tool = Tool.objects.get()
    update_tool(
        pk=tool.pk,
        expected_version=tool.version,
        changes={"parameter_descriptions": {"lang": "Ours."}},
        actor="olga",
    )
    assert "no longer has this parameter" not in operator_client.get(f"/tools/{tool.pk}/").content.decode()
    del operation["parameters"]
    import_document(tenant, content)
    html = operator_client.get(f"/tools/{tool.pk}/").content.decode()
    override = html[html.index('aria-label="Override of') :]
    override = override[: override.index("</section>")]
    assert "The source no longer has this parameter." in override
    assert f"/tools/{tool.pk}/edit/" not in override
    assert "Reset to imported" in override


def test_SYN_6_a_vanished_tool_that_somebody_activated_is_told_as_what_it_is(
    operator_client: Client, tenant: Tenant
) -> None:
    import_document(tenant, document("get_price", "list_prices"))
    import_document(tenant, document("list_prices"), confirm_removals=True)
    tool = Tool.objects.get(name="get_price")
    assert "The tool is inactive" in operator_client.get(f"/tools/{tool.pk}/").content.decode()
    operator_client.post(f"/tools/{tool.pk}/active/", {"active": "yes", "version": tool.version})
    tool.refresh_from_db()
    assert tool.active
    html = operator_client.get(f"/tools/{tool.pk}/").content.decode()
    assert "The tool is inactive" not in html
    assert "somebody has activated it" in html


def test_SYN_5_viewers_look_and_operators_act(viewer_client: Client, shop: list[Tool]) -> None:
    for path in ("/overrides/reset/", "/overrides/keep/", "/overrides/undo/"):
        assert viewer_client.post(path, {"selected": ids(), "seen": "x"}).status_code == 403
    assert viewer_client.get("/overrides/reset/?all=1").status_code == 403
    assert len(ids()) == 6


def test_SYN_5_a_late_or_foreign_undo_is_refused_with_a_sentence(
    operator_client: Client, make_tenant: Callable[..., Tenant], shop: list[Tool]
) -> None:
    for reset in ("", "nonsense", "0c0ffee0-0000-4000-8000-000000000000"):
        html = operator_client.post("/overrides/undo/", {"reset": reset}, follow=True).content.decode()
        assert "A reset can be undone for ten minutes" in html
    assert operator_client.get("/overrides/undo/").status_code == 405


def test_SYN_5_an_undo_is_offered_for_ten_minutes_only(
    tenant: Tenant, operator_client: Client, shop: list[Tool]
) -> None:
    html = operator_client.get("/overrides/reset/?all=1").content.decode()
    operator_client.post("/overrides/reset/?all=1", {"seen": seen_of(html)})
    assert "Reset to imported: 6 fields." in page(operator_client)
    session = operator_client.session
    key = f"resets {tenant.pk}"
    session[key] = [{**one, "at": one["at"] - 601} for one in session[key]]
    session.save()
    assert "Reset to imported: 6 fields." not in page(operator_client)


def test_an_undo_is_offered_in_the_tenant_of_the_reset_only_SEC_1(
    tenant: Tenant, make_tenant: Callable[..., Tenant], operator_client: Client, shop: list[Tool]
) -> None:
    other = make_tenant()
    join(other, User.objects.get(), "operator")
    one = ManualOverride.objects.filter(field="description")[0]
    html = operator_client.get(f"/overrides/reset/?selected={one.pk}").content.decode()
    operator_client.post("/overrides/reset/", {"selected": str(one.pk), "seen": seen_of(html)})
    offered = f"Reset to imported: description of {one.tool.name}"
    assert offered in page(operator_client)
    operator_client.post("/tenant/", {"tenant": str(other.pk)})
    assert offered not in page(operator_client)
    operator_client.post("/tenant/", {"tenant": str(tenant.pk)})
    assert offered in page(operator_client)


def test_SEC_3_hostile_texts_and_names_are_shown_as_text(operator_client: Client, tenant: Tenant) -> None:
    evil = "<script>alert(1)</script>"
    content = document("a", a=evil)
    content["paths"]["/a"]["get"]["parameters"] = [
        {"name": evil, "in": "query", "schema": {"type": "string"}}
    ]
    import_document(tenant, content)
    tool = Tool.objects.get()
    name = next(iter(tool.parameters["properties"]))
    update_tool(
        pk=tool.pk, expected_version=1, actor=evil,
        changes={"description": f"x {evil}", "parameter_descriptions": {name: evil}},
    )  # fmt: skip
    import_document(tenant, document("a", a=f"{evil} anew"))
    for path in ("/overrides/", "/overrides/reset/?all=1", "/overrides/patch/?all=1", f"/tools/{tool.pk}/edit/",
                 f"/tools/{tool.pk}/", f"/tools/{tool.pk}/history/"):  # fmt: skip
        html = operator_client.get(path).content.decode()
        assert evil not in html
        assert ("&lt;script&gt;" in html) == ("reset" not in path), path  # imported texts have no tags


def test_another_tenants_overrides_are_not_there(
    operator_client: Client, make_tenant: Callable[..., Tenant]
) -> None:
    other = make_tenant()
    with tenant_context(other.pk):
        overrule(many(other, 1))
        theirs = ids()
    assert "No overrides" in page(operator_client)
    answer = operator_client.get(f"/overrides/reset/?selected={theirs[0]}", follow=True)
    assert "Nothing was selected" in answer.content.decode()
    with tenant_context(other.pk):
        assert ids() == theirs


@pytest.mark.parametrize("path", ["/overrides/", "/overrides/patch/?all=1", "/overrides/reset/?all=1"])
def test_pages_of_overrides_carry_the_strict_policy_and_nothing_inline(
    operator_client: Client, shop: list[Tool], path: str
) -> None:
    answer = operator_client.get(path)
    html = answer.content.decode()
    assert "unsafe" not in answer["Content-Security-Policy"]
    for forbidden in (" style=", "<style", "hx-on", "javascript:", " onclick"):
        assert forbidden not in html
    assert html.count("<h1") == 1
