"""Every form of every page and of Django's admin says which tenant it was made for, and no route takes another one (S21)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.urls import resolve

from portal.tenancy.middleware import FORM_FIELD, FORM_HEADER
from portal.tenancy.models import Tenant
from tests.support.world import NOT_OF_A_THING, Route, World, build_world, foreign_and_unknown, routes

# Forms of the person, which concern no tenant. A way out ends the session, so it is not tried here.
OF_NO_TENANT = {"invitations", "login", "switch-tenant", "theme"}
WAYS_OUT = {"admin/logout/", "logout/"}
_FORM = re.compile(r"<form(?=[^>]*method=\"post\").*?</form>", re.DOTALL)
_PLAIN = re.compile(r"livez|readyz|metrics|api/|static/")


@pytest.fixture
def world(committed: Tenant) -> World:
    return build_world(committed)


def path_of(route: Route, world: World) -> str:
    """An address of the route, of a thing that exists where it names one."""
    if route.pattern in NOT_OF_A_THING:
        return NOT_OF_A_THING[route.pattern]
    values = foreign_and_unknown(route, world)[0][0] if route.parameters else {}
    return route.path(values)


def paths(world: World) -> list[str]:
    """Of every page of the portal and of the admin."""
    asked = [one for one in routes() if one.pattern not in WAYS_OUT and not _PLAIN.match(one.pattern)]
    return [path_of(route, world) for route in asked]


@pytest.mark.slow
def test_no_route_takes_a_form_of_another_tenant_or_of_none_S21(
    world: World, make_tenant: Callable[..., Tenant]
) -> None:
    for made_for in ("", str(make_tenant().pk)):
        headers = {FORM_HEADER: made_for}
        answers = {path: world.member.post(path, headers=headers).status_code for path in paths(world)}
        taken = {resolve(path).view_name for path, status in answers.items() if status != 409}
        assert taken == OF_NO_TENANT


@pytest.mark.slow
def test_every_form_of_every_page_carries_its_tenant_S21(world: World) -> None:
    field = f'name="{FORM_FIELD}" value="{world.tenant.pk}"'
    found, without = 0, []
    for path in paths(world):
        answer = world.member.get(path)
        if answer.status_code != 200 or not answer["Content-Type"].startswith("text/html"):
            continue
        for form in _FORM.findall(answer.content.decode()):
            found += 1
            if field not in form:
                without.append((path, form[:100]))
    assert without == []
    assert found > 100
