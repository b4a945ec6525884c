"""Sign-in and sign-out, the tenant of the session, and the theme."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from portal.http.sign_in_throttle import SignInRefused, begin_attempt
from portal.tenancy.middleware import work_in
from tools.web.shell.access import TenantRequest, member_page, to_login
from tools.web.shell.addresses import next_url
from tools.web.shell.kept import Kept, kept_in

THEMES = ("system", "light", "dark")
_YEAR = 365 * 86_400


class _Login(LoginView):
    """The sign-in. A form that its visitor could not send before (kept.py) comes along, and is offered to them afterwards."""

    template_name = "registration/login.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        kept = kept_in(request)
        if kept and request.user.is_authenticated:  # in another tab, meanwhile
            return _offer(request, kept)
        return super().dispatch(request, *args, **kwargs)

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        try:
            return super().post(request, *args, **kwargs)
        except SignInRefused as error:
            # An unbound form: a bound one would try the password again.
            form = AuthenticationForm(request, initial={"username": request.POST.get("username", "")})
            context = self.get_context_data(form=form, refused=str(error))
            return _with_retry(self.render_to_response(context, status=error.status), error)

    def get_redirect_url(self, *args: object, **kwargs: object) -> str:
        wanted = next_url(self.request, "")
        # Whoever is signed in already would be led here again and again.
        return "" if wanted.partition("?")[0] == self.request.path else wanted

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        return super().get_context_data(kept=kept_in(self.request), **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_valid(form)
        kept = kept_in(self.request)
        if kept is None:
            return answer
        work_in(self.request, kept.tenant)
        return _offer(self.request, kept)


def _with_retry(answer: HttpResponse, error: SignInRefused) -> HttpResponse:
    answer["Retry-After"] = str(error.retry_after)
    return answer


def _offer(request: HttpRequest, kept: Kept) -> HttpResponse:
    """What was typed before the login or the switch, and the button that sends it."""
    # The header of the page would show the tenant from before.
    context = {"kept": kept, "next": next_url(request, "/"), "member": None}
    return render(request, "registration/send_again.html", context)


login = _Login.as_view()


def admin_login(request: HttpRequest) -> HttpResponse:
    """The admin's login is the portal's. Whoever has signed in already is told why they were led here."""
    if request.user.is_authenticated:
        raise PermissionDenied("Your account may not use the administration.")
    return redirect_to_login(next_url(request, reverse("admin:index")))


logout = LogoutView.as_view()


class _PasswordForm(PasswordChangeForm):
    """The old password and twice the new one. Checking the old one raises SignInRefused: it is counted as a sign-in."""

    def __init__(self, user: User, data: QueryDict | None, request: HttpRequest) -> None:
        super().__init__(user, data)
        self._request = request
        self.fields["old_password"].label = "Current password"
        self.fields["new_password1"].help_text = "At least 12 characters."
        self.fields["new_password2"].label = "New password again"
        self.fields["new_password2"].help_text = ""
        for field in self.fields.values():
            field.widget.attrs["class"] = "form-control"

    def clean_old_password(self) -> str:
        attempt = begin_attempt(self.user.get_username(), self._request)
        password = super().clean_old_password()
        attempt.succeeded()
        return password


@sensitive_post_parameters()
@member_page("GET POST")
def change_password(request: TenantRequest) -> HttpResponse:
    """A person's own password. Their other sessions end."""
    user = cast(User, request.user)
    form = _PasswordForm(user, request.POST if request.method == "POST" else None, request)
    try:
        is_valid = form.is_valid()
    except SignInRefused as error:
        unbound = {"form": _PasswordForm(user, None, request), "refused": str(error)}
        return _with_retry(render(request, "registration/password.html", unbound, status=error.status), error)
    if is_valid:
        form.save()
        update_session_auth_hash(request, user)
        messages.success(request, "Your password was changed. Your other sessions have ended.")
        return redirect("tool-list")
    return render(request, "registration/password.html", {"form": form}, status=422 if form.is_bound else 200)


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
    """Switches the session to another tenant of the user. Leads to the list of tools: the current page may not exist there. A
    form that was refused because it was made for that tenant is offered again."""
    if request.user.is_anonymous:
        return to_login(cast(TenantRequest, request))
    work_in(request, request.POST.get("tenant", ""))
    kept = kept_in(request)
    return _offer(request, kept) if kept else redirect("tool-list")
