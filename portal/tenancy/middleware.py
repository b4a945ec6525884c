"""The tenant of a page: every request of a signed-in member runs in one transaction of the tenant they work in, with the rights of
their role there.

The API does not pass here (it has no session): its views open their own, shorter blocks. So do the pages that ask somebody
else or parse a document (`calls_external`), since a transaction must not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Role
from portal.tenancy.rights import Rights, acting_with

SESSION_KEY = "tenant"


@dataclass(frozen=True, slots=True)
class Member:
    """The tenant that a signed-in user works in, and what they may do there."""

    tenant_id: UUID
    slug: str
    name: str
    role: str

    def may(self, role: str) -> bool:
        return Role.at_least(self.role, role)

    @property
    def is_operator(self) -> bool:
        return self.may(Role.OPERATOR)


def memberships(user_id: int) -> list[Member]:
    """Where this user is a member, by slug: one of the two questions that are answered before a tenant is known."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tenant_id, slug, name, role FROM portal_memberships(%s)", [user_id])
        return [Member(*row) for row in cursor.fetchall()]


class MemberRequest(HttpRequest):
    """A request that has passed TenantMiddleware."""

    member: Member | None
    memberships: list[Member]


class TenantMiddleware:
    """Sets `request.member` (None when anonymous or a member of nothing) and opens its tenant_context."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request = cast(MemberRequest, request)
        request.member, request.memberships = None, []
        if (
            request.path.startswith(("/api/", "/static/", "/livez", "/readyz", "/metrics"))
            or not request.user.is_authenticated
        ):
            return self.get_response(request)
        found = memberships(request.user.pk)
        if not found:
            return self.get_response(request)
        wanted = request.session.get(SESSION_KEY)
        member = next((one for one in found if str(one.tenant_id) == wanted), found[0])
        request.member, request.memberships = member, found
        with acting_with(Rights.of_member(member, request.user.get_username())):
            if _calls_external(request):
                return self.get_response(request)
            with tenant_context(member.tenant_id):
                return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> None:
        # Django turns the exception into a response below us, so the block above would commit half a request.
        if getattr(request, "member", None) is not None and not _calls_external(request):
            transaction.set_rollback(True)


def _calls_external(request: HttpRequest) -> bool:
    try:
        return getattr(resolve(request.path_info).func, "calls_external", False)
    except Resolver404:
        return False


def tenant_of_request(request: HttpRequest) -> dict[str, object]:
    """Template context: the member, and the other tenants they may switch to."""
    return {"member": getattr(request, "member", None), "memberships": getattr(request, "memberships", [])}
