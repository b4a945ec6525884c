"""SEC-4, CAT-1: the rights of a caller are one value, and the QuerySet of tools applies it."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from portal.tenancy.keys import Caller
from portal.tenancy.middleware import Member
from portal.tenancy.models import Role, Scope, Sensitivity, Tenant
from portal.tenancy.rights import SCOPES_OF_ROLE, Rights
from tools.models import Tool, Visibility


def key(*scopes: str, max_sensitivity: str = Sensitivity.RESTRICTED) -> Rights:
    return Rights.of_key(
        Caller(uuid.uuid4(), "ci", uuid.uuid4(), frozenset(scopes), max_sensitivity, None, use_is_stale=False)
    )


def member(role: str, username: str = "olga") -> Rights:
    return Rights.of_member(Member(uuid.uuid4(), "acme", "Acme", role), username)


def test_a_key_and_a_member_are_named_in_the_history() -> None:
    assert (key().actor, member(Role.VIEWER).actor) == ("API key ci", "olga")


def test_every_role_has_its_scopes_and_each_includes_the_one_before() -> None:
    assert SCOPES_OF_ROLE.keys() == set(Role.values)
    for lower, higher in ((Role.VIEWER, Role.OPERATOR), (Role.OPERATOR, Role.ADMIN)):
        assert all(member(higher).may(scope) for scope in SCOPES_OF_ROLE[lower])


@pytest.mark.parametrize(
    ("rights", "may_edit"),
    [
        (key(Scope.TOOLS_READ), False),
        (key(Scope.TOOLS_WRITE), True),
        (key(Scope.ADMIN), True),
        (member(Role.VIEWER), False),
        (member(Role.OPERATOR), True),
        (member(Role.ADMIN), True),
        (Rights.unrestricted(uuid.uuid4(), "a command"), True),
    ],
)
def test_who_may_edit(rights: Rights, may_edit: bool) -> None:  # noqa: FBT001
    assert rights.may_edit is may_edit


@pytest.fixture
def tools(tenant: Tenant, make_tool: Callable[..., Tool]) -> None:
    for visibility in Visibility.values:
        make_tool(tool_id=visibility, name=visibility, visibility=visibility)
        make_tool(tool_id=f"own {visibility}", name=f"own {visibility}", visibility=visibility, owner="olga")


PUBLIC, UNLISTED = {"public", "own public"}, {"unlisted", "own unlisted"}
EVERYTHING = {*PUBLIC, *UNLISTED, "private", "own private"}


@pytest.mark.parametrize(
    ("rights", "visible", "listed"),
    [
        (key(Scope.TOOLS_READ), PUBLIC | UNLISTED, PUBLIC),
        (key(Scope.TOOLS_WRITE), EVERYTHING, EVERYTHING),
        (member(Role.VIEWER, "somebody"), PUBLIC | UNLISTED, PUBLIC),
        (
            member(Role.VIEWER, "olga"),
            PUBLIC | UNLISTED | {"own private"},
            PUBLIC | {"own unlisted", "own private"},
        ),
        (member(Role.OPERATOR, "somebody"), EVERYTHING, EVERYTHING),
    ],
)
def test_cat_1_visibility_is_for_owners_and_those_who_may_edit(
    tools: None, rights: Rights, visible: set[str], listed: set[str]
) -> None:
    assert {tool.tool_id for tool in Tool.objects.visible_to(rights)} == visible
    assert {tool.tool_id for tool in Tool.objects.listed_for(rights)} == listed


def test_sec_4_no_tool_above_the_keys_sensitivity_is_seen(
    tenant: Tenant, make_tool: Callable[..., Tool]
) -> None:
    for sensitivity in Sensitivity.values:
        make_tool(tool_id=sensitivity, name=sensitivity, sensitivity=sensitivity)
    bound = key(Scope.ADMIN, max_sensitivity=Sensitivity.INTERNAL)
    for seen in (Tool.objects.visible_to(bound), Tool.objects.listed_for(bound)):
        assert {tool.tool_id for tool in seen} == {"public", "internal"}
