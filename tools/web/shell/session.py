"""Sign-in and sign-out, the tenant of the session, and the theme."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from portal.tenancy.middleware import SESSION_KEY
from tools.web.shell.access import TenantRequest, next_url, to_login

THEMES = ("system", "light", "dark")
_YEAR = 365 * 86_400

login = LoginView.as_view(template_name="registration/login.html", redirect_authenticated_user=True)
logout = LogoutView.as_view()


@require_POST
def set_theme(request: HttpRequest) -> HttpResponse:
    """Stores the theme in a cookie, so that the server renders it and no page flashes."""
    answer = redirect(next_url(request, "/"))
    chosen = request.POST.get("theme", "")
    if chosen in THEMES:
        answer.set_cookie(
            "theme",
            chosen,
            max_age=_YEAR,
            httponly=True,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
    return answer


@require_POST
def switch_tenant(request: HttpRequest) -> HttpResponse:
    """Switches the session to another tenant of the user. Leads to the list of tools: the current page may not exist there."""
    asked = cast(TenantRequest, request)
    if asked.user.is_anonymous:
        return to_login(asked)
    wanted = request.POST.get("tenant", "")
    if wanted in {str(one.tenant_id) for one in asked.memberships}:
        request.session[SESSION_KEY] = wanted
    return redirect("tool-list")


for _view in (logout, set_theme, switch_tenant):
    # TenantMiddleware lets their forms be of any tenant.
    vars(_view)["is_of_the_session"] = True
