"""The embedding card and badges as fragments that ask again by themselves, and Refresh Embedding (EMB-9)."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from embeddings.backfill.kinds import MAX_IDS
from portal.jobs import services as jobs
from portal.jobs.errors import AlreadyRunning, InvalidArguments
from portal.tenancy.models import Role
from tools.catalogue.embedding_jobs import REFRESH
from tools.catalogue.errors import CatalogueError
from tools.catalogue.tools import refresh_embeddings
from tools.models import Tool
from tools.web.embeddings.state import badge_of, card_of, open_passage_circuits
from tools.web.shell.access import PageRequest, actor, member_page, next_url
from tools.web.shell.forms import chosen_ids
from tools.web.shell.polling import poll_count, poll_seconds
from tools.web.tools.list import PAGE_SIZES, ToolPageFilter, list_url, without_blanks
from tools.web.tools.state import find_tool, listed_tools, visible_tools

_MOST_BADGES = 100


def embedding_context(tool: Tool, count: int = 0) -> dict[str, object]:
    """What templates/embeddings/card.html wants."""
    card = card_of(tool)
    return {
        "tool": tool,
        "card": card,
        "troubles": open_passage_circuits() if card.is_waiting else [],
        "poll_seconds": poll_seconds(count),
        "next_count": count + 1,
    }


@require_GET
@member_page()
def embedding_card(request: PageRequest, pk: UUID) -> HttpResponse:
    """The card alone: as a fragment, or as a small page for browsers without JavaScript."""
    tool = find_tool(request, pk)
    count = poll_count(request)
    context = embedding_context(tool, count)
    if request.htmx and count and not context["card"].is_waiting:  # type: ignore[attr-defined]
        badge = badge_of(tool)
        tell = messages.success if badge.status == "ready" else messages.warning
        tell(request, f"Embedding of {tool.name}: {badge.word.lower()}.")
    return render(request, "embeddings/card.html#card" if request.htmx else "embeddings/card.html", context)


@require_POST
@member_page(Role.OPERATOR)
def refresh_embedding(request: PageRequest, pk: UUID) -> HttpResponse:
    """Asks for a new vector. A second press finds the same task and changes nothing that matters."""
    tool = find_tool(request, pk)
    try:
        if refresh_embeddings(pks=[pk]):
            messages.success(request, "Embedding refresh queued.")
        else:
            messages.warning(
                request, "Nothing was queued: the tool is inactive, has no text, or embedding is disabled."
            )
    except CatalogueError as error:
        messages.error(request, str(error))
    if not request.htmx:
        return redirect("tool", pk=pk)
    return render(request, "embeddings/card.html#card", embedding_context(find_tool(request, tool.pk)))


@require_POST
@member_page(Role.OPERATOR)
def refresh_selected(request: PageRequest) -> HttpResponse:
    """Refresh Embedding for the rows that were ticked in the list."""
    wanted = chosen_ids(request.POST.getlist("selected"))
    back = redirect(next_url(request, "/tools/"))
    if not wanted:
        messages.warning(request, "Tick the tools first whose embeddings are to be refreshed.")
        return back
    if len(wanted) > PAGE_SIZES[-1]:
        return _as_job(request, wanted)
    queued = refresh_embeddings(pks=wanted)
    skipped = len(wanted) - queued
    messages.success(
        request,
        f"Embedding refresh queued for {queued} of {len(wanted)} tools."
        + (f" {skipped} skipped: inactive, without text, or embedding is disabled." if skipped else ""),
    )
    return back


@require_http_methods(["GET", "POST"])
@member_page(Role.OPERATOR)
def refresh_matching(request: PageRequest) -> HttpResponse:
    """Refresh Embedding for all tools that the list's filters leave, as a job, after a question that counts them."""
    query = without_blanks(request.GET)
    found = ToolPageFilter(query, queryset=listed_tools(request)).qs.order_by()
    if request.method == "POST":
        return _as_job(request, list(found.values_list("pk", flat=True)[: MAX_IDS + 1]))
    count, inactive = found.count(), found.filter(active=False).count()
    effect = f"A job asks for a new vector of each. Those of now serve meanwhile.{f' {inactive:,} are inactive and will be skipped.' if inactive else ''}"
    if count > MAX_IDS:
        effect = f"One job takes at most {MAX_IDS:,} chosen tools. Narrow the list, or start a backfill, which has no such bound."
    question = {
        "title": f"Refresh the embeddings of {count:,} tools?",
        "effect": effect,
        "action": request.get_full_path(),
        "button": f"Refresh {count:,} tools",
        "cancel": list_url(query),
    }
    return render(request, "shell/confirm.html#question" if request.htmx else "shell/confirm.html", question)


def _as_job(request: PageRequest, pks: list[UUID]) -> HttpResponse:
    """A selection too large for one request."""
    try:
        job = jobs.start(REFRESH, {"ids": [str(pk) for pk in pks]}, by=actor(request))
    except AlreadyRunning as error:
        messages.warning(request, "The same tools are being refreshed already.")
        job = error.job
    except InvalidArguments as error:
        messages.error(
            request, " ".join(sentence for sentences in error.errors.values() for sentence in sentences)
        )
        return redirect(next_url(request, "/tools/"))
    return redirect("job", pk=job.pk)


@require_GET
@member_page()
def badges(request: PageRequest) -> HttpResponse:
    """One poll for all waiting rows of a list: badges that changed arrive out of band, the rest waits on."""
    ids = chosen_ids(request.GET.getlist("id"))[:_MOST_BADGES]
    tools = visible_tools(request).filter(pk__in=ids).only("pk", "active").with_serving_embedding()
    rows = [(tool, badge_of(tool)) for tool in tools]
    count = poll_count(request)
    context = {
        "arrived": [(tool, badge) for tool, badge in rows if not badge.is_waiting],
        "waiting": [tool.pk for tool, badge in rows if badge.is_waiting],
        "poll_seconds": poll_seconds(count),
        "next_count": count + 1,
    }
    return render(request, "embeddings/badges.html", context)
