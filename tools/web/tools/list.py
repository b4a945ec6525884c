"""The list of tools: one queryset and one filter form for the page, its fragment and its pages; the URL is the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import django_filters
from django.core.paginator import Page, Paginator
from django.db.models import Count, Exists, OuterRef, QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET
from django_htmx.http import push_url, replace_url

from embeddings.models import EmbeddingStatus
from tools.catalogue.filters import ToolFilter
from tools.models import ManualOverride, Source, Tool, ToolQuerySet
from tools.web.embeddings.state import BADGES, Badge, badge_of
from tools.web.shell.access import PageRequest, member_page
from tools.web.shell.polling import poll_seconds
from tools.web.tools.state import listed_tools

PAGE_SIZES = (25, 50, 100)


class ToolPageFilter(ToolFilter):
    """The API's filters, and the inactive tools that only people see."""

    active = django_filters.ChoiceFilter(
        choices=[("no", "Inactive"), ("all", "All")],
        method="by_activity",
        label="State",
        empty_label="Active",
    )

    def by_activity(self, tools: QuerySet[Tool], name: str, value: str) -> QuerySet[Tool]:
        return tools if value == "all" else tools.filter(active=False)

    def filter_queryset(self, queryset: QuerySet[Tool]) -> QuerySet[Tool]:
        if not self.form.cleaned_data.get("active"):
            queryset = queryset.filter(active=True)
        filtered: QuerySet[Tool] = super().filter_queryset(queryset)
        return filtered


@dataclass(frozen=True, slots=True)
class Chip:
    """A choice of embedding status with how many tools it would show; `url` chooses it or lets it go."""

    badge: Badge
    count: int
    chosen: bool
    url: str


@dataclass(frozen=True, slots=True)
class ActiveFilter:
    """A filter in force, in words, and the URL without it."""

    label: str
    value: str
    url: str


@require_GET
@member_page()
def tool_list(request: PageRequest) -> HttpResponse:
    """The page, or `#results` for htmx."""
    given = without_blanks(request.GET)
    tools = listed_tools(request)
    filtered = ToolPageFilter(given, queryset=tools)
    page = _page(filtered.qs, given)
    rows = [(tool, badge_of(tool)) for tool in page]
    context = {
        "filter": filtered,
        "given": given,
        "ignored": _ignored(filtered, given),
        "page": page,
        "rows": rows,
        "page_size": page.paginator.per_page,
        "page_sizes": PAGE_SIZES,
        "chips": _chips(tools, given),
        "active_filters": _active_filters(filtered, given),
        "waiting": [tool.pk for tool, badge in rows if badge.is_waiting],
        "poll_seconds": poll_seconds(0),
        "next_count": 1,
        "here": list_url(given),
        "refresh_matching": f"/tools/refresh-matching/{list_url(given).removeprefix('/tools/')}",
    }
    if not request.htmx:
        context |= {
            "options": _options(tools),
            "catalogue_is_empty": not page.paginator.count and not tools.exists(),
        }
        return render(request, "tools/list.html", context)
    answer = render(request, "tools/list.html#results", context)
    # Typing replaces the address; everything else is a step that Back takes back.
    return (replace_url if request.htmx.trigger == "q" else push_url)(answer, list_url(given))


def without_blanks(query: QueryDict) -> QueryDict:
    kept = QueryDict(mutable=True)
    for name, values in query.lists():
        if any(values):
            kept.setlist(name, [value for value in values if value])
    return kept


def list_url(query: QueryDict, **changes: str | None) -> str:
    """The list's address for the query with some values changed; None removes one. Paging starts anew then."""
    changed = query.copy()
    if changes:
        changed.pop("page", None)
    for name, value in changes.items():
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = value
    return f"/tools/?{changed.urlencode()}" if changed else "/tools/"


def _page(tools: ToolQuerySet, given: QueryDict) -> Page[Any]:
    size = given.get("rows", "")
    shown: Any = (
        tools.select_related("source")
        .with_serving_embedding()
        .defer("parameters", "output", "annotations", "search_text")
        .annotate(edited=Exists(ManualOverride.objects.filter(tool=OuterRef("pk"))))
        .order_by("name", "id")
    )
    paginator = Paginator(shown, int(size) if size in map(str, PAGE_SIZES) else PAGE_SIZES[0])
    # Counted without what is only shown.
    paginator.count = tools.order_by().count()
    return paginator.get_page(given.get("page"))


def _chips(tools: QuerySet[Tool], given: QueryDict) -> list[Chip]:
    """How many of the tools that pass all other filters have each embedding status."""
    others = given.copy()
    others.pop("embedding_status", None)
    found = ToolPageFilter(others, queryset=tools).qs.order_by()
    counts: dict[str, int] = {
        status or "none": count
        for status, count in found.values_list("embeddings__status").annotate(Count("pk"))
    }
    chosen = given.get("embedding_status")
    return [
        Chip(
            badge=badge,
            count=counts.get(status, 0),
            chosen=status == chosen,
            url=list_url(given, embedding_status=None if status == chosen else status),
        )
        for status, badge in BADGES.items()
        if status in EmbeddingStatus.values
    ]


def _options(tools: QuerySet[Tool]) -> dict[str, list[Any]]:
    """What the select boxes offer: values that exist in this tenant."""
    offered: dict[str, list[Any]] = {"source": list(Source.objects.values_list("slug", flat=True))}
    for field in ("source_protocol", "category", "routing_domain"):
        values = tools.exclude(**{field: ""}).order_by(field).values_list(field, flat=True).distinct()
        offered[field] = list(values[:500])
    return offered


def _active_filters(filtered: ToolPageFilter, given: QueryDict) -> list[ActiveFilter]:
    shown = []
    for name, filter_ in filtered.filters.items():
        value = given.get(name)
        if value is None or name in filtered.errors:
            continue
        choices = dict(filter_.extra.get("choices", ()))
        words = {"true": "yes", "false": "no"}.get(value, str(choices.get(value, value)))
        shown.append(ActiveFilter(str(filter_.label), words, list_url(given, **{name: None})))
    return shown


def _ignored(filtered: ToolPageFilter, given: QueryDict) -> list[str]:
    """Filters of an old link that no longer mean anything; they are left out with a notice."""
    return [f"{filtered.filters[name].label} “{given.get(name)}”" for name in filtered.errors]
