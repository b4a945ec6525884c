"""MCP servers: connection, health, and the sources that use them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Role
from tools.catalogue import history, servers
from tools.catalogue.errors import CatalogueError, StaleSettings
from tools.catalogue.visibility import seen
from tools.imports.fetching.mcp.client import check_connection
from tools.models import Health, McpServer, Source
from tools.web.history.state import last_author, settings_at, settings_history
from tools.web.servers.forms import ServerForm
from tools.web.shell.access import TenantRequest, actor, find_row, member_page, render_part
from tools.web.shell.badges import Badge
from tools.web.shell.confirm import confirm
from tools.web.shell.conflict import merge_settings
from tools.web.shell.errors import ErrorsAsMessages

HEALTH = {
    Health.UNKNOWN: Badge("none", "Not tested yet", "question-circle", "Test asks it for its tools."),
    Health.HEALTHY: Badge("ready", "Healthy", "check-circle-fill", "It answered the last request."),
    Health.FAILING: Badge("failed", "Failing", "x-octagon-fill", "It did not answer the last request."),
}


def _sources_of(server: OuterRef) -> Coalesce:
    """How many of the sources that the member may see are read from a server."""
    mine = seen(Source.objects.filter(server=server)).order_by().values("server")
    return Coalesce(Subquery(mine.annotate(count=Count("pk")).values("count")), 0)


def _servers() -> QuerySet[McpServer]:
    return McpServer.objects.annotate(source_count=_sources_of(OuterRef("pk"))).order_by("slug")


def _find(pk: UUID) -> Any:
    rows = _servers().annotate(newest_event=history.newest_event(McpServer))
    return find_row(rows, "MCP server", pk=pk)


@member_page("GET")
def server_list(request: TenantRequest) -> HttpResponse:
    rows = [(server, HEALTH[Health(server.health)]) for server in _servers()]
    return render(request, "servers/list.html", {"rows": rows})


@member_page("GET")
def server_page(request: TenantRequest, pk: UUID) -> HttpResponse:
    return render(request, "servers/detail.html", _shown(_find(pk)))


def _shown(server: Any) -> dict[str, object]:
    return {
        "server": server,
        "badge": HEALTH[Health(server.health)],
        "sources": seen(server.sources.all()).order_by("slug"),
        "settings": settings_history(server),
    }


@member_page("GET POST", Role.ADMIN, has_text=True)
def new_server(request: TenantRequest) -> HttpResponse:
    form = ServerForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            server = servers.create_server(actor=actor(request), **form.changes())
        except CatalogueError as error:
            form.add_refusals(error)
        else:
            messages.success(request, "Server saved. Test asks it for its tools.")
            return redirect("server", pk=server.pk)
    return render(request, "servers/edit.html", {"form": form}, status=422 if form.errors else 200)


@member_page("GET POST", Role.ADMIN, has_text=True)
def edit_server(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Saves the form. Answers 422 with the errors, or 409 with the values that somebody else has saved since; the form keeps
    what was typed."""
    server = _find(pk)
    if request.method == "GET":
        restored = settings_at(server, request.GET.get("restore", ""), ServerForm.names)
        form = ServerForm(row=server, shown=restored)
        return render(request, "servers/edit.html", {"form": form, "server": server})
    form = ServerForm(request.POST, row=server)
    if form.is_valid():
        try:
            seen = form.cleaned_data["seen"]
            servers.update_server(pk=pk, actor=actor(request), expected_event=seen, **form.changes())
        except StaleSettings:
            return _conflict(request, _find(pk), form)
        except CatalogueError as error:
            form.add_refusals(error)
        else:
            messages.success(request, "Server saved.")
            return redirect("server", pk=pk)
    return render(request, "servers/edit.html", {"form": form, "server": server}, status=422)


def _conflict(request: TenantRequest, server: Any, form: ServerForm) -> HttpResponse:
    merged = merge_settings(server, form)
    context = {
        "server": server,
        # Unbound, so that its fields show the merged values and `seen` is the newest event.
        "form": ServerForm(row=server, shown=merged.values),
        "merge": merged,
        "stale": f"{last_author(server)} changed this server while you were editing it. Your changes have not been saved yet.",
    }
    return render(request, "servers/edit.html", context, status=409)


@member_page("POST", Role.OPERATOR, calls_external=True)
def test_server(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Asks the server for its tools and reports the answer. Stores no tool."""
    with tenant_context(request.member.tenant_id):
        server = _find(pk)
    report = check_connection(server)
    with tenant_context(request.member.tenant_id):
        context = {**_shown(_find(pk)), "report": report}
        return render_part(request, "servers/detail.html#server", context)


@member_page("GET POST", Role.ADMIN)
def delete_server(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Deletes a server that no source uses, after a question."""
    server = _find(pk)
    if request.method != "POST":
        return confirm(
            request,
            title=f"Delete the server {server.slug}?",
            effect="Its connection is deleted; its history is kept.",
            button="Delete server",
            dangerous=True,
            cancel=reverse("server", args=[pk]),
        )
    with ErrorsAsMessages(request):
        servers.delete_server(pk=pk, actor=actor(request))
        messages.success(request, f"The server {server.slug} was deleted.")
        return redirect("server-list")
    return redirect("server", pk=pk)
