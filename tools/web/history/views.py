"""The history of a tool, and an older version restored (CAT-8)."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.tenancy.models import Role
from tools.catalogue.tools import update_tool
from tools.web.embeddings.state import badge_of, embedding_queued
from tools.web.history.state import changes_of, restorable, tool_history
from tools.web.shell.access import TenantRequest, actor, member_page
from tools.web.shell.confirm import confirm
from tools.web.shell.errors import ErrorsAsMessages
from tools.web.shell.forms import number
from tools.web.tools.state import find_tool


@member_page("GET")
def history_page(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Every change of the tool and of its overrides, newest first."""
    tool = find_tool(request, pk)
    page = max(min(number(request.GET.get("page", "")), 1000), 1)
    entries, has_older = tool_history(tool.pk, page=page)
    context = {
        "tool": tool,
        "badge": badge_of(tool),
        "entries": entries,
        "page": page,
        "has_older": has_older,
        "newest": max((entry.event for entry in entries if entry.event), default=None) if page == 1 else None,
    }
    return render(request, "history/tool.html", context)


@member_page("GET POST", Role.OPERATOR)
def restore_version(request: TenantRequest, pk: UUID, event: int) -> HttpResponse:
    """Sets a tool's fields to what they were after an event of its history, after a question that shows the changes."""
    tool = find_tool(request, pk)
    changes = restorable(tool, event)
    if changes is None:
        raise Http404("There is no such version here.")
    history = reverse("tool-history", args=[pk])
    if not changes:
        messages.info(request, "Nothing to restore: the tool already matches this version.")
        return redirect(history)
    if request.method != "POST":
        return confirm(
            request,
            title=f"Restore this version of {tool.name}?",
            effect="Restoring it would change:",
            details="history/restore.html",
            tool=tool,
            changes=changes_of(tool, changes),
            hidden=[("version", tool.version)],
            button="Restore this",
            cancel=history,
        )
    with ErrorsAsMessages(request, "Nothing was restored. "):
        version = number(request.POST.get("version", ""))  # 0, which no tool has, if it is missing
        update_tool(pk=pk, expected_version=version, changes=changes, actor=actor(request))
        messages.success(request, f"Restored.{embedding_queued([pk])}")
    return redirect(history)
