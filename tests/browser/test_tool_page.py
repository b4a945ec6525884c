"""The operator's journey in a real browser: edit, see the embedding become ready, search, re-import, reset."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from portal.tenancy.context import tenant_context
from tests.support.imports import documents
from tests.support.overrides import pets
from tests.support.pages.browser import Portal, violations
from tools.catalogue.tools import update_tool
from tools.models import Tool

ROOT = Path(__file__).resolve().parents[2]
STRIPE = ROOT.parent / "shared" / "inputs" / "openapi" / "stripe-2020-3.0.yaml"
PETSTORE = ROOT / "tools" / "demo" / "petstore.yaml"

EDITED = "Counts the ivory zeppelins that are moored above the harbour, one by one."


def import_document(portal: Portal, document: Path) -> None:
    portal.manage("import_openapi", str(document), "--source", "shop")
    portal.manage("backfill_embeddings", "--wait", "--no-progress")


def open_tool(page: Page, name: str) -> None:
    page.goto(f"/tools/?q={name}")
    page.get_by_role("link", name=name, exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def edit_description(page: Page, text: str) -> None:
    page.get_by_role("navigation", name="Tool").get_by_role("link", name="Edit").click()
    page.get_by_label("Description", exact=True).fill(text)
    page.get_by_role("button", name="Save", exact=True).click()


@pytest.mark.parametrize(
    ("document", "name"),
    [
        pytest.param(
            STRIPE,
            "GetInvoices",
            marks=[pytest.mark.slow, pytest.mark.skipif(not STRIPE.exists(), reason="../shared is not here")],
        ),
        pytest.param(PETSTORE, "addPet"),
    ],
)
def test_an_edit_is_embedded_found_kept_by_a_reimport_and_reset_UI_1_SYN_5(
    portal: Portal, sign_in: Callable[..., Page], document: Path, name: str
) -> None:
    import_document(portal, document)
    page = sign_in()
    open_tool(page, name)
    imported = page.locator(".prose").inner_text()

    portal.running.stop("embeddings")
    edit_description(page, EDITED)
    card = page.locator("#embedding-card")
    expect(card).to_contain_text("Pending")  # saved at once, although nobody embeds
    expect(page.locator(".prose")).to_contain_text("ivory zeppelins")
    page.evaluate("window.notReloaded = true")
    portal.running.start("embeddings")
    expect(card).to_contain_text("Ready", timeout=40_000)
    assert page.evaluate("window.notReloaded") is True
    assert card.get_attribute("hx-trigger") is None  # polling has ended by itself

    page.goto("/search/?q=which+zeppelins+are+moored+at+the+harbour")
    expect(page.locator(".hits h2").first).to_have_text(name)

    import_document(portal, document)
    open_tool(page, name)
    expect(page.locator(".prose")).to_contain_text("ivory zeppelins")
    override = page.get_by_label("Override of description")
    override.locator("details").first.evaluate("details => details.open = true")
    expect(override.locator("blockquote")).to_contain_text(imported.split("\n")[0][:30])

    override.get_by_role("link", name="Reset to imported").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("Reset")).click()
    expect(page.locator(".prose")).not_to_contain_text("zeppelins")
    assert page.locator(".prose").inner_text() == imported
    expect(page.locator("#embedding-card")).to_contain_text("Ready", timeout=40_000)


@pytest.mark.slow
def test_an_edited_parameter_is_kept_in_conflict_reset_undone_and_restored_SYN_5_CAT_8(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    documents.import_document(portal.tenant, pets())
    page = sign_in()
    open_tool(page, "addPet")
    page.get_by_role("navigation", name="Tool").get_by_role("link", name="Edit").click()
    page.get_by_label("body.name").fill("The name that its owner calls.")
    page.get_by_label("Tags", exact=True).fill("pets\nanimals")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_label("Override of description of body.name")).to_be_visible()

    documents.import_document(portal.tenant, pets(name="What its owner calls."))
    page.get_by_role("link", name="Overrides").click()
    rows = page.locator(".change")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("In conflict")
    expect(rows.first.locator("ins").first).to_have_text("its owner calls")
    page.get_by_label("Conflicts only").check()
    expect(rows).to_have_count(1)
    rows.get_by_role("button", name="Keep override").click()
    expect(page.get_by_role("status").first).to_contain_text("Kept 1 override")
    expect(page.get_by_text("No override matches")).to_be_visible()

    page.get_by_role("link", name="Clear filters").click()
    page.get_by_label("Select all of this page").check()
    page.get_by_role("button", name="Reset to imported").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Reset 2 fields to imported?")
    expect(page.locator("blockquote").first).to_have_text("What its owner calls.")
    page.get_by_role("button", name="Reset 2 fields").click()
    expect(page.get_by_role("heading", name="No overrides")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(rows).to_have_count(2)

    open_tool(page, "addPet")
    page.get_by_role("navigation", name="Tool").get_by_role("link", name="History").click()
    page.get_by_role("link", name="Restore this version 1").click()
    question = page.get_by_role("dialog")
    expect(question.locator("del").first).to_contain_text("animals")
    question.get_by_role("button", name="Restore this").click()
    expect(page.get_by_role("status").first).to_contain_text("Restored.")
    page.get_by_role("link", name="Overrides").click()
    expect(rows).to_have_count(1)  # the text of version 1 is no longer what the source says
    expect(rows.locator("ins")).to_have_text("it is called")


@pytest.mark.slow
def test_no_page_of_overrides_has_a_violation_UI_3_0(
    portal: Portal,
    sign_in: Callable[..., Page],
    axe: str,
) -> None:
    documents.import_document(portal.tenant, pets())
    with tenant_context(portal.tenant.pk):
        tool = Tool.objects.get()
        texts = {"body.name": "Ours.", "dry": "Ours."}
        changes = {"description": "Ours.", "tags": ["ours"], "parameter_descriptions": texts}
        update_tool(pk=tool.pk, expected_version=1, changes=changes, actor="olga")
    documents.import_document(portal.tenant, pets(name="Its call name."))
    page = sign_in()
    found = []
    for path in ("/overrides/", "/overrides/?who=nobody", "/overrides/reset/?all=1", "/overrides/patch/?all=1",
                 f"/tools/{tool.pk}/", f"/tools/{tool.pk}/edit/", f"/tools/{tool.pk}/history/"):  # fmt: skip
        page.goto(path)
        found += violations(page, axe)
    page.get_by_role("link", name="Restore this version 1").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found += violations(page, axe)
    page.goto(f"/tools/{tool.pk}/edit/")
    page.locator("#id_name").fill("")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#error-summary")).to_be_visible()
    found += violations(page, axe)
    assert found == []


def test_the_second_of_two_tabs_gets_both_texts_and_loses_nothing_UI_1(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    import_document(portal, PETSTORE)
    first, second = sign_in(), sign_in()
    for page in (first, second):
        open_tool(page, "addPet")
        page.get_by_role("navigation", name="Tool").get_by_role("link", name="Edit").click()
        expect(page.get_by_label("Description", exact=True)).to_be_visible()
    first.get_by_label("Description", exact=True).fill("The first tab's text about pets.")
    first.get_by_role("button", name="Save", exact=True).click()
    expect(first.locator(".prose")).to_contain_text("The first tab's text")
    second.get_by_label("Description", exact=True).fill("The second tab's text about pets.")
    second.get_by_role("button", name="Save", exact=True).click()
    conflict = second.locator(".conflict")
    expect(conflict).to_contain_text("The first tab's text about pets.")
    expect(conflict).to_contain_text("The second tab's text about pets.")
    second.get_by_role("button", name="Save mine over theirs").last.click()
    expect(second.locator(".prose")).to_contain_text("The second tab's text")


@pytest.mark.slow
def test_a_second_press_of_refresh_embedding_is_harmless_EMB_9(
    portal: Portal, sign_in: Callable[..., Page]
) -> None:
    import_document(portal, PETSTORE)
    page = sign_in()
    open_tool(page, "addPet")
    card = page.locator("#embedding-card")
    portal.running.stop("embeddings")
    for _ in range(2):
        card.get_by_role("button", name="Refresh embedding").click()
        expect(card).to_contain_text("Refreshing")
        expect(card).to_contain_text("Ready")  # it keeps serving until then
    portal.running.start("embeddings")
    expect(card).not_to_contain_text("Refreshing", timeout=40_000)


@pytest.mark.slow
def test_everything_works_without_javascript_UI_1(portal: Portal, sign_in: Callable[..., Page]) -> None:
    import_document(portal, PETSTORE)
    page = sign_in(java_script_enabled=False)
    page.goto("/tools/?q=addPet")
    page.get_by_role("link", name="addPet", exact=True).click()
    edit_description(page, EDITED)
    expect(page.locator(".prose")).to_contain_text("ivory zeppelins")
    page.get_by_role("button", name="Refresh embedding").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("addPet")
    page.get_by_role("link", name="Reset to imported").click()
    page.get_by_role("button", name=re.compile("Reset")).click()
    expect(page.locator(".prose")).not_to_contain_text("zeppelins")
    page.goto("/search/?q=add+a+pet")
    expect(page.locator(".hits h2").first).to_have_text("addPet")


def test_pages_and_admin_keep_the_strict_policy_UI_1(portal: Portal, sign_in: Callable[..., Page]) -> None:
    page = sign_in()
    for address in (
        "/admin/",
        "/admin/tools/tool/",
        "/admin/embeddings/embeddingtask/",
        "/sources/",
        "/tools/new/",
    ):
        response = page.goto(address)
        assert response is not None
        assert response.status == 200, address
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
