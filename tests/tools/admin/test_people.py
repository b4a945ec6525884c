"""What Django's admin tells of users: who is a member of the tenant, and not which other user names exist (S21)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Invitation, Membership, Tenant
from tests.support.clients import join, sign_in

USERS = "/admin/auth/user/"
NEW, OLD = "a new password of length", "an old password of length"


@pytest.fixture
def superuser(tenant: Tenant, settings: Any) -> Client:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast
    user = User.objects.create_superuser("root")
    join(tenant, user, "admin")
    return sign_in(tenant, user)


def add(client: Client, name: str) -> list[Any]:
    """What is answered, without the name itself and what differs in any two answers."""
    form = {"username": name, "usable_password": "true", "password1": NEW, "password2": NEW}
    answer = client.post(f"{USERS}add/", form)
    shown = client.get(answer["Location"]).content.decode() + client.get("/admin/").content.decode()
    same = re.sub(r'nonce-\S+|value="\w{64}"|"csrfToken": "\w+"', "", shown)
    assert "You can now invite" in same
    return [answer.status_code, *(text.replace(name, "NAME") for text in (answer["Location"], same))]


def test_adding_a_user_tells_nobody_whether_the_name_is_taken_S21(superuser: Client) -> None:
    somebody = User.objects.create_user("somebody", password=OLD)
    User.objects.create_user("Somebody-Else", password=OLD)
    said = []
    for name in ("somebody", "somebody-else", "nobody-yet"):
        said.append(add(superuser, name))
        User.objects.get(username="root").logentry_set.all().delete()
    assert said[0] == said[1] == said[2]
    somebody.refresh_from_db()
    assert somebody.check_password(OLD)
    assert User.objects.get(username="nobody-yet").check_password(NEW)
    assert not User.objects.filter(username="somebody-else").exists()


def test_the_users_of_the_admin_are_the_members_of_the_tenant_S21(
    tenant: Tenant, make_tenant: Callable[..., Tenant], superuser: Client
) -> None:
    member, stranger = User.objects.create_user("member"), User.objects.create_user("stranger")
    join(tenant, member, "viewer")
    join(make_tenant(), stranger, "viewer")
    shown = superuser.get(USERS).content.decode()
    assert "member" in shown
    assert "stranger" not in shown
    for page in ("change", "password", "history"):
        unknown = superuser.get(f"{USERS}0/{page}/", follow=True).status_code
        assert superuser.get(f"{USERS}{stranger.pk}/{page}/", follow=True).status_code == unknown
    assert superuser.get(f"{USERS}{member.pk}/password/").status_code == 200
    assert superuser.get(f"{USERS}{member.pk}/delete/").status_code == 403


@pytest.mark.parametrize("bond", ["member", "invited"])
def test_the_account_of_somebody_of_another_tenant_is_only_shown_S21(
    tenant: Tenant, make_tenant: Callable[..., Tenant], superuser: Client, bond: str
) -> None:
    shared = User.objects.create_user("shared", password=OLD)
    join(tenant, shared, "viewer")
    other = make_tenant()
    if bond == "member":
        join(other, shared, "admin")
    else:
        with tenant_context(other.pk):
            Invitation.objects.create(username="shared", role="admin")
    assert "shared" in superuser.get(f"{USERS}{shared.pk}/change/").content.decode()
    password = {"usable_password": "true", "password1": NEW, "password2": NEW}
    form = {"email": "m@example.com", "is_active": ""}
    joined = {"date_joined_0": "2026-11-29", "date_joined_1": "09:00:00"}
    assert superuser.get(f"{USERS}{shared.pk}/password/").status_code == 403
    assert superuser.post(f"{USERS}{shared.pk}/password/", password).status_code == 403
    assert superuser.post(f"{USERS}{shared.pk}/change/", {**form, **joined}).status_code == 403
    shared.refresh_from_db()
    assert (shared.check_password(OLD), shared.is_active, shared.email) == (True, True, "")


def test_a_user_is_not_renamed_to_find_out_which_names_are_taken_S21(
    tenant: Tenant, superuser: Client
) -> None:
    User.objects.create_user("somebody")
    member = User.objects.create_user("member")
    join(tenant, member, "viewer")
    form = {"username": "somebody", "email": "m@example.com", "is_active": "on"}
    joined = {"date_joined_0": "2026-11-29", "date_joined_1": "09:00:00"}
    assert superuser.post(f"{USERS}{member.pk}/change/", {**form, **joined}).status_code == 302
    member.refresh_from_db()
    assert (member.username, member.email) == ("member", "m@example.com")


@pytest.mark.parametrize("role", ["admin", "viewer"])
def test_only_superusers_who_are_admins_of_the_tenant_see_its_users_S21(tenant: Tenant, role: str) -> None:
    person = User.objects.create_user("staff", is_staff=True, is_superuser=role == "viewer")
    person.user_permissions.set(Permission.objects.filter(content_type__app_label="auth"))
    join(tenant, person, role)
    client = sign_in(tenant, person)
    for path in (USERS, f"{USERS}add/", f"{USERS}{person.pk}/password/"):
        assert client.get(path).status_code in {302, 403}
        assert client.get(path, follow=True).redirect_chain in ([], [("/admin/", 302)])


def test_a_superuser_changes_nothing_of_a_member_of_a_tenant_that_they_do_not_administer_SEC_1(
    tenant: Tenant, make_tenant: Callable[..., Tenant], superuser: Client
) -> None:
    other, person = make_tenant(), User.objects.create_user("person", password=OLD)
    join(tenant, person, "viewer")
    path = f"{USERS}{person.pk}/"
    form = {"password1": NEW, "password2": NEW, "usable_password": "true"}
    assert superuser.get(f"{path}password/").status_code == 200
    join(other, person, "admin")
    assert superuser.post(f"{path}password/", form).status_code == 403
    assert superuser.post(f"{path}change/", {"is_active": "", "email": "m@example.com"}).status_code == 403
    assert superuser.get(f"{path}history/").status_code == 403
    page = superuser.get(f"{path}change/").content.decode()
    assert "so nothing about them can be changed here" in page
    assert "_save" not in page
    person.refresh_from_db()
    assert (person.check_password(OLD), person.is_active, person.email) == (True, True, "")
    # Their own account, and those of whom they administer everywhere, they change.
    root = User.objects.get(username="root")
    join(other, root, "operator")
    assert superuser.get(f"{USERS}{root.pk}/password/").status_code == 200
    assert superuser.get(f"{path}password/").status_code == 403
    with tenant_context(other.pk):
        Membership.objects.filter(user=root).update(role="admin")
    assert superuser.post(f"{path}password/", form).status_code == 302
    person.refresh_from_db()
    assert person.check_password(NEW)


def test_nobody_makes_the_user_that_another_tenant_has_invited_SEC_1(
    tenant: Tenant, make_tenant: Callable[..., Tenant], superuser: Client
) -> None:
    other = make_tenant()
    for where, name in ((other, "theirs"), (tenant, "ours")):
        with tenant_context(where.pk):
            Invitation.objects.create(username=name, role="admin", invited_by="somebody")
    said = []
    for name in ("theirs", "ours"):
        said.append(add(superuser, name))
        User.objects.get(username="root").logentry_set.all().delete()
    assert said[0] == said[1]
    assert [User.objects.filter(username=name).exists() for name in ("theirs", "ours")] == [False, True]


def test_groups_of_permissions_are_for_superusers_who_are_admins_SEC_4(
    tenant: Tenant, superuser: Client
) -> None:
    staff = User.objects.create_user("staff", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(content_type__app_label="auth"))
    join(tenant, staff, "admin")
    homeless = Client()
    homeless.force_login(User.objects.create_superuser("homeless"))
    for client in (sign_in(tenant, staff), homeless):
        assert client.get("/admin/auth/group/").status_code == 403
        assert client.post("/admin/auth/group/add/", {"name": "mine"}).status_code == 403
    assert not Group.objects.exists()
    assert superuser.post("/admin/auth/group/add/", {"name": "editors"}).status_code == 302
    assert Group.objects.get().name == "editors"


def test_groups_and_users_are_not_filtered_by_what_their_lists_do_not_show_S21(superuser: Client) -> None:
    for path in ("/admin/auth/group/?user=1", f"{USERS}?password__startswith=m", f"{USERS}?logentry__id=1"):
        assert (path, superuser.get(path).status_code) == (path, 400)
    assert superuser.get(f"{USERS}?is_staff__exact=1").status_code == 200


def test_nobody_is_told_who_made_a_group_S21(superuser: Client) -> None:
    """Groups are shared, so it may have been a superuser of another tenant."""
    superuser.post("/admin/auth/group/add/", {"name": "editors"})
    path = f"/admin/auth/group/{Group.objects.get().pk}/"
    assert superuser.get(f"{path}history/").status_code == 404
    page = superuser.get(f"{path}change/")
    assert page.status_code == 200
    assert "/history/" not in page.content.decode()
