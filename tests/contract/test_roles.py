"""API-3: what docs/api.md says of roles and scopes is what every page and every operation of the API does."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from django.test import Client

from portal.settings import BASE_DIR
from portal.tenancy.models import Role, Tenant
from tests.support.api import MATRIX, UNKNOWN_ID
from tests.support.clients import join, make_client, sign_in
from tests.support.waits import own_transactions
from tests.support.world import NOT_OF_A_THING, Route, World, build_world, foreign_and_unknown, routes
from tools.api.urls import urlpatterns

DOCUMENT: Path = BASE_DIR / "docs" / "api.md"
ANYBODY, NOBODY = "anybody", "no"
_PARAMETER = re.compile(r"<\w+:(\w+)>")


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading by their first cell, which is code."""
    section = DOCUMENT.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    assert rows, heading
    return {row[0].strip("`"): row[1:] for row in rows}


def pages() -> Iterator[Route]:
    """Every page of the portal but Django's admin, which tests/tools/admin/test_admin.py knows."""
    for route in routes():
        if route.name and not route.pattern.startswith(("admin/", "api/", "static/")):
            yield route


def _braces(found: re.Match[str]) -> str:
    return "{" + found[1] + "}"


def written(route: Route) -> str:
    return "/" + _PARAMETER.sub(_braces, route.pattern)


def is_open(client: Client, method: str, path: str) -> bool | None:
    """Whether a visitor gets past the access check; None where there is none. Takes back what the request has done."""
    cookies = copy.deepcopy(client.cookies)  # a way out that is tried ends the session
    with transaction.atomic(), own_transactions():
        answer = getattr(client, method)(path)
        transaction.set_rollback(True)
    client.cookies = cookies
    if answer.status_code == 405:
        return None
    return answer.status_code != 403 and not answer.get("Location", "").startswith("/login/?")


def needed(clients: dict[str, Client], method: str, path: str) -> str:
    """The lowest role that a page is open to; the roles above it get in as well."""
    found = {who: is_open(client, method, path) for who, client in clients.items()}
    if None in found.values():
        assert set(found.values()) == {None}, (method, path, found)
        return NOBODY
    assert list(found.values()) == sorted(found.values(), key=bool), (method, path, found)
    return next(who for who, opened in found.items() if opened)


def visitors(world: World) -> dict[str, Client]:
    """One of each, who may more and more."""
    user = get_user_model().objects.create_superuser("superuser")
    join(world.tenant, user, Role.ADMIN)
    superuser = sign_in(world.tenant, user)
    roles = {role: make_client(world.tenant, role) for role in Role.values}
    return {ANYBODY: Client(), **roles, "superuser": superuser}


@pytest.fixture
def world(tenant: Tenant, settings: Any) -> World:
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.HashEmbedder"
    return build_world(tenant)


def test_api_3_every_page_is_open_to_the_roles_that_the_table_says(world: World) -> None:
    said, clients, found = table("Roles and pages"), visitors(world), {}
    for route in pages():
        path = NOT_OF_A_THING.get(route.pattern)
        if path is None:
            path = route.path(foreign_and_unknown(route, world)[0][0] if route.parameters else {})
        found[written(route)] = [needed(clients, method, path) for method in ("get", "post")]
    assert found == {page: row[:2] for page, row in said.items()}


def test_api_3_an_entry_point_that_is_opened_wider_is_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = visitors(world)
    address = f"/sources/{world.source.pk}/delete/"
    assert needed(clients, "post", address) == "admin"
    monkeypatch.setattr(Role, "at_least", lambda role, wanted: True)
    assert needed(clients, "post", address) == "viewer"


def test_api_3_every_operation_of_the_api_needs_the_scope_that_the_table_says() -> None:
    said = table("Scopes and operations")
    found = {}
    for pattern in urlpatterns:
        view: Any = pattern.callback.view_class  # type: ignore[union-attr]
        required = view.required_scope
        for method in ("GET", "POST", "PATCH", "DELETE"):
            if hasattr(view, method.lower()):
                scope = required[method] if isinstance(required, dict) else required
                found[f"{method} /{_PARAMETER.sub(_braces, str(pattern.pattern))}"] = scope or "any key"
    assert found == {operation: row[0] for operation, row in said.items()}
    assert set(said) == {f"{method.upper()} {path}" for method, path in _asked()}


def _asked() -> Iterator[tuple[str, str]]:
    """The operations whose scopes tests/portal/http/test_authentication.py asks with every key, as the table writes them."""
    for method, path in MATRIX:
        plain = path.partition("?")[0].removeprefix("/api/v1")
        plain = plain.replace("send_mail", "{ref}").replace(UNKNOWN_ID, "{ref}").replace("/shop", "/{slug}")
        yield method, plain.replace("/github", "/{slug}").replace("/description", "/{field}")
