"""A session's tenant in two tabs of one browser, and the way into a tenant (S21)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Page, expect

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Invitation, Role, Tenant
from tests.support.clients import join
from tests.support.pages.browser import Portal, violations
from tools.catalogue.tools import create_tool
from tools.models import Tool

TYPED = "Typed in the first tab for an hour."


def switch_in_second_tab(first: Page, tenant: Tenant, other: Tenant) -> None:
    second = first.context.new_page()
    second.goto("/tools/")
    second.locator(".topbar summary").filter(has_text=tenant.name).click()
    second.get_by_role("button", name=other.name).click()
    expect(second.locator(".topbar")).to_contain_text(other.name)


@pytest.mark.slow
def test_S21_a_form_of_the_first_tab_is_not_stored_where_the_second_tab_went(
    portal: Portal, sign_in: Callable[..., Page], make_tenant: Callable[..., Tenant], axe: str
) -> None:
    other = make_tenant()
    first = sign_in()
    join(other, get_user_model().objects.get(username=portal.username), Role.ADMIN)
    first.goto("/tools/new/")
    first.locator("#id_tool_id").fill("typed")
    first.locator("#id_name").fill("typed")
    first.locator("#id_description").fill(TYPED)
    switch_in_second_tab(first, portal.tenant, other)
    first.get_by_role("button", name="Create tool").click()
    refusal = first.locator(".conflict")
    expect(refusal).to_contain_text("made for another tenant")
    expect(first.locator("main")).to_contain_text(TYPED)
    assert violations(first, axe) == []
    for tenant in (portal.tenant, other):
        with tenant_context(tenant.pk):
            assert not Tool.objects.filter(tool_id="typed").exists()
    first.get_by_role("button", name=f"Switch to {portal.tenant.name}").click()
    expect(first.locator("main")).to_contain_text(TYPED)
    first.get_by_role("button", name="Send it now").click()
    expect(first.locator(".topbar")).to_contain_text(portal.tenant.name)
    with tenant_context(portal.tenant.pk):
        assert Tool.objects.get(tool_id="typed").description == TYPED
    with tenant_context(other.pk):
        assert not Tool.objects.filter(tool_id="typed").exists()


@pytest.mark.slow
def test_S21_a_button_of_htmx_in_the_first_tab_is_refused_as_well(
    portal: Portal, sign_in: Callable[..., Page], make_tenant: Callable[..., Tenant], axe: str
) -> None:
    other = make_tenant()
    with tenant_context(portal.tenant.pk):
        tool = create_tool(actor="x", tool_id="kept", name="kept")
    first = sign_in()
    join(other, get_user_model().objects.get(username=portal.username), Role.ADMIN)
    first.goto(f"/tools/{tool.pk}/")
    switch_in_second_tab(first, portal.tenant, other)
    first.locator("#embedding-card form button").first.click()
    expect(first.locator("#main .conflict")).to_contain_text("made for another tenant")
    assert violations(first, axe) == []
    first.get_by_role("button", name=f"Switch to {portal.tenant.name}").click()
    expect(first.locator(".topbar")).to_contain_text(portal.tenant.name)


@pytest.mark.slow
def test_S21_an_invitation_is_accepted_from_the_menu(
    portal: Portal, sign_in: Callable[..., Page], make_tenant: Callable[..., Tenant], axe: str
) -> None:
    other = make_tenant()
    with tenant_context(other.pk):
        Invitation.objects.create(username=portal.username, role=Role.VIEWER, invited_by="root")
    page = sign_in()
    page.locator("summary").filter(has_text="Account and theme").click()
    page.get_by_role("link", name="Invitations").click()
    expect(page.locator("main")).to_contain_text(f"root invites you to {other.name} as viewer")
    assert violations(page, axe) == []
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("main")).to_contain_text("You are now")
    expect(page.locator(".topbar")).to_contain_text(portal.tenant.name)
