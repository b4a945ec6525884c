"""A session's tenant changes only by its person, and no form is stored in a tenant that it was not made for (S21, SEC-1)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from portal.tenancy.context import tenant_context
from portal.tenancy.middleware import FORM_FIELD, FORM_HEADER
from portal.tenancy.models import Membership, Tenant
from tests.support.clients import join
from tools.models import Tool

TEXT = "Typed for an hour & then <lost>."
SHOWN = "Typed for an hour &amp; then &lt;lost&gt;."


@pytest.fixture
def person(tenant: Tenant) -> Any:
    """An admin of the tenant with a password, whose name no other test has."""
    user = get_user_model().objects.create_superuser(f"person-{uuid.uuid4().hex[:8]}", password="pass-word")
    join(tenant, user, "admin")
    return user


@pytest.fixture
def browser(person: Any) -> Client:
    """Signed in by the page, without a default header: what it sends stands in its forms."""
    client = Client()
    signed_in = client.post("/login/", {"username": person.username, "password": "pass-word"})
    assert signed_in.status_code == 302
    return client


def form_of(client: Client, path: str, **headers: str) -> dict[str, str]:
    """The hidden fields of the page's own form."""
    html = client.get(path, headers=headers).content.decode()
    [main] = re.findall(
        r"<form(?![^>]*(?:/logout/|/tenant/|/theme/))[^>]*method=\"post\".*?</form>", html, re.DOTALL
    )[:1]
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', main))  # fmt: skip


def new_tool(**fields: str) -> dict[str, str]:
    return {
        "name": "typed", "tool_id": "typed", "namespace": "public", "description": TEXT, "tool_type": "api", "lifecycle": "active",
        "sensitivity": "internal", "visibility": "public", "semantic_weight": "1", "active": "on", **fields,
    }  # fmt: skip


def names(tenant: Tenant) -> set[str]:
    with tenant_context(tenant.pk):
        return set(Tool.objects.values_list("tool_id", flat=True))


def test_S21_another_membership_leaves_a_running_session_where_it_is(
    tenant: Tenant, make_tenant: Callable[..., Tenant], person: Any, browser: Client
) -> None:
    form = form_of(browser, "/tools/new/")
    first_of_all = make_tenant(f"0-{tenant.slug}")
    join(first_of_all, person, "admin")
    assert form_of(browser, "/tools/new/")[FORM_FIELD] == form[FORM_FIELD] == str(tenant.pk)
    assert browser.post("/tools/new/", new_tool(**form)).status_code == 302
    assert (names(tenant), names(first_of_all)) == ({"typed"}, set())


def test_S21_a_form_of_another_tab_is_refused_with_its_text_and_stored_nowhere(
    tenant: Tenant, make_tenant: Callable[..., Tenant], person: Any, browser: Client
) -> None:
    other = make_tenant()
    join(other, person, "admin")
    form = form_of(browser, "/tools/new/")
    assert browser.post("/tenant/", {"tenant": str(other.pk)}).status_code == 302
    refused = browser.post("/tools/new/", new_tool(**form))
    html = refused.content.decode()
    assert refused.status_code == 409
    assert SHOWN in html
    assert tenant.name in html
    assert f'name="tenant" value="{tenant.pk}"' in html, "the way back is offered"
    assert "csrfmiddlewaretoken" not in re.findall(r"<h3>(.*?)</h3>", html)
    assert (names(tenant), names(other)) == (set(), set())


