"""Case 63: whatever stands in an address or in a way back, no page answers with "Something went wrong"."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.tenancy.models import Tenant
from tests.support.world import World, build_world, routes
from tools.catalogue.filters import ToolFilter

WEB = Path(__file__).resolve().parents[4] / "tools" / "web"
ODD = [
    "\0", "\0x", "tools", "😀", "//[", "/\n", "-1", "9" * 30, "1" * 5000, "٣", "٣" * 30, "null", "{}", "%", "%00", "../", "javascript:1",
    "\ufeff", "\u202e", "no", "all", "1", "0", "00000000-0000-0000-0000-000000000000",
]  # fmt: skip
NAMED = [
    "/overrides/?source=%00x", "/overrides/?who=%00", "/overrides/reset/?all=1&source=%00", "/overrides/reset/?next=tools",
    "/login/?next=%00", "/login/?next=/login/", "/login/?next=/login/%3Fnext%3D/login/", "/admin/tools/tool/?namespace=%00", "/admin/tools/tool/?q=%00", "/tools/?q=%00&source=%00&tag=%00",
]  # fmt: skip


def parameters() -> list[str]:
    """Every name that a page reads from its address."""
    found = set(ToolFilter.base_filters) | {
        "active",
        "n",
        "p",
        "id",
        "selected",
        "restore",
        "page",
        "rows",
        "next",
    }
    for module in WEB.rglob("*.py"):
        found |= set(
            re.findall(r"""(?:GET|query|given)\.(?:get|getlist)\(\s*"(\w+)\"""", module.read_text("utf-8"))
        )
    return sorted(found)


@pytest.fixture
def world(tenant: Tenant) -> World:
    return build_world(tenant)


def addresses(world: World) -> list[str]:
    """The path of every page, with this tenant's things."""
    paths = []
    for route in routes():
        if (
            route.pattern.startswith(("api/", "admin/", "metrics", "livez", "readyz"))
            or "<" in route.pattern.partition("/")[0]
        ):
            continue
        thing = {
            "tools": world.imported.pk,
            "sources": world.source.pk,
            "servers": world.server.pk,
            "jobs": world.job.pk,
        }
        values = {
            "pk": str(thing.get(route.pattern.partition("/")[0], "")), "sync": str(world.sync.pk), "name": "not_found",
            "document": str(world.sync.document_id), "event": world.first_event(world.imported),
        }  # fmt: skip
        paths.append(route.path(values))
    return paths


@pytest.mark.parametrize("address", NAMED)
def test_the_addresses_that_failed_for_others_are_pages_case_63(world: World, address: str) -> None:
    for client in (world.member, Client()):
        assert client.get(address).status_code in {200, 302, 400}


@pytest.mark.parametrize("odd", ["😀", "tools", "\0", "//[", "http://[", "9" * 30])
def test_no_way_back_is_a_fault_with_and_without_a_login_case_63(world: World, odd: str) -> None:
    for client in (world.member, Client()):
        for path in (
            "/theme/",
            "/login/",
            "/logout/",
            "/tenant/",
            "/tools/refresh-embeddings/",
            "/overrides/undo/",
        ):
            fields = {
                "next": odd,
                "theme": odd,
                "tenant": odd,
                "reset": odd,
                "username": odd,
                "password": odd,
            }
            assert client.post(path, fields).status_code < 500, path


def test_no_parameter_of_any_page_is_a_fault_with_or_without_a_login_case_63(world: World) -> None:
    paths, names = addresses(world), parameters()
    assert len(paths) > 30
    assert {"conflicts", "who", "show", "top_k", "mine", "restore"} <= set(names)
    clients = [world.member, Client()]

    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(
        st.sampled_from(paths),
        st.dictionaries(
            st.sampled_from(names),
            st.one_of(st.sampled_from(ODD), st.text(max_size=20)),
            min_size=1,
            max_size=3,
        ),
        st.sampled_from(clients),
        st.sampled_from(["page", "fragment"]),
    )
    def asked(path: str, given_: dict[str, str], client: Client, part: str) -> None:
        query = "&".join(f"{name}={quote(value, errors='replace')}" for name, value in given_.items())
        headers = {
            "HX-Request": "true",
            "HX-Current-URL": next(iter(given_.values())).encode("ascii", "replace").decode(),
        }
        answer = client.get(
            f"{path}?{query}",
            headers=headers if part == "fragment" and "\n" not in headers["HX-Current-URL"] else {},
        )
        assert answer.status_code < 500, (path, query)

    for client in clients:
        client.raise_request_exception = False
    asked()
    for path in paths:  # every name at once, and each page at least once
        query = "&".join(f"{name}=%00{quote('😀')}" for name in names)
        assert clients[0].get(f"{path}?{query}").status_code < 500, path
