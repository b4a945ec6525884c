"""Who may open a page: signed in, member of a tenant, of the needed role. Also what every page's answer has in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, cast

from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from portal.http.bulkhead import TooBusy, bulkhead
from portal.tenancy.middleware import Member
from portal.tenancy.models import Role
from portal.tenancy.rights import Rights
from tools.web.shell.errors import busy


class PageRequest(HttpRequest):
    """A request that has passed `member_page`."""

    member: Member
    memberships: list[Member]
    user: User | AnonymousUser
    htmx: HtmxDetails


class PageView(Protocol):
    def __call__(self, request: PageRequest, *args: Any, **kwargs: Any) -> HttpResponse: ...


View = Callable[..., HttpResponse]


PAGE_SECONDS = 45.0
"""What a page that asks somebody else or parses a document may take for both; comparing and storing need the rest of the
minute that its worker has (portal/gunicorn.py)."""


def member_page(role: str = Role.VIEWER, *, calls_external: bool = False) -> Callable[[PageView], View]:
    """Opens the view to members of at least `role`. Anonymous visitors go to the login, members of nothing get a 403.

    A view that `calls_external` runs in no transaction, and opens a tenant_context where it needs the database.
    """

    def decorate(view: PageView) -> View:
        asking = in_bulkhead(view) if calls_external else view

        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            answer = _answer(
                asking if request.method == "POST" else view,
                cast(PageRequest, request),
                role,
                *args,
                **kwargs,
            )
            patch_vary_headers(answer, ["HX-Request"])
            # Pages show a tenant's data: neither a proxy nor the browser's cache may keep them past the sign-out.
            patch_cache_control(answer, private=True, no_store=True)
            return answer

        guarded.calls_external = calls_external  # type: ignore[attr-defined]
        return guarded

    return decorate


def in_bulkhead(view: PageView) -> PageView:
    """Runs the view while it holds a place in the bulkhead, and answers 503 where there is none."""

    @wraps(view)
    def holding_a_place(request: PageRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            with bulkhead():
                return view(request, *args, **kwargs)
        except TooBusy as error:
            return busy(request, str(error))

    return holding_a_place


def _answer(view: PageView, request: PageRequest, role: str, *args: Any, **kwargs: Any) -> HttpResponse:
    if request.user.is_anonymous:
        return to_login(request)
    if not request.memberships:
        return render(request, "shell/no_tenant.html", status=403)
    if not request.member.may(role):
        raise PermissionDenied(
            f"This needs the role {Role(role)}; you are {request.member.role} in {request.member.name}."
        )
    try:
        return view(request, *args, **kwargs)
    except ObjectDoesNotExist:
        # A second press of Delete waits for the first one, and then there is nothing left.
        raise Http404("It is no longer here. Somebody has deleted it meanwhile.") from None


def to_login(request: PageRequest) -> HttpResponse:
    """To the login and back again; a fragment's request moves the whole page there."""
    if not request.htmx:
        return redirect_to_login(request.get_full_path())
    login = redirect_to_login(request.htmx.current_url_abs_path or "/")
    return HttpResponseClientRedirect(login.url)


def rights_of(request: PageRequest) -> Rights:
    """What the member of the request may see and do."""
    return Rights.of_member(request.member, request.user.get_username())


def actor(request: PageRequest) -> str:
    """The author that the history names."""
    return request.user.get_username()


def next_url(request: HttpRequest, default: str) -> str:
    """Where a form asks to go afterwards, if that is a page of ours."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    allowed = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if allowed else default
