"""The operator's journey with a source in a real browser: import NetBox, look at the plan, apply, override two tools, re-import
a changed document, resolve the conflict; the ticks of a plan; and no page of it has a violation that axe finds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from portal.jobs import heartbeats
from portal.tenancy.context import tenant_context
from tests.support.imports.documents import OPENAPI, document, import_document, needs_inputs
from tests.support.pages.browser import Portal, violations
from tests.support.servers.mcp_servers import plain
from tools.catalogue import sources
from tools.models import McpServer, Source, Tool

PATIENCE = 90_000  # ms, a guard only
PATHS = "/circuits/circuit-terminations/{id}/paths/"
MINE = "Lists every cable path through a port, as our network team calls it."
THEIRS = "Returns all cable paths that cross the given port."


@pytest.fixture(scope="module")
def portal_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Allows one MCP server."""
    commands = tmp_path_factory.mktemp("mcp") / "commands.json"
    commands.write_text(
        json.dumps(
            {"commands": {"sums": {"command": plain("""{"tools": [{"name": "add"}]}"""), "tenants": ["*"]}}}
        )
    )
    return {"JOB_POLL": "0.2", "MCP_COMMANDS_FILE": str(commands)}


@pytest.fixture(scope="module")
def portal_queues() -> tuple[str, ...]:
    return (heartbeats.JOBS,)


def plan_upload(page: Page, name: str, content: Any, source: str) -> None:
    """Adds a document to a source, up to its plan."""
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Sources").click()
    page.get_by_role("link", name="Add a source").first.click()
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    page.get_by_label("File").set_input_files({"name": name, "mimeType": "application/json", "buffer": raw})
    page.get_by_label("Source name").fill(source)
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(
        re.compile(f"(Plan for|Sync of) {source}"), timeout=PATIENCE
    )


def apply(page: Page, button: str, *, removals: str = "") -> None:
    """Presses Apply, agrees to what is asked, and follows the job back to the plan."""
    page.wait_for_load_state("load")  # before it the button works without htmx, and the question is a page
    page.locator("#apply").click()
    question = page.get_by_role("dialog")
    if removals:
        question.get_by_label(removals).check()
    question.get_by_role("button", name=button).click()
    expect(page.locator("#job .status").first).to_have_text("Succeeded", timeout=PATIENCE)
    page.locator("#job-sync").click()
    expect(page.locator("main .status").first).to_have_text("Applied")


def override(page: Page, name: str, text: str) -> None:
    page.goto(f"/tools/?q={name}")
    page.get_by_role("link", name=name, exact=True).first.click()
    page.get_by_role("navigation", name="Tool").get_by_role("link", name="Edit").click()
    page.get_by_label("Description", exact=True).fill(text)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".prose")).to_contain_text(text)


def row(page: Page, name: str) -> Locator:
    return page.locator(".change").filter(has=page.get_by_role("link", name=name, exact=True))


