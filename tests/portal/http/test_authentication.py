"""API-3, S6: what a key is, what it opens, and that one that does not work tells nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from portal.tenancy import keys
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key, digest, generate, well_formed
from portal.tenancy.models import ApiKey, Scope, Sensitivity, Tenant
from tests.support.api import MATRIX, UNKNOWN_ID
from tests.support.clients import make_api
from tools.models import Tool


def new_key(tenant: Tenant, *scopes: str, **options: Any) -> tuple[ApiKey, str]:
    with tenant_context(tenant.pk):
        return create_api_key(name=generate()[-12:], scopes=scopes or Scope.values, **options)


def ask(header: str | None) -> Any:
    client = APIClient()
    if header is not None:
        client.credentials(HTTP_AUTHORIZATION=header)
    return client.get("/api/v1/me")


def without_request_id(response: Any) -> dict[str, Any]:
    body = json.loads(response.content)
    body.pop("request_id")
    return dict(body)


def test_s6_a_key_has_256_random_bits_and_a_checksum() -> None:
    made = {generate() for _ in range(200)}
    assert len(made) == 200
    assert all(well_formed(key) and len(key) == 52 for key in made)
    one = made.pop()
    for place in range(3, len(one)):
        other = "A" if one[place] != "A" else "B"
        assert not well_formed(one[:place] + other + one[place + 1 :])


def test_api_3_every_key_that_does_not_work_gets_the_same_401(owner: Tenant, make_tenant: Any) -> None:
    row, good = new_key(owner)
    revoked_row, revoked = new_key(owner)
    _, expired = new_key(owner, expires_in=timedelta(seconds=-1))
    _, deleted = new_key(make_tenant())
    with tenant_context(owner.pk):
        ApiKey.objects.filter(pk=revoked_row.pk).update(revoked_at=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert ask(f"Bearer {good}").status_code == 200
    unknown = generate()
    bodies = {
        header: ask(header)
        for header in (
            None, "", "Bearer", "Bearer ", "Bearer  ", "bearer", "Basic dXNlcjpwYXNz", f"Basic {good}", f"Token {good}", good,
            f"Bearer{good}", f"Bearer:{good}", f"Bearer {good}x", f"Bearer x{good}", f"Bearer {good[:-1]}", f"Bearer {good} {good}",
            f"Bearer {good.lower()}", f"Bearer {good.upper()}", f"Bearer {good[:-1]}é", f"Bearer {good}\x00",
            f"Bearer {revoked}", f"Bearer {expired}", f"Bearer {unknown}", f"Bearer {row.pk}", f"Bearer {row.prefix}",
            f"Bearer {row.digest.hex()}", "Bearer tp_", "Bearer null", "Bearer " + "A" * 5000, "Bearer ' OR 1=1 --",
            f"Bearer {deleted[:-6]}000000",
        )
    }  # fmt: skip
    assert len(bodies) >= 25
    expected = without_request_id(bodies[None])
    assert expected["title"] == "authentication_failed"
    for header, response in bodies.items():
        assert response.status_code == 401, header
        assert without_request_id(response) == expected, header
        assert response["WWW-Authenticate"].startswith("Bearer")
        assert response["Content-Type"] == "application/problem+json"


def test_api_3_a_revoked_key_ends_at_once(owner: Tenant) -> None:
    row, key = new_key(owner)
    assert ask(f"Bearer {key}").status_code == 200
    with tenant_context(owner.pk):
        ApiKey.objects.filter(pk=row.pk).update(revoked_at=timezone.now())
    assert ask(f"Bearer {key}").status_code == 401


def test_s6_only_the_digest_is_stored(owner: Tenant, admin_database: Any) -> None:
    row, key = new_key(owner)
    with tenant_context(owner.pk), connection.cursor() as cursor:
        cursor.execute("SELECT digest, tenancy_apikey::text FROM tenancy_apikey WHERE id = %s", [row.pk])
        (stored, whole) = cursor.fetchall()[0]
    assert bytes(stored) == digest(key)
    assert key not in whole
    assert row.prefix == key[:8]


def test_s6_last_use_is_written_at_most_once_a_minute(owner: Tenant) -> None:
    row, key = new_key(owner)

    def last_used() -> Any:
        with tenant_context(owner.pk):
            return ApiKey.objects.values_list("last_used_at", flat=True).get(pk=row.pk)

    assert last_used() is None
    ask(f"Bearer {key}")
    first = last_used()
    assert first is not None
    ask(f"Bearer {key}")
    assert last_used() == first
    with tenant_context(owner.pk):
        ApiKey.objects.filter(pk=row.pk).update(last_used_at=first - timedelta(seconds=61))
    ask(f"Bearer {key}")
    assert last_used() > first - timedelta(seconds=1)


def test_s6_a_key_that_somebody_edits_still_opens_at_once(committed: Tenant, admin_database: Any) -> None:
    row, key = new_key(committed)
    with admin_database.transaction():
        admin_database.execute("SELECT 1 FROM tenancy_apikey WHERE id = %s FOR UPDATE", [row.pk])
        assert ask(f"Bearer {key}").status_code == 200


def test_s6_an_old_note_of_use_overwrites_no_newer_one(owner: Tenant) -> None:
    row, key = new_key(owner)
    caller = keys.find_caller(key)
    assert caller is not None
    assert caller.use_is_stale
    with tenant_context(owner.pk):
        keys.note_use(caller)
        first = ApiKey.objects.get(pk=row.pk).last_used_at
        keys.note_use(caller)  # a second request that authenticated at the same moment
        assert ApiKey.objects.get(pk=row.pk).last_used_at == first


SEEN = {"If-Match": '"v1"'}


def test_api_3_the_matrix_of_scopes_names_every_route() -> None:
    from tools.api.urls import urlpatterns

    for pattern in urlpatterns:
        view = pattern.callback.view_class  # type: ignore[union-attr]
        written = str(pattern.pattern)
        route = "/api/v1/" + (
            written.replace("<str:ref>", "send_mail" if written.startswith("tools") else UNKNOWN_ID)
            .replace("<str:slug>", "shop" if written.startswith("sources") else "github")
            .replace("<str:field>", "description")
        )
        for method in ("get", "post", "put", "patch", "delete"):
            if hasattr(view, method):
                assert any((method, route) == (m, path.partition("?")[0]) for m, path in MATRIX), (
                    method,
                    route,
                )


@pytest.mark.parametrize("held", [*Scope.values])
def test_api_3_a_scope_opens_its_own_routes_and_no_others(
    owner: Tenant, tool_of: Callable[..., Tool], held: str
) -> None:
    tool_of("send_mail")
    client = make_api(owner, held)
    for (method, path), needed in MATRIX.items():
        response = getattr(client, method)(path)
        if needed is None or held in (needed, Scope.ADMIN):
            assert response.status_code not in (401, 403), (held, method, path)
        else:
            assert response.status_code == 403, (held, method, path)
            assert needed in response.json()["detail"]


@pytest.mark.parametrize("path", ["/api/v1/tools", "/api/v1/tools/send_mail", "/api/v1/sources"])
def test_api_3_head_needs_the_scope_of_get_and_unknown_methods_are_405(
    owner: Tenant, tool_of: Callable[..., Tool], path: str
) -> None:
    tool_of("send_mail")
    assert make_api(owner, Scope.TOOLS_READ).head(path).status_code == 200
    assert make_api(owner, Scope.SEARCH_READ).head(path).status_code == 403
    for method in ("put", "options"):
        assert getattr(make_api(owner), method)(path).status_code == 405
    # A view's other attributes are no methods of HTTP.
    for name in ("CALLER", "RIGHTS", "DISPATCH", "REQUIRED_SCOPE", "_IN_TENANT"):
        assert make_api(owner).generic(name, path).status_code == 405


@pytest.mark.parametrize("highest", Sensitivity.values)
def test_api_3_a_key_sees_tools_up_to_its_sensitivity(
    owner: Tenant, tool_of: Callable[..., Tool], highest: str
) -> None:
    for level in Sensitivity.values:
        tool_of(f"mail_{level}", sensitivity=level)
    client = make_api(owner, max_sensitivity=highest)
    allowed = {f"mail_{level}" for level in Sensitivity.up_to(highest)}
    assert {tool["tool_id"] for tool in client.get("/api/v1/tools").json()["results"]} == allowed
    for level in Sensitivity.values:
        expected = 200 if f"mail_{level}" in allowed else 404
        assert client.get(f"/api/v1/tools/mail_{level}").status_code == expected
        assert client.get(f"/api/v1/tools/mail_{level}/embedding").status_code == expected
        assert (
            client.patch(f"/api/v1/tools/mail_{level}", {}, format="json", headers=SEEN).status_code
            == expected
        )


@pytest.mark.parametrize("highest", Sensitivity.values)
def test_api_3_search_shows_tools_up_to_the_keys_sensitivity(
    owner: Tenant, tool_of: Callable[..., Tool], highest: str
) -> None:
    for level in Sensitivity.values:
        tool_of(f"mail_{level}", sensitivity=level)
    client = make_api(owner, max_sensitivity=highest)
    for filters in ({}, {"sensitivity": Sensitivity.values}):
        answer = client.post("/api/v1/tools/search", {"query": "mail", **filters}, format="json").json()
        found = {result["tool"]["tool_id"] for result in answer["results"]}
        assert found == {f"mail_{level}" for level in Sensitivity.up_to(highest)}


def test_cat_1_unlisted_and_private_tools_are_shown_to_those_who_may_edit(
    owner: Tenant, tool_of: Callable[..., Tool]
) -> None:
    for visibility in ("public", "unlisted", "private"):
        tool_of(f"mail_{visibility}", visibility=visibility)
    reader, editor = make_api(owner, Scope.TOOLS_READ), make_api(owner, Scope.TOOLS_READ, Scope.TOOLS_WRITE)

    def listed(client: APIClient) -> set[str]:
        return {tool["tool_id"] for tool in client.get("/api/v1/tools").json()["results"]}

    assert listed(reader) == {"mail_public"}
    assert listed(editor) == {"mail_public", "mail_unlisted", "mail_private"}
    assert reader.get("/api/v1/tools/mail_unlisted").status_code == 200
    assert reader.get("/api/v1/tools/mail_private").status_code == 404
    assert editor.get("/api/v1/tools/mail_private").status_code == 200
