"""CAT-8: who may do what has a history of its own, with author and request, and without the secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import ProgrammingError, connection, transaction
from django.urls import reverse

from portal.http.history_context import history_context
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key, find_caller, note_use
from portal.tenancy.models import ApiKey, Membership, Tenant
from tests.support.clients import join, sign_in

TABLES = ("tenancy_apikeyevent", "tenancy_membershipevent")


def events(model: type[Any]) -> list[tuple[str, Any]]:
    rows = apps.get_model("tenancy", f"{model.__name__}Event").objects.order_by("pgh_id")
    return [(row.pgh_label, (row.pgh_context or {}).get("actor")) for row in rows]


def test_CAT_8_a_key_is_recorded_when_it_is_made_and_revoked_and_not_when_it_is_used(tenant: Tenant) -> None:
    with history_context("ada"):
        row, secret = create_api_key(name="ci", scopes=["tools:read"])
    caller = find_caller(secret)
    assert caller is not None
    note_use(caller)
    row.refresh_from_db()
    assert row.last_used_at is not None
    with history_context("bob"):
        ApiKey.objects.filter(pk=row.pk).update(revoked_at=row.created_at)
    assert events(ApiKey) == [("insert", "ada"), ("update", "bob")]


def test_an_event_of_a_key_holds_no_digest(admin_database: psycopg.Connection[Any]) -> None:
    columns = admin_database.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'tenancy_apikeyevent'"
    ).fetchall()
    names = {name for (name,) in columns}
    assert "scopes" in names
    assert names.isdisjoint({"digest", "last_used_at"})


def test_the_command_names_itself_as_the_author(tenant: Tenant) -> None:
    call_command("create_api_key", "ci", "--scope", "tools:read", "--tenant", tenant.slug)
    assert events(ApiKey) == [("insert", "manage.py create_api_key")]


def test_CAT_8_the_admin_names_author_and_request_of_a_changed_membership(tenant: Tenant) -> None:
    root = get_user_model().objects.create_superuser("root", password=None)
    join(tenant, root, "admin")
    olga = get_user_model().objects.create_user("olga", password=None)
    join(tenant, olga, "viewer")
    answer = sign_in(tenant, root).post(
        reverse("admin:tenancy_membership_change", args=[Membership.objects.get(user=olga).pk]),
        {"role": "operator"},
        headers={"X-Request-ID": "number-7"},
    )
    assert answer.status_code == 302
    row = apps.get_model("tenancy", "MembershipEvent").objects.filter(user_id=olga.pk).latest("pgh_id")
    assert (row.pgh_label, row.role, row.pgh_context["actor"], row.pgh_context["request"]) == (
        "update",
        "operator",
        "root",
        "number-7",
    )


@pytest.mark.parametrize("table", TABLES)
def test_SEC_1_events_are_seen_in_their_tenant_only_and_can_only_be_added(
    tenant: Tenant, make_tenant: Callable[..., Tenant], table: str
) -> None:
    create_api_key(name="ci", scopes=["tools:read"])
    Membership.objects.create(user=get_user_model().objects.create_user("olga"), role="viewer")
    count = f"SELECT count(*) FROM {table}"
    with connection.cursor() as cursor:
        cursor.execute(count)
        assert cursor.fetchone() == (1,)
    with tenant_context(make_tenant().pk), connection.cursor() as cursor:
        cursor.execute(count)
        assert cursor.fetchone() == (0,)
    for statement in (f"UPDATE {table} SET pgh_label = 'x'", f"DELETE FROM {table}"):
        with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
            connection.cursor().execute(statement)
