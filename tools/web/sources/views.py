"""Sources: the list, and one source with its settings, documents, syncs and the tools it no longer offers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse

from portal.tenancy.models import Role
from tools.catalogue import history, overrides, sources
from tools.catalogue.errors import CatalogueError, StaleSettings
from tools.catalogue.visibility import seen, with_tool_counts
from tools.imports.syncing.jobs import SYNC
from tools.models import ManualOverride, Source, SourceDocument, SourceKind, Sync, SyncState
from tools.web.history.state import last_author, settings_at, settings_history
from tools.web.jobs.views import start_job
from tools.web.shell.access import TenantRequest, actor, find_row, member_page
from tools.web.shell.confirm import confirm
from tools.web.shell.conflict import merge_settings
from tools.web.shell.errors import ErrorsAsMessages
from tools.web.shell.lists import known_choices, list_query, page_of, render_list
from tools.web.sources.forms import SourceForm
from tools.web.syncs.state import STATES
from tools.web.tools.state import visible_tools

_MOST_GONE = 50
_CHOICES = {
    "kind": {str(kind.value): str(kind.label) for kind in SourceKind},
    "state": {"failing": "Failing", "planned": "Plan waiting", "scheduled": "Scheduled"},
}


def _sources() -> QuerySet[Any]:
    """The sources that the member may see, with their counts, newest sync and document, and waiting plan, in one query."""
    syncs = seen(Sync.objects.filter(source=OuterRef("pk")))
    newest = seen(SourceDocument.objects.filter(source=OuterRef("pk"))).order_by("-fetched_at")
    return with_tool_counts(seen(Source.objects.select_related("server"))).annotate(
        document_version=Subquery(newest.values("version")[:1]),
        # A failure counts until the next successful read.
        last_sync=Subquery(
            syncs.exclude(state=SyncState.FAILED, created_at__lt=OuterRef("synced_at"))
            .order_by("-created_at")
            .values("pk")[:1]
        ),
        waiting_sync=Subquery(syncs.filter(state=SyncState.PLANNED).order_by("-created_at").values("pk")[:1]),
    )


def _find(pk: UUID) -> Any:
    return find_row(_sources().annotate(newest_event=history.newest_event(Source)), "source", pk=pk)


def _with_counts(syncs: QuerySet[Sync]) -> QuerySet[Sync]:
    """The syncs with the counts of their summaries, but without the summaries, which may be long."""
    counts = ("added", "changed", "moved", "removed", "conflicts")
    return syncs.defer("summary").annotate(**{name: F(f"summary__{name}") for name in counts})


@member_page("GET")
def source_list(request: TenantRequest) -> HttpResponse:
    query = list_query(request)
    known, ignored = known_choices(query, _CHOICES)
    page = page_of(_filtered(query.get("q", ""), known).order_by("slug"), query)
    last = Sync.objects.filter(pk__in=[row.last_sync for row in page if row.last_sync])
    syncs = {sync.pk: sync for sync in _with_counts(last)}
    conflicts = _conflicts(request, list(page))
    rows = [
        (source, sync, STATES[SyncState(sync.state)] if sync else None, conflicts[source.pk])
        for source in page
        for sync in [syncs.get(source.last_sync)]
    ]
    text = [f"“{query['q']}”"] if query.get("q") else []
    context = {
        "ignored": ignored,
        "filtered": [*text, *(_CHOICES[name][value] for name, value in known.items())],
        "rows": rows,
        "choices": _CHOICES,
    }
    return render_list(request, "sources/list.html", query, page, context)


def _conflicts(request: TenantRequest, sources: list[Source]) -> Counter[UUID]:
    """How many overrides of each of the sources are in conflict now."""
    shown = visible_tools(request).filter(source__in=sources, endpoint__isnull=False)
    overridden = dict(shown.filter(overrides__isnull=False).values_list("pk", "source_id"))
    if not overridden:
        return Counter()
    statuses = overrides.override_statuses(ManualOverride.objects.filter(tool__in=list(overridden)))
    return Counter(overridden[one.tool_id] for one in statuses if one.conflict)


def _filtered(text: str, known: Mapping[str, str]) -> QuerySet[Any]:
    found = _sources()
    if text:
        found = found.filter(
            Q(slug__icontains=text)
            | Q(title__icontains=text)
            | Q(document_title__icontains=text)
            | Q(url__icontains=text)
        )
    if "kind" in known:
        found = found.filter(kind=known["kind"])
    match known.get("state"):
        case "failing":
            return found.filter(failures__gt=0)
        case "planned":
            return found.filter(waiting_sync__isnull=False)
        case "scheduled":
            return found.exclude(schedule="")
    return found


@member_page("GET")
def source_page(request: TenantRequest, pk: UUID) -> HttpResponse:
    """One source. `?page=` pages its syncs."""
    return _render(request, _find(pk))


def _render(
    request: TenantRequest, source: Any, form: SourceForm | None = None, *, status: int = 200, **more: object
) -> HttpResponse:
    given = list_query(request)
    restored = settings_at(source, given.get("restore", ""), SourceForm.names)
    gone = visible_tools(request).filter(source=source, endpoint__active=False).select_related("endpoint")
    page = page_of(_with_counts(seen(source.syncs.all())), given)
    documents = list(
        seen(source.documents.all()).defer("content", "report").order_by("layer", "-fetched_at")[:100]
    )
    context = {
        "source": source,
        "form": form or SourceForm(row=source, shown=restored),
        "restored": bool(restored),
        "settings": settings_history(source),
        "documents": documents,
        "has_layers": len({one.layer for one in documents}) > 1,
        "gone": gone.only("name", "endpoint__key", "endpoint__updated_at").order_by(
            "-endpoint__updated_at", "pk"
        )[:_MOST_GONE],
        "gone_count": gone.count(),
        "page": page,
        "syncs": [(sync, STATES[SyncState(sync.state)]) for sync in page],
        "given": given,
        **more,
    }
    name = "sources/detail.html#history" if request.htmx and form is None else "sources/detail.html"
    return render(request, name, context, status=status)


@member_page("POST", Role.OPERATOR, has_text=True)
def save_settings(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Saves the form. Answers 422 with the errors, or 409 with the values that somebody else has saved since; the form keeps
    what was typed."""
    source = _find(pk)
    form = SourceForm(request.POST, row=source)
    if form.is_valid():
        try:
            seen = form.cleaned_data["seen"]
            sources.update_source(pk=pk, actor=actor(request), expected_event=seen, **form.changes())
        except StaleSettings:
            return _conflict(request, _find(pk), form)
        except CatalogueError as error:
            form.add_refusals(error)
        else:
            messages.success(request, "Settings saved.")
            return redirect("source", pk=pk)
    return _render(request, source, form, status=422)


