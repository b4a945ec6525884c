"""SEC-4: what a form of a page or of Django's admin changes for an admin, it changes for nobody whose rights are too low. The forms are
those that an admin's own pages hold, filled in; every row of the tenant, and of its people, is compared before and after.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.test import Client
from django.urls import resolve

from portal.jobs import services as jobs
from portal.tenancy.middleware import FORM_FIELD, FORM_HEADER
from portal.tenancy.models import Role, Tenant
from tests.contract.test_tenant_of_every_form import WAYS_OUT, path_of
from tests.support.clients import join, sign_in
from tests.support.pages.forms import Form, forms_of, ways_to_send
from tests.support.waits import own_transactions
from tests.support.world import World, build_world, routes
from tools.models import ManualOverride

# What a person writes about themselves, in whatever role; and what only looks.
OF_THE_PERSON = {
    "admin:login", "admin:logout", "invitations", "login", "logout", "password", "switch-tenant", "theme",
}  # fmt: skip
# Their forms are answered by a question with a form of its own.
QUESTIONS = {"override-reset", "sync-apply"}
# Some of what an admin's forms write, so that the comparison proves something.
WRITTEN = {
    "tool-edit", "tool-active", "tool-delete", "tool-embedding-refresh", "source-settings", "server-new", "server-edit", "server-delete",
    "server-test", "sync-again", "job-new", "job-cancel", "job-resume", "refresh-matching", "admin:tools_tool_change",
    "admin:tools_tool_changelist", "admin:tools_source_change", "admin:tools_source_delete", "admin:tools_manualoverride_changelist",
    "admin:tools_mcpserver_delete", "admin:tenancy_membership_change", "admin:tenancy_invitation_add", "admin:tenancy_apikey_changelist",
    "admin:auth_group_add",
}  # fmt: skip
# What is typed into fields that are empty, so that a form is complete.
TYPED = {
    "tool_id": "mine", "slug": "mine", "username": "mine", "namespace": "public", "source": "mine", "url": "https://mcp.example.com/mcp",
    "password1": "a password of mine", "password2": "a password of mine",
    **dict.fromkeys(("command_id", "headers", "output", "expires_at_0", "expires_at_1"), ""),
    "text": '{"openapi": "3.0.0", "info": {"title": "T", "version": "1"}, "paths": {"/n": {"get": {"responses": {}}}}}',
}  # fmt: skip
# Of the tables beside those with a tenant.
PEOPLE = (
    "auth_user",
    "auth_group",
    "auth_user_groups",
    "auth_user_user_permissions",
    "auth_group_permissions",
)
# What a request writes by itself.
BY_ITSELF = {"tenancy_signin"}


@pytest.fixture
def world(tenant: Tenant, settings: Any) -> World:
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.HashEmbedder"
    return build_world(tenant)


def staff(tenant: Tenant, role: str, **fields: bool) -> Client:
    """A member whom Django's permissions allow everything."""
    user = User.objects.create_user(f"staff-{role}-{len(fields)}", is_staff=True, **fields)
    user.user_permissions.set(Permission.objects.all())
    join(tenant, user, role)
    return sign_in(tenant, user)


def is_of_admins(name: str) -> bool:
    """Whether only an admin may write by this route."""
    return name.endswith("delete") or name.startswith(
        (
            "admin:tenancy_",
            "admin:auth_",
            "admin:tools_mcpserver_",
            "admin:tools_source_changelist",
            "server-new",
            "server-edit",
        )
    )


