"""The list of tools, filtered by the same FilterSet as the API."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpResponse, QueryDict
from django.urls import reverse

from embeddings.models import EmbeddingStatus
from tools.catalogue.filters import ToolFilter
from tools.catalogue.visibility import seen
from tools.models import ManualOverride, Source, Tool, ToolQuerySet
from tools.web.embeddings.state import BADGES, badge_of
from tools.web.shell.access import TenantRequest, member_page
from tools.web.shell.badges import Badge
from tools.web.shell.lists import list_query, list_url, page_of, render_list
from tools.web.tools.state import listed_tools

_KEPT = ("embedding_status", "tag", "namespace", "sensitivity", "rows")
"""Filters that stand in the address but have no field in the form of the filters."""


class ToolPageFilter(ToolFilter):
    """The filters of the API, and one by state: only pages show inactive tools."""

    active = django_filters.ChoiceFilter(
        choices=[("no", "Inactive"), ("all", "All")],
        method="by_activity",
        label="State",
        empty_label="Active",
    )

    def by_activity(self, tools: QuerySet[Tool], name: str, value: str) -> QuerySet[Tool]:
        return tools if value == "all" else tools.filter(active=False)

    def filter_queryset(self, queryset: QuerySet[Tool]) -> QuerySet[Tool]:
        # An inactive tool is neither embedded nor searched, so it has no status of an embedding.
        if not self.form.cleaned_data.get("active") or self.form.cleaned_data.get("embedding_status"):
            queryset = queryset.filter(active=True)
        filtered: QuerySet[Tool] = super().filter_queryset(queryset)
        return filtered


@member_page("GET")
def tool_list(request: TenantRequest) -> HttpResponse:
    query = list_query(request)
    tools = listed_tools(request)
    filtered = ToolPageFilter(query, queryset=tools)
    page = page_of(_with_row_columns(filtered.qs), query, count=filtered.qs.order_by().count())
    rows = [(tool, badge_of(tool)) for tool in page]
    context: dict[str, object] = {
        "filter": filtered,
        "ignored": _ignored(filtered, query),
        "rows": rows,
        "chips": _chips(tools, query),
        "active_filters": _active_filters(filtered, query),
        "inactive": _inactive(tools, query) if not page.paginator.count else None,
        "waiting": [tool.pk for tool, badge in rows if badge.is_waiting],
        "kept": {name: query[name] for name in _KEPT if name in query},
        "here": list_url(request.path, query),
        "refresh_matching": list_url(reverse("refresh-matching"), query),
    }
    if not request.htmx:
        context |= {
            "options": _options(tools),
            "catalogue_is_empty": not page.paginator.count and not tools.exists(),
        }
    return render_list(request, "tools/list.html", query, page, context)


def _with_row_columns(tools: ToolQuerySet) -> ToolQuerySet:
    """The tools with the columns and annotations of a row, by name. A query that counts needs none of them."""
    return (
        tools.with_serving_embedding()
        .select_related("source")
        .defer("parameters", "output", "annotations", "search_text")
        .annotate(edited=Exists(ManualOverride.objects.filter(tool=OuterRef("pk"))))
        .order_by("name", "id")
    )


def _url(query: QueryDict, **changes: str | None) -> str:
    return list_url(reverse("tool-list"), query, **changes)


def _chips(tools: QuerySet[Tool], query: QueryDict) -> list[tuple[Badge, int, bool, str]]:
    """For each embedding status: its badge, how many of the tools that pass all other filters have it, whether it is chosen, and
    the URL that sets or clears it. Also how many are inactive or have no embedding, if any, without a URL: the counts add up."""
    others = query.copy()
    others.pop("embedding_status", None)
    counts = ToolPageFilter(others, queryset=tools).qs.count_by_embedding_status()
    chosen = query.get("embedding_status")
    return [
        (
            badge,
            counts.get(status, 0),
            status == chosen,
            _url(query, embedding_status=None if status == chosen else status)
            if status in EmbeddingStatus.values
            else "",
        )
        for status, badge in BADGES.items()
        if status in EmbeddingStatus.values or counts.get(status)
    ]


def _options(tools: QuerySet[Tool]) -> dict[str, list[Any]]:
    """The options of the select boxes: values that exist in this tenant, and pairs of a value and its word."""
    offered: dict[str, list[Any]] = {
        "source": list(seen(Source.objects.all()).values_list("slug", flat=True)),
        "has_override": [("true", "Overridden"), ("false", "Not overridden")],
        "active": [("no", "Inactive"), ("all", "Active and inactive")],
    }
    for field in ("source_protocol", "category", "routing_domain"):
        values = tools.exclude(**{field: ""}).order_by(field).values_list(field, flat=True).distinct()
        offered[field] = list(values[:500])
    return offered


def _active_filters(filtered: ToolPageFilter, query: QueryDict) -> list[tuple[str, str, str]]:
    """The label and value of each active filter, and the URL without it."""
    shown = []
    for name, filter_ in filtered.filters.items():
        value = query.get(name)
        if value is None or name in filtered.errors:
            continue
        choices = dict(filter_.extra.get("choices", ()))
        words = {"true": "yes", "false": "no"}.get(value, str(choices.get(value, value)))
        shown.append((str(filter_.label), words, _url(query, **{name: None})))
    return shown


def _inactive(tools: QuerySet[Tool], query: QueryDict) -> tuple[int, str] | None:
    """How many inactive tools the other filters leave, and the URL that lists them; None where inactive ones are listed anyway."""
    if query.get("active"):
        return None
    others = query.copy()
    others["active"] = "no"
    return ToolPageFilter(others, queryset=tools).qs.order_by().count(), _url(query, active="no")


def _ignored(filtered: ToolPageFilter, query: QueryDict) -> list[str]:
    """The filters with invalid values, as of an old link; the page says that they are ignored."""
    return [f"{filtered.filters[name].label} “{query.get(name)}”" for name in filtered.errors]
