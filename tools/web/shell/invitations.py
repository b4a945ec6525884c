"""The page on which a person accepts or declines what they were invited to. It is of no tenant: they may be in none yet."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from portal.http.history_context import history_context
from portal.tenancy.invitations import answer_invitation, invitations_of
from portal.tenancy.middleware import work_in
from tools.web.shell.access import TenantRequest, to_login

ANSWERS = {"accept": True, "decline": False}


@require_http_methods(["GET", "POST"])
def invitations(request: HttpRequest) -> HttpResponse:
    """The person's invitations; a POST answers one of them."""
    asked = cast(TenantRequest, request)
    if asked.user.is_anonymous:
        return to_login(asked)
    if request.method == "GET":
        return render(
            request,
            "registration/invitations.html",
            {"invitations": invitations_of(asked.user.get_username())},
        )
    wanted, answer = request.POST.get("tenant", ""), request.POST.get("answer", "")
    invited = None
    if answer in ANSWERS and (tenant_id := _uuid(wanted)):
        with history_context(asked.user.get_username()):
            invited = answer_invitation(asked.user, tenant_id, accepted=ANSWERS[answer])
    if invited is None:
        messages.error(request, "This invitation no longer exists: it was withdrawn or answered.")
    elif not ANSWERS[answer]:
        messages.success(request, f"You have declined the invitation to {invited.name}.")
    else:
        messages.success(request, f"You are now a member of {invited.name}.")
        if getattr(request, "member", None) is None:
            # Whoever works elsewhere stays there until they switch.
            work_in(request, wanted)
            return redirect("tool-list")
    return redirect("invitations")


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
