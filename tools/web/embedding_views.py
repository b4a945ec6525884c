"""The embedding card and badges as fragments that ask again by themselves, and Refresh Embedding (EMB-9)."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from portal.tenancy.models import Role
from tools import services
from tools.errors import CatalogueError
from tools.models import Tool
from tools.web.access import PageRequest, member_page, next_url
from tools.web.embedding_state import badge_of, card_of, with_embeddings
from tools.web.polling import poll_count, poll_seconds

_MOST_BADGES = 100


def embedding_context(tool: Tool, count: int = 0) -> dict[str, object]:
    """What templates/tools/embedding.html wants."""
    return {"tool": tool, "card": card_of(tool), "poll_seconds": poll_seconds(count), "next_count": count + 1}


@require_GET
@member_page()
def embedding_card(request: PageRequest, pk: UUID) -> HttpResponse:
    """The card alone: as a fragment, or as a small page for browsers without JavaScript."""
    tool = _tool(pk)
    count = poll_count(request)
    context = embedding_context(tool, count)
    if request.htmx and count and not context["card"].is_waiting:  # type: ignore[attr-defined]
        badge = badge_of(tool)
        tell = messages.success if badge.status == "ready" else messages.warning
        tell(request, f"Embedding of {tool.name}: {badge.word.lower()}.")
    return render(request, "tools/embedding.html#card" if request.htmx else "tools/embedding.html", context)


@require_POST
@member_page(Role.OPERATOR)
def refresh_embedding(request: PageRequest, pk: UUID) -> HttpResponse:
    """Asks for a new vector. A second press finds the same task and changes nothing that matters."""
    tool = _tool(pk)
    try:
        if services.refresh_embeddings(pks=[pk]):
            messages.success(request, "Embedding refresh queued.")
        else:
            messages.warning(
                request, "Nothing was queued: the tool is inactive, has no text, or embedding is disabled."
            )
    except CatalogueError as error:
        messages.error(request, str(error))
    if not request.htmx:
        return redirect("tool", pk=pk)
    return render(request, "tools/embedding.html#card", embedding_context(_tool(tool.pk)))


@require_POST
@member_page(Role.OPERATOR)
def refresh_selected(request: PageRequest) -> HttpResponse:
    """Refresh Embedding for the rows that were ticked in the list."""
    wanted = _uuids(request.POST.getlist("selected"))
    back = redirect(next_url(request, "/tools/"))
    if not wanted:
        messages.warning(request, "Tick the tools first whose embeddings are to be refreshed.")
        return back
    queued = services.refresh_embeddings(pks=wanted)
    skipped = len(wanted) - queued
    messages.success(
        request,
        f"Embedding refresh queued for {queued} of {len(wanted)} tools."
        + (f" {skipped} skipped: inactive, without text, or embedding is disabled." if skipped else ""),
    )
    return back


@require_GET
@member_page()
def badges(request: PageRequest) -> HttpResponse:
    """One poll for all waiting rows of a list: badges that changed arrive out of band, the rest waits on."""
    ids = _uuids(request.GET.getlist("id"))[:_MOST_BADGES]
    tools = Tool.objects.filter(pk__in=ids).only("pk", "active").prefetch_related(with_embeddings())
    rows = [(tool, badge_of(tool)) for tool in tools]
    count = poll_count(request)
    context = {
        "arrived": [(tool, badge) for tool, badge in rows if not badge.is_waiting],
        "waiting": [tool.pk for tool, badge in rows if badge.is_waiting],
        "poll_seconds": poll_seconds(count),
        "next_count": count + 1,
    }
    return render(request, "tools/badges.html", context)


def _tool(pk: UUID) -> Tool:
    tool: Tool | None = (
        Tool.objects.select_related("source", "endpoint")
        .prefetch_related(with_embeddings())
        .filter(pk=pk)
        .first()
    )
    if tool is None:
        raise Http404("There is no such tool here.")
    return tool


def _uuids(texts: list[str]) -> list[UUID]:
    found = []
    for text in texts:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found
