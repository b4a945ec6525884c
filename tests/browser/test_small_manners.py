"""What a browser alone shows of a page: focus that stays, a text that is copied, frames that the keyboard reaches, icons that
stand still (UI.md 3.0). That nothing is cut off: test_every_page.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from portal.jobs import services as jobs
from portal.tenancy.context import tenant_context
from tests.support.imports.documents import document, import_document
from tests.support.pages.browser import Portal
from tools.catalogue.tools import create_tool, update_tool
from tools.models import McpServer, Tool, ToolEmbedding

pytestmark = pytest.mark.slow

LONG = "A sentence of a long text, which is one of very many. " * 200


def overridden(portal: Portal) -> Tool:
    """A tool whose long description is in conflict with its source."""
    import_document(portal.tenant, document("orders", "prices"))
    with tenant_context(portal.tenant.pk):
        tool: Tool = Tool.objects.get(name="orders")
        update_tool(pk=tool.pk, expected_version=1, changes={"description": LONG}, actor="olga")
    import_document(portal.tenant, document("orders", "prices", orders="Theirs."))
    return tool


def test_the_focus_stays_on_a_button_while_and_after_it_asks_UI_3_0(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    with tenant_context(portal.tenant.pk):
        server = McpServer.objects.create(slug="sums", url="http://10.0.0.1/mcp")
        tool = create_tool(actor="olga", tool_id="by-hand", name="by hand")
    page = sign_in()
    for path, name, done in (
        (f"/servers/{server.pk}/", "Test", "The test failed"),
        (f"/tools/{tool.pk}/", "Refresh embedding", "Embedding refresh queued."),
    ):
        page.goto(path)
        button = page.get_by_role("button", name=name)
        button.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_text(done).first).to_be_visible()
        expect(button).to_be_focused()


def test_copy_copies_UI_3_5(portal: Portal, sign_in: Callable[..., Page]) -> None:
    overridden(portal)
    page = sign_in(permissions=["clipboard-read", "clipboard-write"])
    page.goto("/overrides/patch/?all=1")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_focused()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.get_by_label("Patch").input_value()
    assert LONG[:50] in copied


def test_a_long_text_is_reached_by_the_keyboard_and_a_short_one_is_no_stop_UI_3_0(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    tool = overridden(portal)
    page = sign_in()
    page.goto(f"/tools/{tool.pk}/")
    override = page.get_by_label("Override of description")
    override.get_by_text("From the imported text to the override").click()
    expect(override.locator(".diff").last).to_have_attribute("tabindex", "0")
    expect(override.locator(".diff").first).not_to_have_attribute("tabindex", "0")


def test_only_an_hourglass_turns_and_only_where_something_waits_UI_3_0(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    overridden(portal)
    with tenant_context(portal.tenant.pk):
        ToolEmbedding.objects.update(status="pending")
    page = sign_in()
    turning = "[...document.querySelectorAll('svg')].filter(one => getComputedStyle(one).animationName !== 'none').map(one => one.classList.value)"
    for path in (
        "/tools/",
        "/tools/?embedding_status=failed",
        "/overrides/",
        "/sources/",
        "/search/?q=orders",
    ):
        page.goto(path)
        found = page.evaluate(turning)
        assert set(found) <= {"icon icon-hourglass-split"}, path
        assert not page.locator(".chips .icon").evaluate_all(
            "all => all.filter(one => getComputedStyle(one).animationName !== 'none').length"
        ), path
    with tenant_context(portal.tenant.pk):
        ToolEmbedding.objects.update(status="pending")  # anew, as a worker may have embedded them meanwhile
    page.goto("/tools/")
    assert page.evaluate(turning)


def test_the_pill_is_whole_beside_long_names_UI_3_0(portal: Portal, sign_in: Callable[..., Page]) -> None:
    with tenant_context(portal.tenant.pk):
        jobs.start("backfill_embeddings", {}, by="olga")
    for width in (1200, 1280, 390):
        page = sign_in(viewport={"width": width, "height": 900})
        pill = page.locator("#jobs-count")
        expect(pill).to_have_text("1 job")
        assert pill.evaluate("one => one.scrollWidth <= one.clientWidth || one.clientWidth === 0"), width
