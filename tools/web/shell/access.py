"""Access to pages: `member_page` requires a sign-in, a tenant and a role, and tells caches of htmx; and what
views ask of their request: who acts, which row, page or part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect, reswap, retarget
from django_htmx.middleware import HtmxDetails

from portal.http.bulkhead import TooBusy, bulkhead
from portal.tenancy.middleware import Member
from portal.tenancy.models import Role
from portal.tenancy.rights import Rights
from tools.web.shell.addresses import page_before
from tools.web.shell.errors import busy
from tools.web.shell.kept import kept_of


class TenantRequest(HttpRequest):
    """A request of a member of a tenant: what the views behind `member_page` get."""

    htmx: HtmxDetails
    member: Member
    memberships: list[Member]
    user: User | AnonymousUser


P = ParamSpec("P")
Row = TypeVar("Row", bound=Model)
TenantView = Callable[Concatenate[TenantRequest, P], HttpResponse]
View = Callable[Concatenate[HttpRequest, P], HttpResponse]


def member_page(
    methods: str,
    role: str = Role.VIEWER,
    *,
    calls_external: bool = False,
    has_text: bool = False,
    takes_document: bool = False,
) -> Callable[[TenantView[P]], View[P]]:
    """Opens the view to these methods ("GET POST") of members of at least `role`. Anonymous visitors go to the login, users
    without a tenant get a 403.

    What is sent to a view that `has_text` of its visitor is kept through a login, when the session has ended meanwhile.

    A view that `calls_external` runs in no transaction, and opens a tenant_context where it needs the database. Its POST holds
    a place in the bulkhead, and answers 503 where there is none.

    A view that `takes_document` may be sent DOCUMENT_MAX_BYTES by those who have signed in (portal/http/bodies.py).
    """

    def decorate(view: TenantView[P]) -> View[P]:
        @require_http_methods(methods.split())
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            asked = cast(TenantRequest, request)
            holds_a_place = calls_external and request.method == "POST"
            try:
                answer = _refusal(asked, role, has_text=has_text)
                if answer is None:
                    with bulkhead(asked.member.tenant_id) if holds_a_place else nullcontext():
                        answer = view(asked, *args, **kwargs)
            except TooBusy as error:
                answer = busy(request, str(error))
            except ObjectDoesNotExist:
                # A second press of Delete waits for the first one, and then there is nothing left.
                raise Http404("This no longer exists: somebody has deleted it.") from None
            if asked.htmx and answer.has_header("Location"):
                # htmx would follow, and put a whole page into the place of a fragment or a dialog.
                answer = HttpResponseClientRedirect(answer["Location"])
            patch_vary_headers(answer, ["HX-Request"])
            return answer

        vars(guarded)["calls_external"] = calls_external  # TenantMiddleware reads it
        vars(guarded)["takes_document"] = takes_document
        return guarded

    return decorate


def _refusal(request: TenantRequest, role: str, *, has_text: bool) -> HttpResponse | None:
    """The answer to a visitor who may not see the page. Raises PermissionDenied for a member of a lower role."""
    if request.user.is_anonymous:
        return _login_with_text(request) if has_text and request.method == "POST" else to_login(request)
    if getattr(request, "member", None) is None:
        return render(request, "registration/no_tenant.html", status=403)
    if not request.member.may(role):
        raise PermissionDenied(
            f"This requires the role {Role(role)}; you are {request.member.role} in {request.member.name}."
        )
    return None


def to_login(request: TenantRequest) -> HttpResponse:
    """Redirects to the login and back again, or to the page on which a button was pressed, whose own address may be no page. A
    request for a fragment moves the whole page there."""
    if not request.htmx and request.method in {"GET", "HEAD"}:
        return redirect_to_login(request.get_full_path())
    login = redirect_to_login(page_before(request, "/"))
    return HttpResponseClientRedirect(login.url) if request.htmx else login


def _login_with_text(request: TenantRequest) -> HttpResponse:
    """The login, which takes along what was typed."""
    context = {"kept": kept_of(request), "next": page_before(request, "/"), "has_files": bool(request.FILES)}
    if not request.htmx:
        return render(request, "registration/login.html", context, status=403)
    answer = render(request, "registration/login.html#login", context, status=403)
    return reswap(retarget(answer, "#main"), "innerHTML")


def find_row(rows: QuerySet[Row], what: str, **which: object) -> Row:
    """The one of these rows that matches. Raises Http404 with a sentence for the visitor."""
    row = rows.filter(**which).first()
    if row is None:
        raise Http404(f"There is no such {what} here.")
    return row


def render_part(
    request: TenantRequest, part: str, context: Mapping[str, object], status: int = 200
) -> HttpResponse:
    """Renders a part of a page ("jobs/detail.html#job") for htmx, and the whole page for a browser."""
    return render(request, part if request.htmx else part.partition("#")[0], context, status=status)


def rights_of(request: TenantRequest) -> Rights:
    """What the member of the request may see and do."""
    return Rights.of_member(request.member, request.user.get_username())


def actor(request: TenantRequest) -> str:
    """The user name that the history records as the author."""
    return request.user.get_username()
