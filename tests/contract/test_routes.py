"""SEC-1, S1, S2: another tenant's member and key, on every route and method there is, see nothing of the first tenant."""

from __future__ import annotations

import difflib
import json
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, models

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant, TenantManager
from tests.support.imports.syncs import fingerprints
from tests.support.world import (
    METHODS,
    NOT_OF_A_THING,
    QUESTIONS,
    RARE_WORD,
    Route,
    World,
    build_world,
    foreign_and_unknown,
    plain_paths,
    routes,
    text_of,
    without,
)
from tools.models import Source, Tool

# People belong to no tenant, so their pages are closed to the staff of tenants instead (403, whoever is asked for).
OF_NO_TENANT = {User, Group}


@pytest.fixture(autouse=True)
def hash_embedder(settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.HashEmbedder"


@pytest.fixture
def first(committed: Tenant) -> World:
    return build_world(committed)


@pytest.fixture
def second(first: World, make_tenant: Callable[..., Tenant]) -> World:
    return build_world(make_tenant())


def client_for(path: str, world: World) -> Any:
    return world.api if path.startswith("/api/") else world.member


def ask(world: World, method: str, path: str, **extra: Any) -> Any:
    client = client_for(path, world)
    client.raise_request_exception = False
    if path.partition("?")[0] == "/api/v1/sources":
        return getattr(client, method)(path, **extra)  # a form, not JSON
    if path.startswith("/api/"):
        options = (
            {} if method in ("get", "head") else {"data": {"name": "x", "query": RARE_WORD}, "format": "json"}
        )
        if method == "patch":
            options["data"] = {"description": "mine now"}
        return getattr(client, method)(path, headers={"If-Match": '"v1"'}, **options, **extra)
    data = {
        "version": "1",
        "expected_version": "1",
        "description": "mine now",
        "name": "mine",
        "post": "yes",
        "confirm": "yes",
    }
    response = getattr(client, method)(path, **({"data": data} if method == "post" else {}), **extra)
    if response.status_code == 302:
        # What would be said on the next page names this one's thing.
        session = client.session
        session.pop("_messages", None)
        session.save()
    return response


def comparable(response: Any, values: dict[str, str]) -> str:
    """The answer without what differs between any two requests: its id, its CSRF token, and the thing that was named."""
    text = re.sub(r"\b[0-9a-f]{32}\b|\b[A-Za-z0-9]{64}\b", "RANDOM", text_of(response))
    for value in sorted(values.values(), key=len, reverse=True):
        # A number is looked for where it names something; it may stand for anything else elsewhere.
        text = re.sub(
            rf"(?<=[/“]){re.escape(value)}(?=[/”?])" if value.isdigit() else re.escape(value), "THING", text
        )
    return re.sub(r"(?im)^(Server-Timing|Content-Length|Set-Cookie|Date|Expires|X-Request-ID):.*$", "", text)


def leaks_in_lists(first: World, second: World) -> tuple[list[str], int]:
    """Where the second tenant saw the first one's canary; and in how many answers the first one saw it."""
    leaks, own = [], 0
    for path in plain_paths():
        for question in ("", *QUESTIONS.get(path, ())):
            variants: list[dict[str, Any]] = [{}]
            if not path.startswith(("/api/", "/admin/")):
                variants.append({"headers": {"HX-Request": "true"}})
            for extra in variants:
                text = text_of(ask(second, "get", path + question, **extra))
                if first.canary in text:
                    leaks.append(f"GET {path}{question}")
                if text.startswith("500"):
                    leaks.append(f"GET {path}{question} failed")
        own += first.canary in text_of(ask(first, "get", path + (QUESTIONS.get(path) or [""])[0]))
    for path in plain_paths():
        for method in ("post", "put", "patch", "delete"):
            text = text_of(ask(second, method, path))
            if first.canary in text:
                leaks.append(f"{method} {path}")
    return leaks, own


def leaks_by_address(first: World, second: World, methods: Sequence[str] = METHODS) -> tuple[list[str], int]:
    """Where the second tenant could tell the first one's thing from one that is not there."""
    wrong, asked = [], 0
    for route in routes():
        if not route.parameters or route.pattern in NOT_OF_A_THING:
            continue
        for foreign, unknown in foreign_and_unknown(route, first):
            for method in methods:
                one, other = (ask(second, method, route.path(values)) for values in (foreign, unknown))
                asked += 1
                where = f"{method} {route.path(foreign)}"
                if one.status_code not in allowed_statuses(route, one):
                    wrong.append(f"{where}: {one.status_code}")
                if first.canary in without(text_of(one), foreign):
                    wrong.append(f"{where}: shows the canary")
                pair = comparable(one, foreign), comparable(other, unknown)
                if pair[0] != pair[1] and route.model not in OF_NO_TENANT:
                    lines = difflib.unified_diff(
                        pair[0].splitlines(), pair[1].splitlines(), "foreign", "unknown", n=0
                    )
                    wrong.append(f"{where}: " + "\n".join(lines))
    return wrong, asked


def allowed_statuses(route: Route, response: Any) -> set[int]:
    if route.pattern.startswith("admin/"):
        # Django's admin sends the visitor of nothing home with a message, and shows tenants' admins no users.
        return {302, 403, 404, 405}
    return {404, 405}


def test_s1_every_route_with_a_parameter_is_in_the_matrix(first: World) -> None:
    unexplained = []
    for route in routes():
        if route.parameters and route.pattern not in NOT_OF_A_THING:
            try:
                assert foreign_and_unknown(route, first)
            except (KeyError, StopIteration):
                unexplained.append(route.pattern)
    assert unexplained == [], "say in tests/support/world.py what addresses a thing there"


def test_s1_a_route_that_the_matrix_does_not_know_is_noticed(first: World) -> None:
    for pattern in (
        "reports/<uuid:pk>/",
        "tools/<uuid:pk>/files/<str:name>/",
        "api/v1/tools/<str:ref>/versions/<int:number>",
    ):
        with pytest.raises((KeyError, StopIteration)):
            foreign_and_unknown(Route(pattern, ""), first)


def test_s1_no_list_page_or_search_shows_another_tenants_anything(first: World, second: World) -> None:
    leaks, own = leaks_in_lists(first, second)
    assert leaks == [], "\n".join(leaks)
    assert own >= 12, "the first tenant hardly sees its own canary, so the search for it proves nothing"


def test_s1_another_tenants_thing_answers_to_the_byte_like_one_that_is_not_there(
    first: World, second: World
) -> None:
    before = fingerprints(first.tenant)
    wrong, asked = leaks_by_address(first, second)
    assert wrong == [], "\n".join(wrong)
    assert asked > 300
    assert fingerprints(first.tenant) == before


def test_s1_below_ones_own_thing_another_tenants_one_is_not_found_either(first: World, second: World) -> None:
    nothing = {
        "ref": str(uuid.uuid4()),
        "sync": str(uuid.uuid4()),
        "document": str(uuid.uuid4()),
        "event": "987654321",
    }
    asked = 0
    for route in routes():
        inner = (
            route.parameters[-1]
            if len(route.parameters) > 1 and not route.pattern.startswith("admin/")
            else ""
        )
        if inner not in nothing:
            continue
        theirs = foreign_and_unknown(route, first)[0][0][inner]
        for own, _ in foreign_and_unknown(route, second):
            for method in METHODS:
                one, other = (
                    ask(second, method, route.path({**own, inner: ref})) for ref in (theirs, nothing[inner])
                )
                asked += 1
                assert one.status_code in {404, 405}, (route, method)
                assert comparable(one, {inner: theirs}) == comparable(other, {inner: nothing[inner]}), (
                    route,
                    method,
                )
    assert asked > 50


def test_s1_its_own_member_and_key_do_find_those_things(first: World) -> None:
    shown = 0
    for route in routes():
        if not route.parameters or not route.pattern.startswith(OF_THINGS):
            continue
        for known, _ in foreign_and_unknown(route, first):
            response = ask(first, "get", route.path(known))
            if response.status_code == 405:
                continue  # it is there to change things; tests/contract/test_roles.py asks it
            if response.status_code == 302:
                assert "/history/" in response["Location"], route  # there is nothing to bring back
                continue
            assert response.status_code == 200, (route, known)
            own = first.canary in without(text_of(response), known)
            assert own or route.pattern.endswith(("embedding/", "embedding", "overrides")), (route, known)
            shown += own
    assert shown >= 25


OF_THINGS = ("tools/", "sources/", "servers/", "jobs/", "api/v1/")


def test_s1_anonymous_visitors_and_members_of_nothing_see_nothing(first: World) -> None:
    from django.contrib.auth import get_user_model
    from django.test import Client
    from rest_framework.test import APIClient

    nobody = Client()
    nobody.force_login(get_user_model().objects.create_user(username="nobody"))
    for client in (Client(), nobody, APIClient()):
        client.raise_request_exception = False
        for path in plain_paths():
            for question in ("", *QUESTIONS.get(path, ())):
                assert first.canary not in text_of(client.get(path + question)), path
        for route in routes():
            if route.parameters and route.pattern not in NOT_OF_A_THING:
                for known, _ in foreign_and_unknown(route, first):
                    response = client.get(route.path(known))
                    assert response.status_code in (301, 302, 401, 403, 404, 405), route
                    assert first.canary not in without(text_of(response), known)


@pytest.fixture
def without_the_orms_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    def everything(self: TenantManager) -> Any:
        return models.Manager.get_queryset(self)

    monkeypatch.setattr(TenantManager, "get_queryset", everything)


@pytest.mark.usefixtures("without_the_orms_filter")
@pytest.mark.parametrize("methods", [("get",), pytest.param(("post", "patch"), marks=pytest.mark.slow)])
def test_s2_with_the_orms_filter_removed_the_database_still_gives_nothing(
    first: World, second: World, methods: tuple[str, ...]
) -> None:
    with tenant_context(second.tenant.pk):
        assert Tool.objects.count() == 2
        assert not Tool.objects.filter(pk=first.tool.pk).exists()
        assert Tool.objects.filter(pk=first.tool.pk).update(name="mine") == 0
        assert Source.objects.filter(pk=first.source.pk).delete()[0] == 0
    assert leaks_in_lists(first, second)[0] == []
    assert leaks_by_address(first, second, methods)[0] == []


def test_s2_that_removal_is_one(first: World, without_the_orms_filter: None) -> None:
    assert "tenant_id" not in str(Tool.objects.all().query.where)


def test_s2_raw_sql_sees_no_other_tenant(first: World, second: World, rows: Any) -> None:
    with tenant_context(second.tenant.pk):
        tables = rows(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' "
            "WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
        )
        assert len(tables) >= 11
        for (table,) in tables:
            assert rows(f"SELECT count(*) FROM {table} WHERE tenant_id <> %s", [second.tenant.pk]) == [(0,)]
            assert not any(first.canary in str(row) for row in rows(f"SELECT {table}::text FROM {table}")), (
                table
            )
            assert rows(f"SELECT count(*) > 0 FROM {table}") == [(True,)], (
                f"{table}: the world has no row of it"
            )


def test_s2_the_candidate_function_gives_nothing_across_tenants(
    first: World, second: World, rows: Any
) -> None:
    asked = f"SELECT id FROM search_candidates('tool', NULL, '{RARE_WORD}', 50)"
    with tenant_context(first.tenant.pk):
        own = {pk for (pk,) in rows(asked)}
    with tenant_context(second.tenant.pk):
        assert own
        assert own.isdisjoint({pk for (pk,) in rows(asked)})
        assert rows(f"SELECT id FROM search_candidates('tool', NULL, '{first.canary}', 50)") == []
        assert rows(
            f"SELECT id FROM search_candidates('tool', NULL, '{RARE_WORD}', 50, filters => %s)", [json.dumps({"names": [first.tool.tool_id]})]
        ) == []  # fmt: skip
        quoted = "x') UNION SELECT entity_id, 1, 'a', 1, 1, 1, 1 FROM tools_posting --"
        assert (
            rows(
                f"SELECT id FROM search_candidates('tool', NULL, '{RARE_WORD}', 50, filters => %s)",
                [json.dumps({"category": [quoted]})],
            )
            == []
        )
    connection.close()
    with pytest.raises(Exception, match=r"portal\.tenant|invalid input syntax for type uuid"):
        rows(asked)


def test_s2_vectors_are_searched_within_the_tenant(first: World, second: World, rows: Any) -> None:
    from tests.support.embeddings.providers import hash_vector
    from tools.models import ToolEmbedding

    vector = hash_vector("anything")
    for world in (first, second):
        with tenant_context(world.tenant.pk):
            ToolEmbedding.objects.update(vector=vector, vector_hash=models.F("source_hash"), status="ready")
    literal = "[" + ",".join(str(float(one)) for one in vector) + "]"
    for exact_limit in (10_000, 0):  # by their numbers, and by their signs first
        with tenant_context(second.tenant.pk):
            found = {
                pk
                for (pk,) in rows(
                    f"SELECT id FROM search_candidates('tool', '{literal}', '', 50, exact_limit => {exact_limit})"
                )
            }
            assert found == set(Tool.objects.values_list("pk", flat=True))
