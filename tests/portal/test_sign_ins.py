"""S16: who signed in, who failed to and who was throttled stands in an append-only table of each of their tenants."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import ProgrammingError, connection, transaction
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from portal.http.sign_ins import prune_sign_ins, record_sign_in
from portal.ops import tasks
from portal.tenancy.context import tenant_context
from portal.tenancy.middleware import FORM_HEADER, SESSION_KEY
from portal.tenancy.models import Membership, SignIn, SignInOutcome, Tenant
from tests.support.database import login

PASSWORD = "correct horse battery"


def person(*tenants: Tenant, **fields: Any) -> User:
    user = get_user_model().objects.create_user(f"p-{uuid.uuid4().hex[:8]}", password=PASSWORD, **fields)
    for tenant in tenants:
        with tenant_context(tenant.pk):
            Membership.objects.create(user=user, role="admin")
    return user


def send(page: str, user: str, password: str, number: str) -> int:
    form = {"username": user, "password": password, "next": "/"}
    answer = Client().post(reverse(page), form, headers={"X-Request-ID": number}, REMOTE_ADDR="192.0.2.7")
    return int(answer.status_code)


def recorded(tenant: Tenant) -> list[tuple[Any, ...]]:
    with tenant_context(tenant.pk):
        rows = SignIn.objects.order_by("at")
        return list(rows.values_list("username", "outcome", "address", "request_id"))


def test_every_form_records_success_and_failure_in_each_tenant_of_the_person_S16(
    db: None, make_tenant: Callable[..., Tenant]
) -> None:
    one, two, strange = make_tenant(), make_tenant(), make_tenant()
    user = person(one, two, is_staff=True)
    assert send("login", user.username, "wrong", "number-1") == 200
    assert send("login", user.username, PASSWORD, "number-2") == 302
    expected = [
        (user.username, "failed", "192.0.2.7", "number-1"),
        (user.username, "succeeded", "192.0.2.7", "number-2"),
    ]
    assert recorded(one) == sorted(recorded(two)) == expected
    assert recorded(strange) == []


def test_a_name_that_nobody_has_is_logged_and_not_repeated_S16(
    tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    person(tenant)
    with caplog.at_level(logging.INFO, "portal.http.sign_ins"):
        send("login", "my-password-in-the-wrong-field", "x", "number-3")
    assert [record.getMessage() for record in caplog.records if "Sign-in" in record.getMessage()] == [
        "Sign-in failed: unknown name from 192.0.2.7"
    ]
    assert "wrong-field" not in caplog.text
    assert recorded(tenant) == []


def test_of_throttled_attempts_one_a_minute_is_recorded_S16(
    tenant: Tenant, make_tenant: Callable[..., Tenant]
) -> None:
    user, other = person(tenant), person(tenant)
    request = RequestFactory().post("/login/", REMOTE_ADDR="192.0.2.7")
    for username in (user.username, user.username, other.username, user.username):
        record_sign_in(username, SignInOutcome.THROTTLED, request)
    assert sorted(row[0] for row in recorded(tenant)) == sorted([user.username, other.username])


def test_the_application_can_neither_change_nor_remove_a_sign_in_S16(tenant: Tenant) -> None:
    record_sign_in(person(tenant).username, SignInOutcome.FAILED, None)
    for statement in ("UPDATE tenancy_signin SET outcome = 'succeeded'", "DELETE FROM tenancy_signin"):
        with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
            connection.cursor().execute(statement)


def test_old_sign_ins_are_deleted_in_every_tenant_by_the_worker_alone_S16(
    committed: Tenant,
    make_tenant: Callable[..., Tenant],
    admin_database: psycopg.Connection[Any],
    settings: Any,
) -> None:
    other = make_tenant()
    for days in (401, 399, 31, 29):
        for one in (committed, other):
            admin_database.execute(
                "INSERT INTO tenancy_signin (id, tenant_id, at, username, outcome, request_id) "
                "VALUES (gen_random_uuid(), %s, now() - make_interval(days => %s), %s, 'failed', '')",
                [one.pk, days, str(days)],
            )

    def left() -> list[str]:
        return [row[0] for one in (committed, other) for row in recorded(one)]

    with login("DATABASE_WORKER_URL"):
        assert prune_sign_ins() == 2
    assert left() == ["399", "31", "29"] * 2
    # Not even the worker deletes younger ones, or reads who it was.
    settings.SIGN_INS_KEPT_DAYS = 0
    with login("DATABASE_WORKER_URL"):
        assert prune_sign_ins() == 4
        for statement in ("SELECT username FROM tenancy_signin", "UPDATE tenancy_signin SET at = now()"):
            with pytest.raises(ProgrammingError, match="permission denied"), tenant_context(committed.pk):
                connection.cursor().execute(statement)
    assert left() == ["29"] * 2


def test_beat_prunes_sign_ins_daily_S16(settings: Any) -> None:
    plan = settings.CELERY_BEAT_SCHEDULE["prune-sign-ins"]
    assert (plan["task"], plan["schedule"]) == (tasks.prune_sign_ins.name, 86_400)


def test_a_sign_in_asks_once_where_the_person_is_a_member_S21(tenant: Tenant) -> None:
    user = person(tenant)
    client = Client()
    with CaptureQueriesContext(connection) as asked:
        client.post(reverse("login"), {"username": user.username, "password": PASSWORD})
    assert client.session[SESSION_KEY] == str(tenant.pk)
    assert sum("portal_memberships" in query["sql"] for query in asked.captured_queries) == 1


def test_the_admin_shows_sign_ins_and_changes_of_access_with_their_requests_to_admins_S16(
    tenant: Tenant,
) -> None:
    user = person(tenant, is_staff=True, is_superuser=True)
    client = Client()
    client.post(
        reverse("login"),
        {"username": user.username, "password": PASSWORD},
        headers={"X-Request-ID": "number-4"},
    )
    page = client.get(reverse("admin:tenancy_signin_changelist")).content.decode()
    assert user.username in page
    assert "number-4" in page
    row = Membership.objects.get(user=person(tenant))
    change = reverse("admin:tenancy_membership_change", args=[row.pk])
    made_for = {FORM_HEADER: str(tenant.pk), "X-Request-ID": "number-5"}
    client.post(change, {"role": "operator"}, headers=made_for)
    assert "number-5" in client.get(reverse("admin:tenancy_membershipevent_changelist")).content.decode()
    assert client.get(reverse("admin:tenancy_signin_add")).status_code == 403
    Membership.objects.filter(user=user).update(role="operator")
    assert client.get(reverse("admin:tenancy_signin_changelist")).status_code == 403
