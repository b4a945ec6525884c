from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from embeddings.models import EmbeddingTask
from tests.support.pages.web import import_shop, seen_of
from tools.catalogue.tools import refresh_embeddings, update_tool
from tools.models import Endpoint, ManualOverride, Source, Tool, ToolEmbedding

HTMX = {"HX-Request": "true"}


def card(client: Client, tool: Tool, query: str = "") -> str:
    return " ".join(client.get(f"/tools/{tool.pk}/embedding/{query}", headers=HTMX).content.decode().split())


def override(tool: Tool, text: str) -> None:
    version = Tool.objects.get(pk=tool.pk).version
    update_tool(pk=tool.pk, expected_version=version, changes={"description": text}, actor="olga")


def test_UI_1_the_page_shows_what_an_agent_sees(viewer_client: Client, imported_tool: Tool) -> None:
    html = viewer_client.get(f"/tools/{imported_tool.pk}/").content.decode()
    for part in (
        "listOrders",
        "Lists the orders of the shop.",
        "Which orders",
        "<code>open</code>",
        "/orders",
        "GET",
    ):
        assert part in html
    assert "What is embedded" in html
    assert "list Orders" in html


def test_UI_1_a_tool_without_method_and_path_has_no_empty_endpoint(
    viewer_client: Client, imported_tool: Tool
) -> None:
    path = f"/tools/{imported_tool.pk}/"
    assert "<dt>Endpoint</dt>" in viewer_client.get(path).content.decode()
    Endpoint.objects.update(method="", path="")  # as of an MCP server
    assert "<dt>Endpoint</dt>" not in viewer_client.get(path).content.decode()


def test_UI_1_an_inactive_tool_says_so_once_in_its_head(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool(active=False)
    head = viewer_client.get(f"/tools/{tool.pk}/history/").content.decode().partition('class="tabs"')[0]
    assert head.count("Inactive</span>") == 1


def test_UI_1_lines_of_markdown_show_code_and_no_back_ticks(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"type": "string", "description": "One of `a` or ``b``."}},
    }
    tool = make_tool(description="Sets `limit` & <b>more</b>; ends in `cut", parameters=schema)
    html = viewer_client.get("/tools/").content.decode()
    assert "Sets <code>limit</code> &amp; &lt;b&gt;more&lt;/b&gt;; ends in cut" in html
    html = viewer_client.get(f"/tools/{tool.pk}/").content.decode()
    assert "<td>One of <code>a</code> or <code>b</code>." in html
    for path in ("/docs/problems/", "/docs/problems/validation_error"):
        text = viewer_client.get(path).content.decode().partition("<h2>Example")[0]
        assert "`" not in text, path


def test_SEC_3_hostile_text_is_shown_as_text(viewer_client: Client, make_tool: Callable[..., Tool]) -> None:
    evil = "<script>alert(1)</script>"
    tool = make_tool(
        name=evil, description=evil, tags=[evil], use_cases=[evil],
        parameters={"type": "object", "properties": {evil: {"description": evil, "enum": [evil]}}},
    )  # fmt: skip
    for path in ("/tools/", f"/tools/{tool.pk}/", f"/tools/{tool.pk}/history/"):
        html = viewer_client.get(path).content.decode()
        assert evil not in html
        assert "&lt;script&gt;" in html


# --- Embedding card ---------------------------------------------------------------------------------------------------


def test_EMB_5_a_queued_card_says_since_when_and_polls(
    viewer_client: Client, make_tool: Callable[..., Tool]
) -> None:
    html = card(viewer_client, make_tool())
    assert "<strong>Queued</strong>" in html
    assert "Found by keyword until then" in html
    assert 'hx-trigger="every 2s, poll-now"' in html
    assert "?n=1" in html


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"status": "running", "attempts": 2, "claim_id": uuid4()}, "Embedding now…</strong> attempt 2 of"),
        ({"attempts": 3, "last_error": "The service is down."}, "The service is down."),
        ({"attempts": 3, "last_error": "The service is down."}, "Next attempt <time"),
    ],
)
def test_EMB_5_a_pending_card_says_what_it_waits_for(
    viewer_client: Client,
    make_tool: Callable[..., Tool],
    set_embedding: Callable[..., None],
    task: dict[str, Any],
    words: str,
) -> None:
    tool = make_tool()
    set_embedding(tool, "pending", task={**task, "next_attempt_at": timezone.now() + timedelta(minutes=5)})
    html = card(viewer_client, tool)
    assert words in html
    assert "hx-trigger" in html