def hidden(html: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', html)
    return {unescape(name): unescape(value) for name, value in found}


def test_S21_a_refused_form_is_sent_again_where_it_was_made(
    tenant: Tenant, make_tenant: Callable[..., Tenant], person: Any, browser: Client
) -> None:
    other = make_tenant()
    join(other, person, "admin")
    form = form_of(browser, "/tools/new/")
    browser.post("/tenant/", {"tenant": str(other.pk)})
    refused = browser.post("/tools/new/", new_tool(**form)).content.decode()
    offered = browser.post("/tenant/", {"tenant": str(tenant.pk), "kept": hidden(refused)["kept"]})
    assert SHOWN in offered.content.decode()
    assert names(tenant) == set(), "only the person sends it"
    assert browser.post("/tools/new/", hidden(offered.content.decode())).status_code == 302
    assert (names(tenant), names(other)) == ({"typed"}, set())


def test_S21_a_form_that_is_kept_through_the_login_goes_to_the_tenant_that_it_was_made_for(
    tenant: Tenant, make_tenant: Callable[..., Tenant], person: Any, browser: Client
) -> None:
    first_of_all = make_tenant(f"0-{tenant.slug}")
    join(first_of_all, person, "admin")
    form = form_of(browser, "/tools/new/")
    browser.session.flush()
    login = hidden(browser.post("/tools/new/", new_tool(**form)).content.decode())
    fields = {**login, "username": person.username, "password": "pass-word"}
    offered = hidden(browser.post("/login/", fields).content.decode())
    assert offered[FORM_FIELD] == browser.session["tenant"] == str(tenant.pk)
    browser.post("/tenant/", {"tenant": str(first_of_all.pk)})
    assert browser.post("/tools/new/", offered).status_code == 409
    browser.post("/tenant/", {"tenant": str(tenant.pk)})
    assert browser.post("/tools/new/", offered).status_code == 302
    assert (names(tenant), names(first_of_all)) == ({"typed"}, set())


def test_S21_a_session_without_a_tenant_gets_none_until_its_person_chooses(
    tenant: Tenant, person: Any
) -> None:
    client, newcomer = Client(), get_user_model().objects.create_user(uuid.uuid4().hex)
    client.force_login(newcomer)
    join(tenant, newcomer, "viewer")
    page = client.get("/tools/")
    assert page.status_code == 403
    assert "Choose a tenant" in page.content.decode()
    client.post("/tenant/", {"tenant": str(tenant.pk)})
    assert client.get("/tools/").status_code == 200


def test_S21_a_refused_form_shows_no_password_of_an_address_again(
    tenant: Tenant, make_tenant: Callable[..., Tenant], person: Any, browser: Client
) -> None:
    form = form_of(browser, "/servers/new/")
    other = make_tenant()
    join(other, person, "admin")
    browser.post("/tenant/", {"tenant": str(other.pk)})
    typed = {**form, "url": "https://me:hush-hush@mcp.example/x", "title": "Sums"}
    html = browser.post("/servers/new/", typed).content.decode()
    assert "https://mcp.example/x" in html
    assert "hush-hush" not in html


def test_S21_htmx_gets_the_refusal_as_a_fragment(
    tenant: Tenant, make_tenant: Callable[..., Tenant], person: Any, browser: Client
) -> None:
    other = make_tenant()
    join(other, person, "admin")
    browser.post("/tenant/", {"tenant": str(other.pk)})
    headers = {"HX-Request": "true", FORM_HEADER: str(tenant.pk)}
    refused = browser.post("/tools/new/", new_tool(), headers=headers)
    assert refused.status_code == 409
    assert SHOWN in refused.content.decode()
    assert "<html" not in refused.content.decode()
    assert (refused["HX-Retarget"], refused["HX-Reswap"]) == ("#main", "innerHTML")
    contradicting = {**headers, FORM_HEADER: str(other.pk)}
    assert browser.post("/tools/new/", new_tool(**{FORM_FIELD: str(tenant.pk)}), headers=contradicting).status_code == 409  # fmt: skip
    assert names(other) == set()


def test_S21_a_membership_that_was_taken_back_ends_in_a_choice_and_keeps_the_text(
    tenant: Tenant, make_tenant: Callable[..., Tenant], person: Any, browser: Client
) -> None:
    other = make_tenant()
    join(other, person, "admin")
    form = form_of(browser, "/tools/new/")
    with tenant_context(tenant.pk):
        Membership.objects.filter(user=person).delete()
    page = browser.get("/tools/")
    assert page.status_code == 403
    assert "no longer a member" in page.content.decode()
    refused = browser.post("/tools/new/", new_tool(**form))
    assert refused.status_code == 409
    assert SHOWN in refused.content.decode()
    assert (names(tenant), names(other)) == (set(), set())
    browser.post("/tenant/", {"tenant": str(other.pk)})
    assert browser.get("/tools/").status_code == 200


def test_S21_a_form_that_names_no_tenant_or_anybodys_is_refused(tenant: Tenant, browser: Client) -> None:
    for field in ({}, {FORM_FIELD: str(uuid.uuid4())}, {FORM_FIELD: "x"}):
        refused = browser.post("/tools/new/", new_tool(**field))
        assert refused.status_code == 409
        assert SHOWN in refused.content.decode()
    assert names(tenant) == set()


@pytest.mark.parametrize("path", ["/admin/tools/tool/add/", "/admin/auth/user/add/"])
def test_S21_the_forms_of_the_admin_carry_the_tenant_and_show_no_password_again(
    tenant: Tenant, make_tenant: Callable[..., Tenant], person: Any, browser: Client, path: str
) -> None:
    other = make_tenant()
    join(other, person, "admin")
    form = form_of(browser, path)
    assert form[FORM_FIELD] == str(tenant.pk)
    browser.post("/tenant/", {"tenant": str(other.pk)})
    refused = browser.post(
        path, {**form, "username": "typed-name", "password1": "hush-hush", "password2": "hush-hush"}
    )
    html = refused.content.decode()
    assert refused.status_code == 409
    assert "typed-name" in html
    assert "hush-hush" not in html


def test_S21_signing_out_and_the_theme_are_of_no_tenant(browser: Client) -> None:
    assert browser.post("/theme/", {"theme": "dark"}).status_code == 302
    assert browser.post("/logout/").status_code == 302


def test_S14_a_session_is_pinned_by_the_sign_in_and_not_by_a_page(tenant: Tenant, browser: Client) -> None:
    before = dict(browser.session)
    assert before["tenant"] == str(tenant.pk)
    browser.get("/tools/")
    assert dict(browser.session) == before
