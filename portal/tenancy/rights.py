"""The rights of a caller as one value, made of an API key, of a signed-in member or of a command (SEC-4).

An entry point makes the value and passes it on; services and QuerySets apply it. So REST, pages and MCP show and change the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from portal.tenancy.keys import Caller
from portal.tenancy.middleware import Member
from portal.tenancy.models import Role, Scope, Sensitivity

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

Audience = tuple[UUID, frozenset[str], str]
"""Tenant, scopes and highest sensitivity: callers of one audience may know of each other what a cache tells."""


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
        """Those of a command or a job, which act for the whole tenant."""
        return cls(tenant_id, actor, frozenset({Scope.ADMIN}))

    def may(self, scope: str) -> bool:
        """Whether the caller holds the scope, or `admin`, which includes every other one."""
        return bool(self.scopes & {scope, Scope.ADMIN})

    @property
    def audience(self) -> Audience:
        """The part of a cache's key that keeps what one caller asked from those with other rights (S4)."""
        return self.tenant_id, self.scopes, self.max_sensitivity

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
