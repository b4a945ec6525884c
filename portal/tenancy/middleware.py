"""The tenant of a page: every request of a signed-in member runs in one transaction of the tenant they work in, with the rights of
their role there.

The session is pinned to that tenant: it changes by the member's own switch and by nothing else. Every form carries the tenant
that it was made for, and one of another tenant is refused, because the session may have been switched in another tab.

The API does not pass here (it has no session): its views open their own, shorter blocks. So do the pages that ask somebody
else or parse a document (`calls_external`), since a transaction must not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.utils.cache import patch_cache_control

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Role
from portal.tenancy.rights import Rights, acting_with

SESSION_KEY = "tenant"
FORM_FIELD = "made_for_tenant"
FORM_HEADER = "X-Portal-Tenant"
"""The tenant that a form was made for: its field (tools/templatetags/form_tokens.py), or the header of a request by htmx."""
_WITHOUT_SESSION = ("/api/", "/static/", "/livez", "/readyz", "/metrics")
_SAFE = {"GET", "HEAD", "OPTIONS", "TRACE"}
# Views whose forms concern the person and no tenant, by the names of their routes.
_OF_NO_TENANT = {
    "admin:login",
    "admin:logout",
    "invitations",
    "login",
    "logout",
    "switch-tenant",
    "theme",
}


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
    """Where this user is a member, by slug: one of the questions that are answered before a tenant is known."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tenant_id, slug, name, role FROM portal_memberships(%s)", [user_id])
        return [Member(*row) for row in cursor.fetchall()]


def pin_session(request: HttpRequest, tenants: Iterable[Member]) -> None:
    """On every sign-in (portal/http/sign_ins.py): the session works in the first of the user's tenants from then on."""
    found = [str(one.tenant_id) for one in tenants]
    if found and request.session.get(SESSION_KEY) not in found:
        request.session[SESSION_KEY] = found[0]


def work_in(request: HttpRequest, tenant_id: str) -> None:
    """The person's own choice, from the next request on. Does nothing if they are no member there."""
    found = memberships(request.user.pk) if request.user.is_authenticated else []
    if tenant_id in {str(one.tenant_id) for one in found}:
        request.session[SESSION_KEY] = tenant_id


def tenants_of_form(request: HttpRequest) -> set[str]:
    """The tenants that the form of this request says it was made for: one, or none for somebody who works in no tenant."""
    return {request.headers.get(FORM_HEADER, ""), *request.POST.getlist(FORM_FIELD)} - {""}


class OtherTenant(PermissionDenied):
    """A form was made for another tenant than the one that the session works in. `made_for` is that tenant if the visitor is a
    member of it, else None."""

    def __init__(self, made_for: Member | None) -> None:
        super().__init__()
        self.made_for = made_for


class MemberRequest(HttpRequest):
    """A request that has passed TenantMiddleware. `member` is None for a visitor who works in no tenant: anonymous, a member of
    none, or no longer a member where the session worked."""

    member: Member | None
    memberships: list[Member]


class TenantMiddleware:
    """Sets `request.member` and opens its tenant_context; refuses forms that were made for another tenant."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self._answer(cast(MemberRequest, request))
        if not request.path.startswith(_WITHOUT_SESSION) and not answer.has_header("Cache-Control"):
            # Every page shows who is signed in and where, those of errors too, and most a tenant's data: neither a proxy nor
            # the browser's cache may keep them past the sign-out.
            patch_cache_control(answer, private=True, no_store=True)
        return answer

    def _answer(self, request: MemberRequest) -> HttpResponse:
        request.member, request.memberships = None, []
        if _needs_no_member(request):
            return self.get_response(request)
        request.memberships = memberships(cast(int, request.user.pk))
        pinned = request.session.get(SESSION_KEY)
        request.member = next((one for one in request.memberships if str(one.tenant_id) == pinned), None)
        if request.member is None:
            return self.get_response(request)
        with acting_with(Rights.of_member(request.member, request.user.get_username())):
            if _calls_external(request):
                return self.get_response(request)
            with tenant_context(request.member.tenant_id):
                return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: object) -> None:
        """Raises OtherTenant. Runs after the check of the CSRF token, and before the view."""
        view = request.resolver_match.view_name if request.resolver_match else ""
        if request.method in _SAFE or view in _OF_NO_TENANT or _needs_no_member(request):
            return
        asked = cast(MemberRequest, request)
        form, session = tenants_of_form(request), {str(asked.member.tenant_id)} if asked.member else set()
        if form != session:
            raise OtherTenant(next((one for one in asked.memberships if {str(one.tenant_id)} == form), None))

    def process_exception(self, request: HttpRequest, exception: Exception) -> None:
        # Django turns the exception into a response below us, so the block above would commit half a request.
        if getattr(request, "member", None) is not None and not _calls_external(request):
            transaction.set_rollback(True)


def _needs_no_member(request: HttpRequest) -> bool:
    return request.path.startswith(_WITHOUT_SESSION) or not request.user.is_authenticated


def _calls_external(request: HttpRequest) -> bool:
    try:
        return getattr(resolve(request.path_info).func, "calls_external", False)
    except Resolver404:
        return False


def tenant_of_request(request: HttpRequest) -> dict[str, object]:
    """Template context: the member, and the other tenants they may switch to."""
    return {"member": getattr(request, "member", None), "memberships": getattr(request, "memberships", [])}
