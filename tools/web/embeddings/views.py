"""The embedding card and badges as fragments that poll, and Refresh Embedding (EMB-9)."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse

from embeddings.backfill.kinds import MAX_IDS
from portal.tenancy.models import Role
from tools.catalogue.embedding_jobs import REFRESH
from tools.catalogue.tools import refresh_embeddings
from tools.web.embeddings.state import badge_of, card_context, card_of
from tools.web.jobs.views import start_job
from tools.web.shell.access import TenantRequest, member_page, render_part
from tools.web.shell.addresses import next_url
from tools.web.shell.confirm import confirm
from tools.web.shell.errors import ErrorsAsMessages
from tools.web.shell.forms import chosen_ids
from tools.web.shell.lists import PAGE_SIZES, list_query, list_url
from tools.web.shell.polling import poll_count
from tools.web.tools.list import ToolPageFilter
from tools.web.tools.state import find_tool, listed_tools, visible_tools

_MOST_BADGES = 100


@member_page("GET")
def embedding_card(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The card alone: as a fragment, or as a small page for browsers without JavaScript."""
    card = card_of(find_tool(request, pk))
    if request.htmx and poll_count(request) and not card.is_waiting:
        tell = messages.success if card.badge.status == "ready" else messages.warning
        tell(request, f"Embedding of {card.name}: {card.badge.word.lower()}.")
    return render_part(request, "embeddings/card.html#card", card_context(card))


@member_page("POST", Role.OPERATOR)
def refresh_embedding(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Queues the tool's embedding again. A second press finds the same task."""
    find_tool(request, pk)
    with ErrorsAsMessages(request):
        if refresh_embeddings(pks=[pk]):
            messages.success(request, "Embedding refresh queued.")
        else:
            messages.warning(
                request, "Nothing was queued: the tool is inactive, has no text, or embedding is disabled."
            )
    if not request.htmx:
        return redirect("tool", pk=pk)
    return render_part(request, "embeddings/card.html#card", card_context(card_of(find_tool(request, pk))))


@member_page("POST", Role.OPERATOR)
def refresh_selected(request: TenantRequest) -> HttpResponse:
    wanted = chosen_ids(request.POST.getlist("selected"))
    back = redirect(next_url(request, "/tools/"))
    if not wanted:
        messages.warning(request, "Select the tools to refresh first.")
        return back
    if len(wanted) > PAGE_SIZES[-1]:
        return _as_job(request, wanted)
    queued = refresh_embeddings(pks=wanted)
    skipped = len(wanted) - queued
    messages.success(
        request,
        f"Embedding refresh queued for {queued} of {len(wanted)} tool{pluralize(wanted)}."
        + (f" {skipped} skipped: inactive, without text, or embedding is disabled." if skipped else ""),
    )
    return back


@member_page("GET POST", Role.OPERATOR)
def refresh_matching(request: TenantRequest) -> HttpResponse:
    """Refresh Embedding for all tools that the list's filters leave, as a job, after a question that counts them."""
    query = list_query(request)
    found = ToolPageFilter(query, queryset=listed_tools(request)).qs.order_by()
    if request.method == "POST":
        return _as_job(request, list(found.values_list("pk", flat=True)[: MAX_IDS + 1]))
    count, inactive = found.count(), found.filter(active=False).count()
    effect = "A job embeds each of them again. The current vectors keep serving until then."
    if inactive:
        effect += f" {inactive:,} {pluralize(inactive, 'is,are')} inactive and will be skipped."
    if count > MAX_IDS:
        effect = f"One job takes at most {MAX_IDS:,} selected tools. Narrow the list, or start a backfill, which has no such limit."
    return confirm(
        request,
        title=f"Refresh the embeddings of {count:,} tool{pluralize(count)}?",
        effect=effect,
        button=f"Refresh {count:,} tool{pluralize(count)}",
        cancel=list_url(reverse("tool-list"), query),
    )


def _as_job(request: TenantRequest, pks: list[UUID]) -> HttpResponse:
    """Refreshes a selection that is too large for one request."""
    return start_job(
        request,
        REFRESH,
        {"ids": [str(pk) for pk in pks]},
        running="These tools were being refreshed already: this is the job.",
        back=next_url(request, "/tools/"),
    )


@member_page("GET")
def badges(request: TenantRequest) -> HttpResponse:
    """One poll for all waiting rows of a list: changed badges are swapped out of band, the others keep waiting."""
    ids = chosen_ids(request.GET.getlist("id"))[:_MOST_BADGES]
    tools = visible_tools(request).filter(pk__in=ids).only("pk", "active").with_serving_embedding()
    rows = [(tool, badge_of(tool)) for tool in tools]
    context = {
        "arrived": [(tool, badge) for tool, badge in rows if not badge.is_waiting],
        "waiting": [tool.pk for tool, badge in rows if badge.is_waiting],
    }
    return render(request, "embeddings/badges.html", context)