def _conflict(request: TenantRequest, source: Any, form: SourceForm) -> HttpResponse:
    merged = merge_settings(source, form)
    # Unbound, so that its fields show the merged values and `seen` is the newest event.
    again = SourceForm(row=source, shown=merged.values)
    stale = f"{last_author(source)} changed these settings while you were editing them. Your changes have not been saved yet."
    return _render(request, source, again, status=409, merge=merged, stale=stale)


@member_page("POST", Role.OPERATOR)
def sync_source(request: TenantRequest, pk: UUID) -> HttpResponse:
    source = _find(pk)
    if not source.is_readable:
        messages.error(
            request,
            "This source has no address to sync from. Import a newer document, or set its URL.",
        )
        return redirect("source", pk=pk)
    return start_job(
        request,
        SYNC,
        {"source": source.slug},
        running="This source was being synced already: this is the job.",
        back=reverse("source", args=[pk]),
    )


@member_page("GET", Role.OPERATOR)
def download_document(request: TenantRequest, pk: UUID, document: UUID) -> HttpResponse:
    """Downloads the document, byte for byte. It is untrusted, so a browser must save it and never show it."""
    found = find_row(seen(SourceDocument.objects.all()), "document", pk=document, source_id=pk)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", found.name.rsplit("/", 1)[-1])[-100:].strip("-.") or "document"
    return HttpResponse(
        bytes(found.content),
        content_type="application/octet-stream",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Content-Type-Options": "nosniff",
        },
    )


@member_page("GET POST", Role.ADMIN)
def delete_source(request: TenantRequest, pk: UUID) -> HttpResponse:
    source = _find(pk)
    count, wanted = source.active_tools + source.inactive_tools, request.POST.get("tools", "")
    if request.method != "POST" or (count and wanted not in sources.ToolsOfDeleted.values):
        return confirm(
            request,
            title=f"Delete the source {source.slug}?",
            effect="This deletes its endpoints, its documents and its syncs. It cannot be undone.",
            problem="Choose what becomes of its tools." if request.method == "POST" else "",
            details="sources/delete.html",
            count=count,
            overridden=source.tools.filter(overrides__isnull=False).distinct().count(),
            button="Delete the source",
            dangerous=True,
            cancel=reverse("source", args=[pk]),
            status=422 if request.method == "POST" else 200,
        )
    with ErrorsAsMessages(request):
        done = sources.delete_source(
            pk=source.pk, actor=actor(request), tools=wanted or sources.ToolsOfDeleted.DELETE
        )
        tools = f"{done:,} tool{pluralize(done)}"
        messages.success(
            request,
            f"The source {source.slug} was deleted, and its {tools} deactivated."
            if wanted == sources.ToolsOfDeleted.DEACTIVATE
            else f"The source {source.slug} was deleted with {tools}.",
        )
        return redirect("source-list")
    return redirect("source", pk=pk)
