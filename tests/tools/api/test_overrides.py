"""SYN-5, CAT-8 by REST: what operators wrote over imported fields, back to the source or kept; and a tool's history."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope, Tenant
from tests.support.api import assert_problem, patch, raw, upload
from tests.support.clients import make_api
from tools.api.overrides import views as overrides
from tools.models import ManualOverride, Tool

OVERRIDES = "/api/v1/overrides"
A = "a?namespace=shop"


def at(path: str) -> str:
    """Below the tool a of the source shop."""
    return f"/api/v1/tools/a/{path}?namespace=shop"


@pytest.fixture
def shop(agent: APIClient) -> APIClient:
    """The agent, of a catalogue whose tools a and b come from a source, and a has been edited twice."""
    assert upload(agent, raw("a", "b"), source="shop").status_code == 200
    assert patch(agent, A, {"description": "Mine.", "tags": ["mine"]}).status_code == 200
    assert patch(agent, A, {"category": "office"}, '"v2"').status_code == 200
    return agent


def by_field(client: APIClient) -> dict[str, dict[str, Any]]:
    return {one["field"]: one for one in client.get(at("overrides")).json()["results"]}


def test_syn_5_the_overrides_of_a_tool_are_listed_beside_what_its_source_says(shop: APIClient) -> None:
    answer = shop.get(at("overrides"))
    assert answer["ETag"] == '"v3"'
    found = by_field(shop)
    assert found.keys() >= {"description", "tags"}
    assert found["description"] | {
        "value": "Mine.", "replaced": "Does a as the shop wants it.", "imported": "Does a as the shop wants it.", "conflict": False,
    } == found["description"]  # fmt: skip
    assert (
        found["description"]["tool"] | {"tool_id": "a", "source": "shop", "namespace": "shop"}
        == found["description"]["tool"]
    )
    assert found["description"]["made_by"].startswith("API key ")
    assert upload(shop, raw("a", "b", a="Does it otherwise."), source="shop").json()["conflicts"] == 1
    moved = by_field(shop)["description"]
    assert (moved["value"], moved["imported"], moved["conflict"]) == ("Mine.", "Does it otherwise.", True)
    assert shop.get("/api/v1/tools/b/overrides?namespace=shop").json()["results"] == []


def test_syn_5_a_reset_brings_the_imported_value_back_under_if_match(shop: APIClient) -> None:
    assert_problem(shop.delete(at("overrides/description")), 428, "precondition_required")
    stale = assert_problem(shop.delete(at("overrides/description"), headers={"If-Match": '"v1"'}), 412)
    assert stale["current_etag"] == '"v3"'
    done = shop.delete(at("overrides/description"), headers={"If-Match": '"v3"'})
    assert (done.status_code, done["ETag"]) == (200, '"v4"')
    assert (done.json()["description"], done.json()["tags"]) == ("Does a as the shop wants it.", ["mine"])
    assert done.json()["description_source"] == "endpoint_sync"
    assert_problem(shop.delete(at("overrides/description"), headers={"If-Match": '"v4"'}), 404, "not_found")
    assert_problem(shop.delete(at("overrides/shoe_size"), headers={"If-Match": '"v4"'}), 404)


def test_syn_5_a_conflict_ends_in_favour_of_the_operator(shop: APIClient) -> None:
    upload(shop, raw("a", "b", a="Does it otherwise."), source="shop")
    kept = shop.post(at("overrides/description/keep"))
    assert kept.status_code == 200
    assert (kept.json()["conflict"], kept.json()["value"], kept.json()["replaced"]) == (
        False,
        "Mine.",
        "Does it otherwise.",
    )
    assert shop.post(at("overrides/description/keep")).json() == kept.json()
    assert shop.get(f"{OVERRIDES}?conflicts=true").json()["results"] == []
    assert_problem(shop.post(at("overrides/name/keep")), 404)


def test_a_key_resets_and_sets_no_sensitivity_that_is_out_of_its_own_sight_SEC_4(owner: Tenant) -> None:
    agent, bound = make_api(owner), make_api(owner, max_sensitivity="public")
    upload(agent, raw("a"), source="shop")
    assert patch(agent, A, {"sensitivity": "public"}).status_code == 200
    refused = bound.delete(at("overrides/sensitivity"), headers={"If-Match": '"v2"'})
    assert_problem(refused, 403, "permission_denied")
    assert_problem(patch(bound, A, {"sensitivity": "restricted"}, '"v2"'), 403, "permission_denied")
    assert bound.get(f"/api/v1/tools/{A}").json()["version"] == 2
    assert patch(bound, A, {"tags": ["new"]}, '"v2"').status_code == 200
    done = agent.delete(at("overrides/sensitivity"), headers={"If-Match": '"v3"'})
    assert (done.status_code, done.json()["sensitivity"]) == (200, "internal")
    assert_problem(bound.get(f"/api/v1/tools/{A}"), 404)


def test_syn_5_an_override_that_is_reset_while_it_is_listed_is_left_out(
    shop: APIClient, owner: Tenant
) -> None:
    with tenant_context(owner.pk):
        listed = list(ManualOverride.objects.filter(field__in=["description", "tags"]).order_by("field"))
        listed[0].delete()
        assert [one.field for one in overrides.with_status(listed)] == ["tags"]


def test_syn_5_all_overrides_are_listed_by_source_and_conflict(shop: APIClient) -> None:
    upload(shop, raw("c"), source="zoo")
    patch(shop, "c?namespace=zoo", {"description": "Mine, too."})
    upload(shop, raw("a", "b", a="Does it otherwise."), source="shop")

    def fields(question: str = "") -> list[tuple[str, str]]:
        listed = shop.get(OVERRIDES + question).json()["results"]
        return sorted((one["tool"]["tool_id"], one["field"]) for one in listed)

    everything = fields()
    assert set(everything) >= {("a", "description"), ("a", "tags"), ("c", "description")}
    assert fields("?source=zoo") == [("c", "description")]
    assert fields("?conflicts=true") == [("a", "description")]
    assert ("a", "description") not in fields("?conflicts=false")
    assert len(fields("?conflicts=false")) == len(everything) - 1
    assert fields("?source=zoo&conflicts=true") == fields("?source=nothing") == []
    first = shop.get(f"{OVERRIDES}?limit=1&count=true").json()
    assert (len(first["results"]), first["total"]) == (1, len(everything))
    seen = first["results"]
    while first["next"]:
        first = shop.get(first["next"]).json()
        seen += first["results"]
    assert len(seen) == len(everything)
    for wrong in ("conflicts=perhaps", "colour=red", "limit=0"):
        assert_problem(shop.get(f"{OVERRIDES}?{wrong}"), 400, "validation_error")


def test_api_3_a_key_sees_the_overrides_and_the_history_of_the_tools_that_it_sees(
    shop: APIClient, owner: Tenant
) -> None:
    with tenant_context(owner.pk):
        Tool.objects.filter(tool_id="a").update(sensitivity="restricted")
    bound, reader = make_api(owner, max_sensitivity="internal"), make_api(owner, Scope.TOOLS_READ)
    assert bound.get(OVERRIDES).json()["results"] == []
    for path in ("overrides", "history"):
        assert_problem(bound.get(at(path)), 404)
        assert reader.get(at(path)).status_code == 200
    with tenant_context(owner.pk):
        Tool.objects.filter(tool_id="a").update(visibility="private")
    assert reader.get(OVERRIDES).json()["results"] == []
    assert_problem(reader.get(at("history")), 404)


def test_syn_5_every_overridable_field_and_the_texts_of_parameters_are_edited_by_patch(
    agent: APIClient, owner: Tenant
) -> None:
    content = raw("a").replace(
        b'"tags"', b'"parameters": [{"name": "id", "in": "query", "description": "Theirs."}], "tags"'
    )
    upload(agent, content, source="shop")
    edit = {
        "routing_domain": "sales",
        "sensitivity": "confidential",
        "owner": "me",
        "parameter_descriptions": {"id": "Mine."},
    }
    changed = patch(agent, A, edit)
    assert changed.status_code == 200, changed.content
    assert changed.json()["parameters"]["properties"]["id"]["description"] == "Mine."
    assert by_field(agent).keys() >= {"parameters.id"}
    upload(agent, content, source="shop")
    assert agent.get(f"/api/v1/tools/{A}").json()["parameters"]["properties"]["id"]["description"] == "Mine."
    back = agent.delete(at("overrides/parameters.id"), headers={"If-Match": changed["ETag"]})
    assert back.json()["parameters"]["properties"]["id"]["description"] == "Theirs."
    etag = back["ETag"]
    for wrong in ({"parameters": {}}, {"output": {}}, {"parameter_descriptions": {"nothing": "x"}}):
        assert_problem(patch(agent, A, wrong, etag), 422, "validation_error")
    assert_problem(patch(agent, A, {"parameter_descriptions": "x"}, etag), 400)


def test_cat_8_the_history_says_who_did_what_and_when_page_by_page(shop: APIClient) -> None:
    upload(shop, raw("a", "b", a="Does it otherwise."), source="shop")
    shop.delete(at("overrides/description"), headers={"If-Match": '"v3"'})
    whole = shop.get(at("history") + "&limit=100").json()
    assert (whole["next"], whole["previous"], whole["next_cursor"]) == (None, None, None)
    events = whole["results"]
    of_tool = [one for one in events if one["thing"] == "tool"]
    assert [(one["event"], one["version"]) for one in of_tool] == [
        ("changed", 4), ("changed", 3), ("changed", 2), ("created", 1)
    ]  # fmt: skip
    first = {one["field"]: (one["before"], one["after"]) for one in of_tool[2]["changes"]}
    assert first["description"] == ("Does a as the shop wants it.", "Mine.")
    assert first["tags"] == (["shop"], ["mine"])
    assert first.keys().isdisjoint({"version", "updated_by", "search_text"})
    last = {one["field"]: one["after"] for one in of_tool[0]["changes"]}
    assert last["description"] == "Does it otherwise."
    assert all(one["who"].startswith("API key ") and one["at"] for one in events)
    of_overrides = [(one["event"], one["field"]) for one in events if one["thing"] == "override"]
    assert (
        of_overrides.count(("created", "description")) == of_overrides.count(("deleted", "description")) == 1
    )
    seen: list[dict[str, Any]] = []
    url = at("history") + "&limit=2"
    while url:
        page = shop.get(url)
        seen += page.json()["results"]
        url = page.json()["next"]
        assert (f'<{url}>; rel="next"' == page["Link"]) if url else "Link" not in page
    assert seen == events
    for wrong in ("", "x", "MjAyNg==", "MjAyNi0wMS0wMSB0b29sIDE=", "////"):
        assert_problem(shop.get(f"{at('history')}&cursor={wrong}"), 400, "invalid_cursor")
    for wrong in ("limit=0", "count=true", "colour=red"):
        assert_problem(shop.get(f"{at('history')}&{wrong}"), 400, "validation_error")


def test_cat_8_the_history_of_edits_made_one_after_another_goes_page_by_page(committed: Tenant) -> None:
    client = make_api(committed)
    upload(client, raw("a"), source="shop")
    for version in (1, 2, 3):
        assert patch(client, A, {"description": f"Text {version}."}, f'"v{version}"').status_code == 200
    whole = client.get(at("history") + "&limit=100").json()["results"]
    assert [one["at"] for one in whole] == sorted((one["at"] for one in whole), reverse=True)
    assert [one["version"] for one in whole if one["thing"] == "tool"] == [4, 3, 2, 1]
    assert len(whole) == 7  # each edit writes the tool and its override
    seen: list[dict[str, Any]] = []
    url = at("history") + "&limit=1"
    while url:
        page = client.get(url).json()
        seen += page["results"]
        url = page["next"]
    assert seen == whole
