"""A membership begins when its person accepts it (S21); who is put into a tenant unasked would work there unawares."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.test import Client

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Invitation, Membership, Tenant
from tests.support.clients import join, sign_in

PAGE = "/invitations/"


@pytest.fixture
def person(db: None) -> Any:
    return get_user_model().objects.create_user(f"person-{uuid.uuid4().hex[:8]}", password=None)


@pytest.fixture
def browser(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


def invite(tenant: Tenant, username: str, role: str = "operator") -> None:
    with tenant_context(tenant.pk):
        Invitation.objects.create(username=username, role=role, invited_by="root")


def answer(client: Client, tenant: Tenant, how: str) -> str:
    return client.post(PAGE, {"tenant": str(tenant.pk), "answer": how}, follow=True).content.decode()


def role_of(tenant: Tenant, person: Any) -> str | None:
    with tenant_context(tenant.pk):
        found: str | None = Membership.objects.filter(user=person).values_list("role", flat=True).first()
        return found


def test_S21_a_membership_begins_when_its_person_accepts_it(
    tenant: Tenant, person: Any, browser: Client
) -> None:
    invite(tenant, person.username)
    refused = browser.get("/tools/")
    assert refused.status_code == 403
    assert PAGE in refused.content.decode()
    page = browser.get(PAGE)
    assert "<strong>root</strong> invites you" in page.content.decode()
    assert tenant.name in page.content.decode()
    assert "no-store" in page["Cache-Control"]
    assert role_of(tenant, person) is None
    assert "You are now" in answer(browser, tenant, "accept")
    assert role_of(tenant, person) == "operator"
    assert browser.session["tenant"] == str(tenant.pk)
    assert not Invitation.objects.exists()
    event = apps.get_model("tenancy", "MembershipEvent").objects.get(user_id=person.pk)
    assert (event.pgh_context["actor"], event.pgh_context["invited_by"]) == (person.username, "root")
    assert "no longer exists" in answer(browser, tenant, "accept")


def test_S21_who_accepts_goes_on_where_they_worked(
    tenant: Tenant, make_tenant: Callable[..., Tenant], person: Any
) -> None:
    join(tenant, person, "viewer")
    browser = sign_in(tenant, person)
    other = make_tenant(f"0-{tenant.slug}")
    invite(other, person.username, "admin")
    answer(browser, other, "accept")
    assert role_of(other, person) == "admin"
    assert browser.session["tenant"] == str(tenant.pk)
    assert tenant.name in browser.get("/tools/").content.decode()


def test_S21_a_declined_invitation_is_gone_and_made_nobody_a_member(
    tenant: Tenant, person: Any, browser: Client
) -> None:
    invite(tenant, person.username)
    assert "You have declined" in answer(browser, tenant, "decline")
    assert role_of(tenant, person) is None
    assert not Invitation.objects.exists()


@pytest.mark.parametrize("how", ["accept", "decline", "", "ACCEPT"])
def test_S21_nobody_answers_an_invitation_of_somebody_else(
    tenant: Tenant, person: Any, browser: Client, how: str
) -> None:
    invite(tenant, "somebody-else")
    assert "no longer exists" in answer(browser, tenant, how)
    assert tenant.name not in browser.get(PAGE).content.decode()
    assert role_of(tenant, person) is None
    assert Invitation.objects.get().username == "somebody-else"
    broken = browser.post(PAGE, {"tenant": "no-uuid", "answer": "accept"}, follow=True)
    assert "no longer exists" in broken.content.decode()


def test_S21_an_anonymous_visitor_is_sent_to_the_login(db: None, anonymous_client: Client) -> None:
    assert anonymous_client.get(PAGE)["Location"] == f"/login/?next={PAGE}"
