"""S6: a key expires, and is rotated before: a new secret, beside which the old one works for a bounded while."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from manage import role_of
from portal.tenancy.keys import create_api_key, find_caller, rotate_api_key
from portal.tenancy.models import ApiKey, Membership, Tenant
from tests.support.clients import sign_in

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def new_key(**options: Any) -> tuple[ApiKey, str]:
    return create_api_key(name="ci", scopes=["search:read"], **options)


def lies_ahead(moment: Any, distance: timedelta) -> bool:
    return bool(abs(moment - timezone.now() - distance) < timedelta(minutes=1))


def test_a_key_expires_after_90_days_unless_another_time_is_given_S6(tenant: Tenant) -> None:
    row, secret = new_key()
    assert lies_ahead(row.expires_at, 90 * DAY)
    assert find_caller(secret) is not None
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert find_caller(secret) is None


def test_no_key_is_made_or_rotated_for_more_than_365_days_S6(tenant: Tenant) -> None:
    row, _ = new_key(expires_in=365 * DAY)
    for refused in (
        lambda: create_api_key(name="long", scopes=["search:read"], expires_in=365 * DAY + HOUR),
        lambda: rotate_api_key(name="ci", expires_in=365 * DAY + HOUR),
    ):
        with pytest.raises(ValidationError, match="A key expires after 365 days at most"):
            refused()
    with pytest.raises(IntegrityError, match="expires_at"), transaction.atomic():
        ApiKey.objects.filter(pk=row.pk).update(expires_at=None)


def test_the_answer_to_an_expired_key_says_so_in_plain_words_S6(tenant: Tenant) -> None:
    _, secret = new_key(expires_in=timedelta(seconds=-1))
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    answer = client.get("/api/v1/me")
    assert answer.status_code == 401
    assert "mistyped, expired or revoked" in answer.json()["detail"]


def test_both_secrets_of_a_rotated_key_work_until_the_overlap_ends_S6(tenant: Tenant) -> None:
    row, old = new_key(expires_in=30 * DAY)
    rotated, new = rotate_api_key(name="ci", overlap=2 * HOUR)
    assert rotated.pk == row.pk
    assert lies_ahead(rotated.expires_at, 90 * DAY)
    assert lies_ahead(rotated.previous_expires_at, 2 * HOUR)
    found = [find_caller(secret) for secret in (old, new)]
    assert [one and one.key_id for one in found] == [row.pk, row.pk]
    ApiKey.objects.update(previous_expires_at=timezone.now() - timedelta(seconds=1))
    assert find_caller(old) is None
    assert find_caller(new) is not None


def test_a_rotation_ends_the_secret_before_the_previous_one_S6(tenant: Tenant) -> None:
    _, first = new_key()
    _, second = rotate_api_key(name="ci")
    rotate_api_key(name="ci")
    assert find_caller(first) is None
    assert find_caller(second) is not None


def test_the_old_secret_never_works_for_longer_than_24_hours_or_than_it_would_have_S6(tenant: Tenant) -> None:
    with pytest.raises(ValidationError, match="24 more hours at most"):
        _, old = new_key(expires_in=HOUR)
        rotate_api_key(name="ci", overlap=25 * HOUR)
    row, _ = rotate_api_key(name="ci")
    assert row.previous_expires_at is not None
    assert lies_ahead(row.previous_expires_at, HOUR)
    ApiKey.objects.update(expires_at=timezone.now() - HOUR)
    expired = ApiKey.objects.get()
    row, new = rotate_api_key(name="ci", overlap=timedelta(0))
    assert find_caller(old) is None
    assert find_caller(new) is not None
    assert row.previous_expires_at == expired.expires_at


def test_a_revoked_key_is_not_rotated_and_its_secrets_both_end_S6(tenant: Tenant) -> None:
    _, old = new_key()
    _, new = rotate_api_key(name="ci")
    ApiKey.objects.update(revoked_at=timezone.now())
    assert [find_caller(secret) for secret in (old, new)] == [None, None]
    with pytest.raises(ValidationError, match="was revoked"):
        rotate_api_key(name="ci")


def test_the_command_rotates_as_the_owner_and_prints_the_secret_once_S6(
    tenant: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    assert role_of("rotate_api_key") == "admin"
    new_key()
    command = ("rotate_api_key", "ci", "--tenant", tenant.slug)
    call_command(*command, "--expires-in-days", "7", "--overlap-hours", "1", "--json")
    made = json.loads(capsys.readouterr().out)
    assert find_caller(made["api_key"]) is not None
    assert lies_ahead(datetime.fromisoformat(made["expires_at"]), 7 * DAY)
    assert lies_ahead(datetime.fromisoformat(made["previous_expires_at"]), HOUR)
    with pytest.raises(SystemExit):
        call_command("rotate_api_key", "nobody", "--tenant", tenant.slug)
    assert "There is no key 'nobody'" in capsys.readouterr().err


def test_the_command_revokes_a_key_with_both_its_secrets_at_once_and_the_history_names_it_S6(
    tenant: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    assert role_of("revoke_api_key") == "admin"
    row, old = new_key()
    _, new = rotate_api_key(name="ci")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {new}")
    assert client.get("/api/v1/me").status_code == 200
    call_command("revoke_api_key", "ci", "--tenant", tenant.slug, "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], told["tenant"]) == ("ci", tenant.slug)
    assert lies_ahead(datetime.fromisoformat(told["revoked_at"]), timedelta(0))
    assert client.get("/api/v1/me").status_code == 401
    assert [find_caller(secret) for secret in (old, new)] == [None, None]
    events = apps.get_model("tenancy", "ApiKeyEvent").objects.filter(pgh_obj_id=row.pk)
    assert events.latest("pgh_id").pgh_context == {"actor": "manage.py revoke_api_key"}
    before = (events.count(), ApiKey.objects.get().revoked_at)
    call_command("revoke_api_key", "ci", "--tenant", tenant.slug)
    assert "no longer works" in capsys.readouterr().out
    assert (events.count(), ApiKey.objects.get().revoked_at) == before
    with pytest.raises(SystemExit, match="3"):
        call_command("revoke_api_key", "nobody", "--tenant", tenant.slug)
    assert "There is no key 'nobody'" in capsys.readouterr().err


def test_the_admin_rotates_one_key_at_a_time_and_the_history_names_who_S6(
    tenant: Tenant, make_tenant: Callable[..., Tenant]
) -> None:
    root = get_user_model().objects.create_superuser("root", password=None)
    Membership.objects.create(user=root, role="admin")
    client = sign_in(tenant, root)
    row, old = new_key()
    other, _ = create_api_key(name="other", scopes=["search:read"])
    address = reverse("admin:tenancy_apikey_changelist")
    refused = client.post(address, {"action": "rotate", "_selected_action": [row.pk, other.pk]}, follow=True)
    assert "Select one key" in refused.content.decode()
    answer = client.post(
        address, {"action": "rotate", "_selected_action": [row.pk]}, headers={"X-Request-ID": "number-7"}
    )
    found = re.search(r"tp_[0-9A-Za-z]{49}", answer.content.decode())
    assert found
    assert found[0] != old
    assert find_caller(found[0]) is not None
    assert "no-store" in answer["Cache-Control"]
    event = apps.get_model("tenancy", "ApiKeyEvent").objects.latest("pgh_id")
    assert (event.pgh_label, event.prefix, event.pgh_context) == (
        "update",
        found[0][:8],
        {"actor": "root", "request": "number-7"},
    )
    assert ApiKey.objects.filter(name="other", previous_expires_at=None).exists()


def test_an_upgrade_gives_keys_without_an_expiry_90_days_and_no_key_more_than_365_S6(
    admin_database: psycopg.Connection[Any], make_tenant: Callable[..., Tenant]
) -> None:
    migration = importlib.import_module("portal.tenancy.migrations.0008_keys_expire_and_rotate")
    tenant = make_tenant()
    with admin_database.transaction(force_rollback=True):
        admin_database.execute("ALTER TABLE tenancy_apikey ALTER expires_at DROP NOT NULL")
        for name, expiry in (
            ("never", "NULL"),
            ("late", "now() + interval '10 years'"),
            ("soon", "now() + interval '5 days'"),
        ):
            admin_database.execute(
                "INSERT INTO tenancy_apikey (id, tenant_id, name, prefix, digest, scopes, max_sensitivity, created_at, expires_at) "
                f"VALUES (gen_random_uuid(), %s, %s, 'tp_', sha256(%s), '{{}}', 'public', now(), {expiry})",
                [tenant.pk, name, name.encode()],
            )
        admin_database.execute(migration.GIVE_KEYS_AN_EXPIRY)
        days = admin_database.execute(
            "SELECT name, extract(day FROM expires_at - now())::int FROM tenancy_apikey WHERE tenant_id = %s",
            [tenant.pk],
        ).fetchall()
        authors = admin_database.execute(
            "SELECT name, pgh_context->>'actor' FROM tenancy_apikeyevent WHERE tenant_id = %s AND pgh_label = 'update'",
            [tenant.pk],
        ).fetchall()
    assert dict(days) == {"never": 90, "late": 365, "soon": 5}
    assert sorted(authors) == [("late", "upgrade"), ("never", "upgrade")]


def test_the_admin_makes_keys_for_90_days_and_refuses_more_than_365_S6(tenant: Tenant) -> None:
    root = get_user_model().objects.create_superuser("root", password=None)
    Membership.objects.create(user=root, role="admin")
    client = sign_in(tenant, root)
    form = {"name": "ci", "scopes": ["search:read"], "max_sensitivity": "internal"}
    address = reverse("admin:tenancy_apikey_add")
    late = timezone.now() + 366 * DAY
    too_late = {"expires_at_0": f"{late:%Y-%m-%d}", "expires_at_1": f"{late:%H:%M:%S}"}
    assert "A key expires after 365 days at most." in client.post(address, form | too_late).content.decode()
    assert "It expires on" in client.post(address, form).content.decode()
    assert lies_ahead(ApiKey.objects.get().expires_at, 90 * DAY)
