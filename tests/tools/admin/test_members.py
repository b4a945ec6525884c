"""Members of a tenant: the commands that make them, and that a tenant keeps an admin.

How to see these fail: without `_require_another_admin` every refusal; without its lock, two admins who remove each other.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection

from portal.tenancy.context import tenant_context
from portal.tenancy.members import LastAdmin, add_member, remove_member
from portal.tenancy.models import Invitation, Membership, Role, Tenant
from tests.portal.test_tenancy import run
from tests.support.clients import join, sign_in
from tests.support.processes import manage

LAST = "is the only admin of this tenant. Make another member an admin first."


def members(tenant_id: Any) -> dict[str, str]:
    with tenant_context(UUID(str(tenant_id))):
        return dict(Membership.objects.values_list("user__username", "role"))


def test_a_new_tenant_gets_its_first_admin_by_command_SEC_4(committed: Tenant) -> None:
    User.objects.create_user("ada")
    made = json.loads(manage("create_tenant", "acme", "--admin", "ada", "--json"))
    assert (made["tenant"], made["admin"]) == ("acme", "ada")
    assert members(made["id"]) == {"ada": "admin"}
    User.objects.create_user("bert")
    said = json.loads(manage("add_member", "--tenant", "acme", "bert", "--role", "operator", "--json"))
    assert said == {"tenant": "acme", "username": "bert", "role": "operator"}
    assert members(made["id"]) == {"ada": "admin", "bert": "operator"}


@pytest.mark.django_db
def test_a_member_made_by_command_is_named_in_refusals_and_an_unknown_user_makes_no_tenant_SEC_4(
    tenant: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "create_tenant", "acme", "--admin", "nobody")
    assert (code, out) == (3, "")
    assert "There is no user 'nobody'." in err
    with connection.cursor() as cursor:
        cursor.execute("SELECT portal_tenant('acme')")
        assert cursor.fetchone() == (None,)
    add = ("add_member", "--tenant", tenant.slug)
    code, out, err = run(capsys, *add, "nobody", "--role", "admin")
    assert (code, out) == (3, "")
    assert "There is no user 'nobody'." in err
    User.objects.create_user("ada")
    assert run(capsys, *add, "ada", "--role", "king")[0] == 2
    assert run(capsys, *add, "ada")[0] == 2
    Invitation.objects.create(username="ada", role="viewer", invited_by="x")
    assert run(capsys, *add, "ada", "--role", "viewer")[0] == 0
    assert not Invitation.objects.exists()
    # Who was demoted is brought back, and the last admin is not demoted by the same command.
    assert "ada is now admin" in run(capsys, *add, "ada", "--role", "admin")[1]
    code, out, err = run(capsys, *add, "ada", "--role", "viewer")
    assert (code, out) == (3, "")
    assert LAST in err
    assert members(tenant.pk) == {"ada": "admin"}


@pytest.mark.django_db
def test_the_last_admin_is_neither_demoted_nor_removed_in_the_admin_SEC_4(tenant: Tenant) -> None:
    ada = User.objects.create_superuser("ada")
    join(tenant, ada, "admin")
    client = sign_in(tenant, ada)
    row = Membership.objects.get()
    rows = "/admin/tenancy/membership/"
    change = client.post(f"{rows}{row.pk}/change/", {"role": "viewer"})
    deletion = client.post(f"{rows}{row.pk}/delete/", {"post": "yes"}, follow=True)
    action = {"action": "delete_selected", "_selected_action": str(row.pk), "post": "yes"}
    by_action = client.post(rows, action, follow=True)
    for answer in (change, deletion, by_action):
        assert answer.status_code == 200
        assert LAST in answer.content.decode()
    assert members(tenant.pk) == {"ada": "admin"}
    # One who cannot sign in is no other admin.
    join(tenant, User.objects.create_user("bert", is_active=False), "admin")
    assert LAST in client.post(f"{rows}{row.pk}/change/", {"role": "viewer"}).content.decode()
    User.objects.filter(username="bert").update(is_active=True)
    assert client.post(f"{rows}{row.pk}/change/", {"role": "viewer"}).status_code == 302
    assert members(tenant.pk) == {"ada": "viewer", "bert": "admin"}


def test_two_admins_who_remove_each_other_at_the_same_moment_leave_one_SEC_4(committed: Tenant) -> None:
    people = [User.objects.create_user(f"admin-{number}") for number in range(2)]
    for person in people:
        join(committed, person, "admin")
    together = threading.Barrier(2)

    def remove(person: User) -> bool:
        try:
            with tenant_context(committed.pk):
                row = Membership.objects.get(user=person)
                together.wait(timeout=20)
                remove_member(row)
        except LastAdmin:
            return False
        finally:
            connection.close()
        return True

    for _ in range(10):
        with ThreadPoolExecutor(2) as pool:
            assert sum(pool.map(remove, people)) == 1
        with tenant_context(committed.pk):
            assert Membership.objects.count() == 1
            for person in people:
                add_member(person, Role.ADMIN)