def rows() -> list[Any]:
    """The rows of the current tenant's tables and of people, by the transaction that wrote each and where it lies, so that a write
    that changes nothing shows as well."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' "
            "WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
        )
        tables = sorted({name for (name,) in cursor.fetchall()} - BY_ITSELF | set(PEOPLE))
        parts = [
            f"SELECT '{table}', count(*), md5(string_agg(xmin::text || ctid::text, ',' ORDER BY ctid)) FROM {table}"
            for table in tables
        ]
        cursor.execute(" UNION ALL ".join(parts))
        return sorted(cursor.fetchall())


def filled(form: Form, world: World) -> Form:
    """The form as somebody sends it who has typed into each of its fields, chosen a row and agreed to all that is asked."""
    typed = {
        name: form.fields[name][0] or TYPED[name] if name in TYPED else f"{form.fields[name][0]} mine"
        for name in form.texts
        if name in TYPED or not form.fields[name][0].startswith(("{", "["))
    }
    agreed = {
        "confirm_removals": "on",
        "tools": "delete",
        "scopes": "search:read",
        "sync_wins": "on",
        "post": "yes",
    }
    lists = {f"/{route.pattern}": route for route in routes() if route.name.endswith("_changelist")}
    model = lists[form.address].model if form.address in lists else None
    selected = world.object_of(ManualOverride) if form.address.startswith("/overrides/") else world.tool.pk
    chosen = {"_selected_action": str(world.object_of(model)) if model else "", "selected": str(selected)}
    if "server_url" in form.texts:  # a document is given in one way
        chosen |= {"url": "", "server_url": ""}
    form.fields.pop(FORM_FIELD, None)  # whoever sends it says their own tenant in a header
    return form.given(**{**agreed, **typed, **chosen})


def forms(admin: Client, *worlds: World) -> dict[str, list[Form]]:
    """The forms of all pages that the admin sees, and of the questions that they lead to, by the name of the route that they are
    sent to."""
    found: dict[str, dict[str, Form]] = {}
    for world in worlds:
        for route in routes():
            path = path_of(route, world)
            if path.startswith(("/api/", "/static/")) or route.pattern in WAYS_OUT:
                continue
            if world is not worlds[0] and not path.startswith(("/tools/", "/jobs/")):
                continue  # the others differ in these alone
            for form in _forms_in(admin.get(path), path):
                name = resolve(form.address.partition("?")[0]).view_name
                if name not in OF_THE_PERSON:
                    ways = list(ways_to_send(filled(form, world)))
                    if name in QUESTIONS:
                        ways += [
                            one
                            for way in ways
                            for one in _forms_in(admin.post(way.address, way.fields), way.address)
                        ]
                    found.setdefault(name, {}).update({f"{one.address} {one.fields}": one for one in ways})
    return {name: list(ways.values()) for name, ways in found.items()}


def _forms_in(answer: Any, path: str) -> list[Form]:
    is_page = answer.status_code == 200 and answer["Content-Type"].startswith("text/html")
    return forms_of(answer.content.decode(), path) if is_page else []


def written_by(client: Client, sent: Mapping[str, list[Form]]) -> set[str]:
    """The names of the routes that changed a row for this person. Each change is taken back."""
    client.raise_request_exception = False
    changed, cookies = set(), copy.deepcopy(client.cookies)
    for name, forms in sent.items():
        with transaction.atomic(), own_transactions():
            before = rows()
            for form in forms:
                client.post(form.address, form.fields)
                client.cookies = copy.deepcopy(cookies)  # no form ends the session
            if rows() != before:
                changed.add(name)
            transaction.set_rollback(True)
    return changed


@pytest.mark.slow
def test_a_form_of_an_admin_changes_no_row_for_anybody_whose_rights_are_too_low_SEC_4(
    world: World, make_tenant: Callable[..., Tenant]
) -> None:
    admin = staff(world.tenant, Role.ADMIN, is_superuser=True)
    other = dataclasses.replace(
        world,
        tool=world.imported,
        job=jobs.start("refresh_embeddings", {"ids": [str(world.tool.pk)]}, by="olga"),
    )
    before = rows()
    sent = forms(admin, world, other)
    assert rows() == before, "something was written by being looked at"
    by_admin = written_by(admin, sent)
    assert by_admin >= WRITTEN
    header = {FORM_HEADER: str(world.tenant.pk)}
    homeless = Client(headers=header)
    homeless.force_login(User.objects.create_superuser("homeless"))
    neighbour = staff(make_tenant(), Role.ADMIN)
    for person in (Client(headers=header), homeless, neighbour, staff(world.tenant, Role.VIEWER)):
        assert written_by(person, sent) == set()
    by_operator = written_by(staff(world.tenant, Role.OPERATOR), sent)
    assert by_operator >= {"tool-edit", "source-settings", "admin:tools_tool_change"}
    assert set(filter(is_of_admins, by_operator)) == set()


def test_a_check_of_rights_that_is_missing_is_noticed_SEC_4(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, viewer = f"/tools/{world.tool.pk}/edit/", staff(world.tenant, Role.VIEWER)
    html = staff(world.tenant, Role.ADMIN).get(path).content.decode()
    sent = {"tool-edit": [filled(form, world) for form in forms_of(html, path) if form.address == path]}
    assert written_by(viewer, sent) == set()
    monkeypatch.setattr(Role, "at_least", lambda role, wanted: True)
    assert written_by(viewer, sent) == {"tool-edit"}
