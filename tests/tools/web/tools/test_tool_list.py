from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from portal.jobs.models import Job
from tools.catalogue.tools import update_tool
from tools.models import Tool, ToolEmbedding

pytestmark = pytest.mark.usefixtures("one_or_two_models")
HTMX = {"HX-Request": "true"}


def names(html: str, *candidates: str) -> set[str]:
    return {name for name in candidates if f">{name}</a>" in html}


def test_UI_1_an_empty_catalogue_says_what_a_tool_is_and_what_to_do(
    operator_client: Client, viewer_client: Client
) -> None:
    html = operator_client.get("/tools/").content.decode()
    assert "No tools yet" in html
    assert "Import an API" in html
    assert "requires the role operator" in viewer_client.get("/tools/").content.decode()


def test_UI_1_filters_narrow_the_list_and_count(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool(name="send_mail", category="Mail", tool_type="mcp", tags=["out"])
    make_tool(name="read_mail", category="Mail", routing_domain="office")
    make_tool(name="pay_bill", description="moves money")
    every = ("send_mail", "read_mail", "pay_bill")
    for query, expected in {
        "": set(every),
        "?q=MAIL": {"send_mail", "read_mail"},
        "?q=money": {"pay_bill"},
        "?category=Mail&tool_type=mcp": {"send_mail"},
        "?routing_domain=office": {"read_mail"},
        "?tag=out": {"send_mail"},
        "?q=&category=&embedding_status=pending": set(every),
        "?embedding_status=ready": set(),
    }.items():
        html = viewer_client.get(f"/tools/{query}").content.decode()
        assert names(html, *every) == expected, query


def test_UI_1_nothing_matches_shows_the_filters_and_how_to_clear_them(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool()
    html = viewer_client.get("/tools/?q=zzz&tool_type=mcp").content.decode()
    assert "No tool matches" in html
    assert "Text: <b>zzz</b>" in html
    assert "Type: <b>MCP</b>" in html
    assert 'href="/tools/?tool_type=mcp"' in html
    assert "State: <b>Active</b>" in html  # a filter that nobody chose
    assert "Clear filters" in html


def test_UI_1_an_empty_list_says_which_inactive_tools_the_filters_would_find(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool(name="asleep", active=False)
    make_tool(name="asleep too", active=False, tool_type="mcp")
    html = " ".join(viewer_client.get("/tools/?q=asleep&tool_type=mcp").content.decode().split())
    link = '<a href="/tools/?q=asleep&amp;tool_type=mcp&amp;active=no">1 inactive tool</a> matches the other filters.'
    assert link in html
    html = viewer_client.get("/tools/?q=asleep&active=no").content.decode()
    assert "No tool matches" not in html
    html = " ".join(viewer_client.get("/tools/?q=nothing&active=all").content.decode().split())
    assert "State: <b>All</b>" in html
    assert "inactive tool" not in html


def test_UI_1_a_filter_that_no_longer_exists_is_left_out_with_a_notice(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool(name="here")
    for query in ("?tool_type=gone", "?embedding_status=%00"):
        html = viewer_client.get(f"/tools/{query}").content.decode()
        assert "no longer exists and was ignored" in html
        assert names(html, "here")


def test_UI_1_status_chips_count_what_they_would_show(
    viewer_client: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    set_embedding(make_tool(), "failed", error="x")
    make_tool()
    make_tool(name="other")
    html = " ".join(viewer_client.get("/tools/?q=thing&embedding_status=failed").content.decode().split())
    assert "Failed <b>1</b>" in html
    assert "Pending <b>2</b>" in html
    assert "<strong>1</strong> tool<" in html


def test_the_chips_add_up_to_the_tools_and_an_inactive_one_waits_for_no_vector_UI_3_2(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool()
    make_tool(active=False)
    ToolEmbedding.objects.filter(entity=make_tool()).delete()

    def shown(query: str) -> dict[str, int]:
        html = " ".join(viewer_client.get(f"/tools/{query}").content.decode().split())
        chips = re.findall(r"</svg> ([A-Z][a-z ]+) <b>(\d+)</b>", html)
        total = re.search(r"<strong>(\d+)</strong> tool", html)
        assert total
        found = {word: int(count) for word, count in chips if int(count)}
        assert sum(found.values()) == int(total[1])
        return found

    assert shown("") == {"Pending": 1, "Not embedded": 1}
    assert shown("?active=all") == {"Pending": 1, "Not embedded": 1, "Inactive": 1}
    assert shown("?active=no") == {"Inactive": 1}
    assert (
        "No tool matches" in viewer_client.get("/tools/?active=no&embedding_status=pending").content.decode()
    )


def test_EMB_10_a_refresh_of_what_a_filter_leaves_asks_for_each_tool_once(
    operator_client: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    tools = [make_tool() for _ in range(3)]
    set_embedding(tools[0], "failed", error="x")
    path = "/tools/refresh-matching/?embedding_status="
    assert "Refresh the embeddings of 2 tools?" in operator_client.get(f"{path}pending").content.decode()
    assert "Refresh the embeddings of 1 tool?" in operator_client.get(f"{path}failed").content.decode()
    operator_client.post(f"{path}pending")
    assert sorted(Job.objects.get().args["ids"]) == sorted(str(tool.pk) for tool in tools[1:])


def test_CAT_1_inactive_tools_are_shown_on_request(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool(name="awake")
    make_tool(name="asleep", active=False)
    assert names(viewer_client.get("/tools/").content.decode(), "awake", "asleep") == {"awake"}
    assert names(viewer_client.get("/tools/?active=no").content.decode(), "awake", "asleep") == {"asleep"}
    assert names(viewer_client.get("/tools/?active=all").content.decode(), "awake", "asleep") == {
        "awake",
        "asleep",
    }


def test_SYN_5_tools_edited_by_hand_are_marked_and_found(
    operator_client: Client, imported_tool: Tool
) -> None:
    assert "An imported field was overridden" not in operator_client.get("/tools/").content.decode()
    update_tool(pk=imported_tool.pk, expected_version=1, changes={"description": "Mine."}, actor="someone")
    assert (
        "An imported field was overridden"
        in operator_client.get("/tools/?has_override=true").content.decode()
    )
    assert "No tool matches" in operator_client.get("/tools/?has_override=false").content.decode()


def test_UI_1_pages_are_links_and_keep_the_filters(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    for number in range(30):
        make_tool(name=f"tool_{number:02}")
    html = viewer_client.get("/tools/?q=tool").content.decode()
    assert "tool_24" in html
    assert "tool_25" not in html
    assert 'rel="next" href="?q=tool&amp;page=2"' in html
    last = viewer_client.get("/tools/?q=tool&page=2").content.decode()
    assert "tool_29" in last
    assert 'rel="next"' not in last
    assert "tool_29" in viewer_client.get("/tools/?rows=50").content.decode()
    assert viewer_client.get("/tools/?page=nonsense&rows=7").status_code == 200


def test_UI_1_a_fragment_is_the_same_list_and_names_the_clean_address(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    make_tool(name="send_mail")
    answer = viewer_client.get("/tools/?q=mail&source=&tool_type=", headers=HTMX)
    html = answer.content.decode()
    assert "<html" not in html
    assert names(html, "send_mail")
    assert answer["HX-Push-Url"] == "/tools/?q=mail"
    typing = viewer_client.get("/tools/?q=mail", headers={**HTMX, "HX-Trigger": "q"})
    assert typing["HX-Replace-Url"] == "/tools/?q=mail"
    assert "HX-Push-Url" not in typing


def test_the_list_asks_a_fixed_number_of_queries(
    viewer_client: Client,
    make_tool: Callable[..., Tool],
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    for _ in range(30):
        make_tool()
    with django_assert_max_num_queries(16):
        viewer_client.get("/tools/")


def test_EMB_9_ticked_tools_are_refreshed_and_one_comes_back_to_the_same_list(
    operator_client: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    first, second, asleep = make_tool(), make_tool(), make_tool(active=False)
    for tool in (first, second):
        set_embedding(tool, "ready")
    form = {"selected": [first.pk, second.pk, asleep.pk, "nonsense"], "next": "/tools/?q=thing"}
    answer = operator_client.post("/tools/refresh-embeddings/", form, follow=True)
    assert answer.redirect_chain == [("/tools/?q=thing", 302)]
    assert "Embedding refresh queued for 2 of 3 tools. 1 skipped" in answer.content.decode()
    nothing = operator_client.post("/tools/refresh-embeddings/", {}, follow=True)
    assert "Select the tools to refresh first" in nothing.content.decode()


def test_EMB_5_waiting_badges_share_one_poll_that_ends_by_itself(
    viewer_client: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    first, second = make_tool(), make_tool()
    html = viewer_client.get("/tools/").content.decode()
    assert html.count('hx-trigger="every 2s, poll-now"') == 1
    set_embedding(first, "ready")
    path = f"/tools/badges/?n=20&id={first.pk}&id={second.pk}&id={uuid4()}&id=x"
    half = viewer_client.get(path, headers=HTMX).content.decode()
    assert f'id="badge-{first.pk}" hx-swap-oob="true"' in half
    assert f"n=21&amp;id={second.pk}" in half
    assert "every 5s" in half
    set_embedding(second, "failed", error="x")
    assert "hx-trigger" not in viewer_client.get(path, headers=HTMX).content.decode()