@pytest.mark.slow
@needs_inputs
def test_netbox_is_planned_applied_overridden_reimported_and_its_conflict_resolved_SYN_4_SYN_5(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    netbox = json.loads((OPENAPI / "netbox-3.0.json").read_bytes())
    page = sign_in()
    plan_upload(page, "netbox-3.0.json", netbox, "netbox")
    expect(page.locator(".sum-line")).to_contain_text(
        "844 operations in the document = 844 tools + 0 left out"
    )
    expect(page.get_by_role("navigation", name="Parts of the plan")).to_contain_text("Added 844")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Next").click()
    expect(page.get_by_role("navigation", name="Pages")).to_contain_text(re.compile("26.50 of 844"))
    apply(page, "Apply 844 changes")
    page.get_by_role("link", name="netbox", exact=True).click()
    expect(page.get_by_role("link", name="844 tools")).to_be_visible()

    moved_on, untouched, other, gone = (
        "circuits_circuit-terminations_paths",
        "circuits_circuit-types_list",
        "circuits_circuit-types_read",
        "circuits_circuit-types_delete",
    )
    override(page, moved_on, MINE)
    override(page, untouched, "Lists the kinds of circuit that we sell.")
    netbox["paths"][PATHS]["get"]["description"] = THEIRS
    netbox["paths"]["/circuits/circuit-types/{id}/"]["get"]["description"] = "Returns one kind of circuit."
    del netbox["paths"]["/circuits/circuit-types/{id}/"]["delete"]

    plan_upload(page, "netbox-3.1.json", netbox, "netbox")
    parts = page.get_by_role("navigation", name="Parts of the plan")
    expect(parts).to_contain_text("All changes 3")
    expect(parts).to_contain_text("Conflicts 1")
    expect(row(page, moved_on)).to_contain_text("Override in conflict")
    expect(row(page, moved_on).locator("ins").first).to_be_visible()
    expect(row(page, other)).to_contain_text("Returns one kind of circuit.")
    expect(row(page, gone)).to_contain_text("Removed")
    expect(page.get_by_text(untouched)).to_be_hidden()
    expect(page.locator("#apply")).to_contain_text("Apply 3 changes")
    apply(page, "Apply 3 changes")

    row(page, moved_on).get_by_role("link", name=moved_on).click()
    expect(page.locator(".prose").first).to_contain_text(MINE)
    edited = page.get_by_label("Override of description")
    expect(edited).to_contain_text("The imported text has changed")
    edited.get_by_role("button", name="Keep override").click()
    expect(page.get_by_label("Override of description")).not_to_contain_text("The imported text has changed")
    expect(page.locator(".prose").first).to_contain_text(MINE)
    with tenant_context(portal.tenant.pk):
        kept = dict(Tool.objects.filter(overrides__isnull=False).values_list("name", "description"))
        assert kept == {moved_on: MINE, untouched: "Lists the kinds of circuit that we sell."}
        assert not Tool.objects.get(name=gone).active


@pytest.mark.slow
def test_ticks_are_counted_at_once_and_outlive_pages_and_a_reload_SYN_4(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    page = sign_in()
    plan_upload(page, "shop.json", document(*(f"op{number:02}" for number in range(40))), "shop")
    expect(page.locator("#apply")).to_contain_text("Apply 40 changes")
    page.get_by_label("Apply: Added op03").uncheck()
    expect(page.locator("#apply")).to_contain_text("Apply 39 changes")
    page.get_by_role("link", name="Next").click()
    page.get_by_label("Apply: Added op30").uncheck()
    expect(page.locator("#apply")).to_contain_text("Apply 38 changes")
    page.reload()
    expect(page.get_by_label("Apply: Added op30")).not_to_be_checked()
    expect(page.locator("#apply")).to_contain_text("Apply 38 changes")
    apply(page, "Apply 38 changes")
    expect(page.get_by_text("Not selected")).to_have_count(1)  # of this page
    with tenant_context(portal.tenant.pk):
        assert Tool.objects.count() == 38
        assert not Tool.objects.filter(name__in=["op03", "op30"]).exists()


def test_a_plan_works_without_javascript_and_removals_are_asked_about_UI_3_0_SYN_4(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    import_document(portal.tenant, document("a", "b", "c", "d"))
    page = sign_in(java_script_enabled=False)
    plan_upload(page, "shop.json", document("a", "b", "new"), "shop")
    page.get_by_label("Apply: Added new").uncheck()
    page.get_by_role("button", name="Save these ticks").click()
    expect(page.locator("#apply")).to_contain_text("Apply 2 changes")
    page.locator("#apply").click()
    expect(page.get_by_text("2 of 4 tools would be removed.")).to_be_visible()
    page.get_by_label("Yes, remove 2 tools").check()
    page.get_by_role("button", name="Apply 2 changes").click()
    expect(page.locator("#job .status").first).to_have_text("Succeeded", timeout=PATIENCE)
    with tenant_context(portal.tenant.pk):
        assert set(Tool.objects.filter(active=True).values_list("name", flat=True)) == {"a", "b"}


@pytest.mark.slow
def test_a_server_is_tested_read_and_its_source_synced_again_CAT_3(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    page = sign_in()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Servers").click()
    page.get_by_role("link", name="New server").first.click()
    page.get_by_label("Name").fill("sums")
    page.get_by_label("Or a command").select_option("sums")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_role("heading", name="It answered with 1 tool")).to_be_visible(timeout=PATIENCE)
    page.get_by_role("link", name="Import its tools").click()
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("#apply")).to_contain_text("Apply 1 change", timeout=PATIENCE)
    apply(page, "Apply 1 change")
    page.get_by_role("link", name="sums", exact=True).first.click()
    page.get_by_role("button", name="Sync").click()
    expect(page.locator("#job .status").first).to_have_text("Succeeded", timeout=PATIENCE)
    page.locator("#job-sync").click()
    expect(page.locator("main .status").first).to_have_text("Applied")


@pytest.mark.slow
def test_no_page_of_sources_and_servers_has_a_violation_UI_3_0(
    portal: Portal, sign_in: Callable[..., Page], axe: str
) -> None:
    found = []

    def look(path: str = "") -> None:
        if path:
            page.goto(path)
        found.extend(violations(page, axe))

    page = sign_in()
    look("/sources/")
    look("/servers/")
    import_document(portal.tenant, document("a", "b", "c", "d"))
    with tenant_context(portal.tenant.pk):
        server = McpServer.objects.create(
            slug="sums", command_id="sums", health="failing", last_error="It was mute."
        )
        failing = Source.objects.create(
            slug="sums", kind="mcp", server=server, failures=2, last_error="It was mute.", schedule="daily"
        )
    for path in (
        "/sources/",
        "/sources/?q=zebra",
        f"/sources/{failing.pk}/",
        "/sources/import/",
        "/servers/",
    ):
        look(path)
    # Two tabs: what the other one has saved meanwhile is shown beside what was typed here.
    page.goto(f"/sources/{failing.pk}/")
    with tenant_context(portal.tenant.pk):
        sources.update_source(pk=failing.pk, actor="olga", title="Sums of Olga", schedule="hourly")
    page.get_by_label("Title").fill("My sums")
    page.get_by_role("button", name="Save settings").click()
    expect(page.get_by_role("heading", name="Somebody else saved first")).to_be_visible()
    look()
    page.get_by_role("button", name="Save mine over theirs").first.click()
    expect(page.get_by_text("Settings saved.")).to_be_visible()
    with tenant_context(portal.tenant.pk):
        failing.refresh_from_db()
    assert (failing.title, failing.schedule) == ("My sums", "hourly")
    look(f"/servers/{server.pk}/edit/")
    with tenant_context(portal.tenant.pk):
        McpServer.objects.filter(pk=server.pk).update(title="Sums of Olga")
    page.get_by_label("Title").fill("My sums")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Somebody else saved first")).to_be_visible()
    expect(page.get_by_text("Somebody changed this server while you were editing it.")).to_be_visible()
    look()
    look(f"/servers/{server.pk}/")
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_role("heading", name="It answered with 1 tool")).to_be_visible(timeout=PATIENCE)
    look()

    changed = document("a", "b", "new", b="Other words.")
    changed["paths"]["/broken"] = {"get": "no operation"}
    plan_upload(page, "shop.json", changed, "shop")
    look()
    look(f"{page.url}?show=left_out")
    page.get_by_role("link", name="All changes").click()
    page.wait_for_load_state("load")  # before it the button works without htmx, and the question is a page
    page.locator("#apply").click()
    question = page.get_by_role("dialog")
    expect(question).to_be_visible()
    look()
    question.get_by_label("Yes, remove 2 tools").check()
    question.get_by_role("button", name="Apply 4 changes").click()
    expect(page.locator("#job .status").first).to_have_text("Succeeded", timeout=PATIENCE)
    look()
    page.locator("#job-sync").click()
    expect(page.locator("main .status").first).to_have_text("Applied")
    look()
    page.get_by_role("link", name="shop", exact=True).first.click()
    expect(page.get_by_role("heading", name="No longer offered")).to_be_visible()
    look()
    assert found == []
