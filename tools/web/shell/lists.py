"""Lists of rows: the filters stand in the query string, and one template gives the page and its `#results` fragment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django_htmx.http import push_url, replace_url

from tools.web.shell.access import TenantRequest
from tools.web.shell.polling import poll_count

Row = TypeVar("Row")

PAGE_SIZES = (25, 50, 100)


def list_query(request: TenantRequest) -> QueryDict:
    """A copy of the query string without empty values and without the count of polls."""
    query = QueryDict(mutable=True)
    for name, values in request.GET.lists():
        if name != "n" and any(values):
            query.setlist(name, [value for value in values if value])
    return query


def list_url(path: str, query: QueryDict, **changes: str | None) -> str:
    """The address of a list with some values of its query changed; None removes one. A change leads to the first page."""
    changed = query.copy()
    if changes:
        changed.pop("page", None)
    for name, value in changes.items():
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = value
    return f"{path}?{changed.urlencode()}" if changed else path


def known_choices(
    query: QueryDict, choices: Mapping[str, Mapping[str, str]]
) -> tuple[dict[str, str], list[str]]:
    """The values of the query that are choices of their filter, by filter, and in words the values that are not: those of
    an old link."""
    known, ignored = {}, []
    for name, words in choices.items():
        value = query.get(name, "")
        if value in words:
            known[name] = value
        elif value:
            ignored.append(f"{name} “{value}”")
    return known, ignored


def page_of(
    rows: Sequence[Row] | QuerySet[Any, Row], query: QueryDict, *, count: int | None = None
) -> Page[Row]:
    """The page that the query asks for with `rows` (rows a page) and `page`; the nearest one there is. `count` spares the
    query that counts."""
    size = query.get("rows", "")
    paginator = Paginator(rows, int(size) if size in map(str, PAGE_SIZES) else PAGE_SIZES[0])
    if count is not None:
        paginator.count = count
    return paginator.get_page(query.get("page"))


def render_list(
    request: TenantRequest, template: str, query: QueryDict, page: Page[Any], context: Mapping[str, object]
) -> HttpResponse:
    """The page, or its `#results` for htmx, which then shows the address of the list: typing replaces it, a poll leaves it
    alone, and everything else is a step that Back takes back."""
    context = {
        **context,
        "given": query,
        "page": page,
        "page_size": page.paginator.per_page,
        "page_sizes": PAGE_SIZES,
    }
    if not request.htmx:
        return render(request, template, context)
    answer = render(request, f"{template}#results", context)
    if poll_count(request):
        return answer
    change_url = replace_url if request.htmx.trigger == "q" else push_url
    return change_url(answer, list_url(request.path, query))
