"""The rights of a caller as one value, made of an API key, of a signed-in member or of a job's row (SEC-4).

An entry point makes the value and opens `acting_with` around its work: the API for its key, TenantMiddleware for the member
(pages and Django's admin), a runner for who started the job. Services and QuerySets apply `current_rights`, so that every
entrance shows and changes the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from portal.json_types import JsonObject
from portal.tenancy.models import Role, Scope, Sensitivity

if TYPE_CHECKING:
    from portal.tenancy.keys import Caller
    from portal.tenancy.middleware import Member

# What a member of a role may do, in the words of a key's scopes.
SCOPES_OF_ROLE: dict[str, frozenset[str]] = {
    Role.VIEWER: frozenset({Scope.SEARCH_READ, Scope.TOOLS_READ}),
    Role.OPERATOR: frozenset(
        {
            Scope.SEARCH_READ, Scope.TOOLS_READ, Scope.TOOLS_WRITE, Scope.TOOLS_PUBLISH, Scope.SOURCES_WRITE,
            Scope.JOBS_RUN, Scope.EXECUTIONS_WRITE,
        }
    ),
    Role.ADMIN: frozenset({Scope.ADMIN}),
}  # fmt: skip

Audience = tuple[UUID, frozenset[str], str, str]
"""Tenant, scopes, highest sensitivity, and a member's name, who sees private tools of their own: callers of one audience may know
of each other what a cache tells."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a caller may see and do in one tenant.

    `actor` is the author that the history names. `username` is a member's own name, which owners of tools are compared with;
    a key owns nothing, so it is empty there.
    """

    tenant_id: UUID
    actor: str
    scopes: frozenset[str]
    max_sensitivity: str = Sensitivity.RESTRICTED
    username: str = ""

    @classmethod
    def of_key(cls, caller: Caller) -> Rights:
        """Those of an API key."""
        return cls(caller.tenant_id, f"API key {caller.key_name}", caller.scopes, caller.max_sensitivity)

    @classmethod
    def of_member(cls, member: Member, username: str) -> Rights:
        """Those of a member on pages. Their role decides; no sensitivity is too high for them."""
        return cls(member.tenant_id, username, SCOPES_OF_ROLE[member.role], username=username)

    @classmethod
    def unrestricted(cls, tenant_id: UUID, actor: str) -> Rights:
        """Those of a command, a schedule or a worker, which act for the whole tenant."""
        return cls(tenant_id, actor, frozenset({Scope.ADMIN}))

    @classmethod
    def of_row(cls, tenant_id: UUID, actor: str, stored: JsonObject) -> Rights:
        """Those that `as_row` has stored; of an empty object, those of the tenant itself."""
        if not stored:
            return cls.unrestricted(tenant_id, actor)
        return cls(
            tenant_id, actor, frozenset(stored["scopes"]), stored["max_sensitivity"], stored["username"]
        )

    def as_row(self) -> JsonObject:
        """The rights in JSON's types, without tenant and author, for the row of what is done later."""
        return {
            "scopes": sorted(self.scopes),
            "max_sensitivity": str(self.max_sensitivity),
            "username": self.username,
        }

    def may(self, scope: str) -> bool:
        """Whether the caller holds the scope, or `admin`, which includes every other one."""
        return bool(self.scopes & {scope, Scope.ADMIN})

    @property
    def audience(self) -> Audience:
        """The part of a cache's key that keeps what one caller asked from those with other rights (S4)."""
        return self.tenant_id, self.scopes, self.max_sensitivity, self.username

    @property
    def may_edit(self) -> bool:
        """Whether the caller may change tools; who may, also sees private and unlisted ones."""
        return self.may(Scope.TOOLS_WRITE)

    @property
    def sees_all_sensitivities(self) -> bool:
        return self.max_sensitivity == Sensitivity.RESTRICTED

    @property
    def sensitivities(self) -> list[str]:
        """The sensitivities of tools that the caller may see."""
        return Sensitivity.up_to(self.max_sensitivity)

    @property
    def sees_everything(self) -> bool:
        """Whether no tool of the tenant is hidden from the caller."""
        return self.sees_all_sensitivities and self.may_edit

    def covers(self, other: Rights) -> bool:
        """Whether the caller sees whatever `other` sees."""
        same_person = bool(self.username) and self.username == other.username
        return set(other.sensitivities) <= set(self.sensitivities) and (
            self.may_edit or (not other.may_edit and (same_person or not other.username))
        )


_OWN = Rights.unrestricted(UUID(int=0), "")
_current: ContextVar[Rights | None] = ContextVar("portal_rights", default=None)


@contextmanager
def acting_with(rights: Rights) -> Iterator[None]:
    """What is done in the block is done, and seen, with these rights."""
    token = _current.set(rights)
    try:
        yield
    finally:
        _current.reset(token)


def current_rights() -> Rights:
    """The rights of who caused the current work. Without a caller it is the tenant's own: a command's, a schedule's, a worker's;
    such rights name no tenant."""
    return _current.get() or _OWN