def test_EMB_5_a_pending_card_without_a_task_says_who_will_notice(
    viewer_client: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    tool = make_tool()
    set_embedding(tool, "pending")
    assert "Waiting to be queued" in card(viewer_client, tool)


def test_EMB_5_a_ready_card_shows_the_facts_and_stops_polling(
    viewer_client: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    tool = make_tool()
    set_embedding(tool, "ready", truncated=True, embedded_at=timezone.now())
    html = card(viewer_client, tool, "?n=4")
    for part in ("Ready", "all-MiniLM-L6-v2", "384", "current", "longer than the model reads"):
        assert part in html
    assert "hx-trigger" not in html
    assert "1.0, 0.0" not in html
    # The last poll tells it once, and the header's badge follows.
    assert "Embedding of tool_0: ready." in html
    assert 'id="head-badge" hx-swap-oob="true"' in html


def test_EMB_9_a_ready_card_keeps_serving_while_it_is_refreshed(
    viewer_client: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    tool = make_tool()
    set_embedding(tool, "ready")
    refresh_embeddings(pks=[tool.pk])
    html = card(viewer_client, tool)
    assert "Refreshing" in html
    assert "keeps serving until then" in html
    assert "hx-trigger" in html
    EmbeddingTask.objects.filter(entity_id=tool.pk).update(status="failed", last_error="Too long.")
    html = card(viewer_client, tool)
    assert "The last refresh failed: Too long." in html
    assert "hx-trigger" not in html


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        ("failed", "The provider refused the text.", "The provider refused the text."),
        ("failed", "", "The reason was not recorded."),
        ("failed", "x", "found by keyword only"),
        ("disabled", "", "written while embedding was switched off"),
        ("blank", "", "no text to embed"),
    ],
)
def test_EMB_5_cards_at_rest_give_their_reason_and_do_not_poll(
    operator_client: Client, make_tool: Callable[..., Tool], status: str, error: str, words: str
) -> None:
    tool = make_tool()
    EmbeddingTask.objects.all().delete()
    ToolEmbedding.objects.update(status=status, error=error)
    html = card(operator_client, tool)
    assert words in html
    assert "hx-trigger" not in html
    assert ("Retry now" in html) == (status == "failed")
    assert ("Embed now" in html) == (status == "disabled")


def test_EMB_5_a_tool_that_was_written_while_embedding_was_off_is_embedded_by_its_button_once_it_is_back(
    operator_client: Client, make_tool: Callable[..., Tool], settings: Any
) -> None:
    provider, settings.EMBEDDING_PROVIDER = settings.EMBEDDING_PROVIDER, "disabled"
    tool = make_tool()
    html = card(operator_client, tool)
    assert "No embedding provider is configured" in html
    assert "<button" not in html
    settings.EMBEDDING_PROVIDER = provider
    assert "Embed now" in card(operator_client, tool)
    html = operator_client.post(f"/tools/{tool.pk}/embedding/refresh/", headers=HTMX).content.decode()
    assert "Embedding refresh queued." in html
    assert "Pending" in html


def test_SRC_5_a_card_says_that_a_vector_of_an_older_text_is_not_searched(
    viewer_client: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    tool = make_tool()
    set_embedding(tool, "ready")
    update_tool(pk=tool.pk, expected_version=1, changes={"description": "Other."}, actor="x")
    html = card(viewer_client, tool)
    assert "The vector of the previous text is not searched: the tool is found by keyword until then." in html
    ToolEmbedding.objects.update(status="failed", error="x")
    html = card(viewer_client, tool)
    assert "found by keyword only" in html
    assert "still uses" not in html


def test_EMB_5_a_tool_without_embedding_or_activity_says_so(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    ToolEmbedding.objects.filter(entity=tool).delete()
    assert "Embed now" in card(operator_client, tool)
    update_tool(pk=tool.pk, expected_version=1, changes={"active": False}, actor="x")
    html = card(operator_client, tool)
    assert "This tool is inactive" in html
    assert "<button" not in html


def test_EMB_9_refresh_is_one_task_however_often_it_is_pressed(
    operator_client: Client, make_tool: Callable[..., Tool], set_embedding: Callable[..., None]
) -> None:
    tool = make_tool()
    set_embedding(tool, "ready")
    path = f"/tools/{tool.pk}/embedding/refresh/"
    for _ in range(3):
        html = operator_client.post(path, headers=HTMX).content.decode()
        assert "Refreshing" in html
        assert "Embedding refresh queued." in html
    assert EmbeddingTask.objects.filter(entity_id=tool.pk).count() == 1
    assert Tool.objects.get(pk=tool.pk).version == 1


def test_EMB_9_refresh_works_as_a_plain_form_and_not_as_a_link(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    tool = make_tool()
    path = f"/tools/{tool.pk}/embedding/refresh/"
    answer = operator_client.post(path)
    assert (answer.status_code, answer["Location"]) == (302, f"/tools/{tool.pk}/")
    assert operator_client.get(path).status_code == 405
    assert "<h1" in operator_client.get(f"/tools/{tool.pk}/embedding/").content.decode()


@override_settings(EMBEDDING_PROVIDER="disabled")
def test_EMB_5_refresh_without_a_provider_says_that_nothing_was_queued(
    operator_client: Client, make_tool: Callable[..., Tool]
) -> None:
    answer = operator_client.post(f"/tools/{make_tool().pk}/embedding/refresh/", follow=True)
    assert "Nothing was queued" in answer.content.decode()


# --- Overrides --------------------------------------------------------------------------------------------------------


def test_SYN_5_an_override_is_shown_with_the_imported_text(
    operator_client: Client, imported_tool: Tool
) -> None:
    override(imported_tool, "My own words.")
    html = operator_client.get(f"/tools/{imported_tool.pk}/").content.decode()
    assert "Description overridden" in html
    assert "Lists the orders of the shop." in html
    assert "olga" in html
    assert "Keep override" not in html


def test_SYN_5_when_the_imported_text_moves_on_both_are_shown_and_mine_can_be_kept(
    operator_client: Client, imported_tool: Tool
) -> None:
    override(imported_tool, "My own words.")
    import_shop("Lists all orders of the shop.")
    html = operator_client.get(f"/tools/{imported_tool.pk}/").content.decode()
    assert "The imported text has changed" in html
    assert "<ins>all</ins>" in html
    assert "<del>the</del>" in html
    assert "My own words." in html
    operator_client.post("/overrides/keep/", {"only": ManualOverride.objects.get().pk})
    html = operator_client.get(f"/tools/{imported_tool.pk}/").content.decode()
    assert "The imported text has changed" not in html
    assert "My own words." in html


def test_SYN_5_reset_asks_with_the_imported_text_then_brings_it_back_and_can_be_undone(
    operator_client: Client, imported_tool: Tool
) -> None:
    override(imported_tool, "My own words.")
    page = f"/tools/{imported_tool.pk}/"
    path = f"/overrides/reset/?selected={ManualOverride.objects.get().pk}&next={page}"
    assert path.replace("&", "&amp;") in operator_client.get(page).content.decode()
    question = operator_client.get(path, headers=HTMX).content.decode()
    assert "<html" not in question
    assert "Lists the orders of the shop." in question
    assert ManualOverride.objects.count() == 1
    answer = operator_client.post(path, {"seen": seen_of(question), "next": page}, follow=True)
    assert answer.redirect_chain == [(page, 302)]
    assert "Description of listOrders reset to imported. Embedding queued." in answer.content.decode()
    assert Tool.objects.get(pk=imported_tool.pk).description == "Lists the orders of the shop."
    assert not ManualOverride.objects.exists()
    reset = answer.context["undoable"][0]["reset"]
    answer = operator_client.post("/overrides/undo/", {"reset": reset, "next": page}, follow=True)
    assert "Undone: 1 override restored." in answer.content.decode()
    assert answer.context["undoable"] == []
    assert Tool.objects.get(pk=imported_tool.pk).description == "My own words."


def test_SYN_5_a_source_whose_syncs_win_says_so(operator_client: Client, imported_tool: Tool) -> None:
    override(imported_tool, "My own words.")
    Source.objects.update(sync_wins=True)
    html = operator_client.get(f"/tools/{imported_tool.pk}/").content.decode()
    assert "its next sync overwrites this override" in html
