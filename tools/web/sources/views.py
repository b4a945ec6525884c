"""Sources: what there is, and one of them with its settings, documents, syncs and the tools it no longer offers."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import push_url, replace_url

from portal.jobs import services as jobs
from portal.jobs.errors import AlreadyRunning, JobError
from portal.tenancy.models import Role
from tools.catalogue import history, sources
from tools.catalogue.errors import CatalogueError, Invalid
from tools.catalogue.tools import catalogue_write
from tools.imports.syncing.jobs import SYNC
from tools.models import Source, SourceDocument, SourceKind, Sync, SyncState
from tools.web.history.state import entries, last_author, settings_at
from tools.web.shell.access import PageRequest, actor, member_page
from tools.web.shell.conflict import merge
from tools.web.sources.forms import SourceForm
from tools.web.syncs.state import STATES
from tools.web.tools.list import PAGE_SIZES, without_blanks
from tools.web.tools.state import visible_tools

_MOST_GONE = 50
_MOST_SETTINGS = 10
_STATES = {"failing": "Failing", "planned": "A plan waits", "scheduled": "Scheduled"}


def _sources() -> QuerySet[Any]:
    """Every source with its counts, its newest sync and document, and its plan that waits, in one query."""
    syncs = Sync.objects.filter(source=OuterRef("pk"))
    newest = SourceDocument.objects.filter(source=OuterRef("pk")).order_by("-fetched_at")
    found: QuerySet[Any] = Source.objects.select_related("server").annotate(
        active_tools=Count("tools", filter=Q(tools__active=True)),
        inactive_tools=Count("tools", filter=Q(tools__active=False)),
        document_version=Subquery(newest.values("version")[:1]),
        # A failure is over once it was read again.
        last_sync=Subquery(
            syncs.exclude(state=SyncState.FAILED, created_at__lt=OuterRef("synced_at"))
            .order_by("-created_at")
            .values("pk")[:1]
        ),
        waiting_sync=Subquery(syncs.filter(state=SyncState.PLANNED).order_by("-created_at").values("pk")[:1]),
    )
    return found


def _find(pk: UUID) -> Any:
    source = _sources().annotate(newest_event=history.newest_event(Source)).filter(pk=pk).first()
    if source is None:
        raise Http404("There is no such source here.")
    return source


def _shown_syncs(syncs: QuerySet[Sync]) -> QuerySet[Sync]:
    """The counts of their reports without what was left out and warned of, which may be long."""
    counts = ("added", "changed", "moved", "removed", "conflicts")
    found: QuerySet[Sync] = syncs.defer("summary").annotate(
        **{name: F(f"summary__{name}") for name in counts}
    )
    return found


@require_GET
@member_page()
def source_list(request: PageRequest) -> HttpResponse:
    """The page, or `#results` for a filter or a page of it."""
    given = without_blanks(request.GET)
    size = given.get("rows", "")
    paginator = Paginator(
        _filtered(given).order_by("slug"), int(size) if size in map(str, PAGE_SIZES) else PAGE_SIZES[0]
    )
    page = paginator.get_page(given.get("page"))
    last = {
        one.pk: one
        for one in _shown_syncs(Sync.objects.filter(pk__in=[row.last_sync for row in page if row.last_sync]))
    }
    rows = [
        (source, sync, STATES[SyncState(sync.state)] if sync else None)
        for source in page
        for sync in [last.get(source.last_sync)]
    ]
    context = {
        "given": given,
        "filtered": [word for name in ("q", "kind", "state") if (word := _word(name, given.get(name, "")))],
        "page": page,
        "page_size": paginator.per_page,
        "page_sizes": PAGE_SIZES,
        "rows": rows,
        "kind_choices": SourceKind.choices,
        "state_choices": list(_STATES.items()),
    }
    if not request.htmx:
        return render(request, "sources/list.html", context)
    here = f"{request.path}?{given.urlencode()}" if given else request.path
    answer = render(request, "sources/list.html#results", context)
    return (replace_url if request.htmx.trigger == "q" else push_url)(answer, here)


def _filtered(given: QueryDict) -> QuerySet[Any]:
    found = _sources()
    if text := given.get("q", "").replace("\0", ""):
        found = found.filter(
            Q(slug__icontains=text)
            | Q(title__icontains=text)
            | Q(document_title__icontains=text)
            | Q(url__icontains=text)
        )
    if given.get("kind") in SourceKind.values:
        found = found.filter(kind=given["kind"])
    state = given.get("state")
    if state == "failing":
        return found.filter(failures__gt=0)
    if state == "planned":
        return found.filter(waiting_sync__isnull=False)
    return found.exclude(schedule="") if state == "scheduled" else found


def _word(name: str, value: str) -> str:
    """A filter in force, in words; one that means nothing is not in force."""
    if name == "q":
        return f"“{value}”" if value else ""
    words: dict[str, Any] = dict(SourceKind.choices) if name == "kind" else _STATES
    return str(words.get(value, ""))


@require_GET
@member_page()
def source_page(request: PageRequest, pk: UUID) -> HttpResponse:
    """One source; `?page=` is of its syncs."""
    return _render(request, _find(pk))


def _render(
    request: PageRequest, source: Any, form: SourceForm | None = None, *, status: int = 200, **more: Any
) -> HttpResponse:
    given = without_blanks(request.GET)
    overrides = _overridden(source)
    restored = settings_at(source, given.get("restore", ""), sources.SETTINGS)
    gone = visible_tools(request).filter(source=source, endpoint__active=False).select_related("endpoint")
    paginator = Paginator(_shown_syncs(source.syncs.all()), PAGE_SIZES[0])
    page = paginator.get_page(given.get("page"))
    context = {
        "source": source,
        "form": form or SourceForm(source=source, overrides=overrides, shown=restored),
        "restored": bool(restored),
        "settings": entries(Source, {"pgh_obj_id": source.pk}, _MOST_SETTINGS),
        "restore": reverse("source", args=[source.pk]) if request.member.is_operator else "",
        "documents": list(source.documents.defer("content", "report").order_by("layer", "-fetched_at")[:100]),
        "overrides": overrides,
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


@require_POST
@member_page(Role.OPERATOR)
def save_settings(request: PageRequest, pk: UUID) -> HttpResponse:
    """422 comes back with the reasons, 409 with what somebody else has set meanwhile; what was typed is kept."""
    source = _find(pk)
    form = SourceForm(request.POST, source=source, overrides=_overridden(source))
    if not form.is_valid():
        return _render(request, source, form, status=422)
    try:
        with catalogue_write(actor(request)):
            list(Source.objects.filter(pk=pk).select_for_update())
            source = _find(pk)
            is_stale = form.cleaned_data["seen"] != source.newest_event
            if not is_stale:
                sources.update_source(pk=pk, actor=actor(request), **form.changes())
    except Invalid as error:
        form.add_refusals(error)
        return _render(request, source, form, status=422)
    except CatalogueError as error:
        form.add_error(None, str(error))
        return _render(request, source, form, status=422)
    if is_stale:
        return _conflict(request, source, form)
    messages.success(request, "The settings are saved.")
    return redirect("source", pk=pk)


def _overridden(source: Source) -> int:
    """How many of its tools people have edited."""
    count: int = source.tools.filter(overrides__isnull=False).distinct().count()
    return count


def _conflict(request: PageRequest, source: Any, form: SourceForm) -> HttpResponse:
    seen = settings_at(source, str(form.cleaned_data["seen"]), sources.SETTINGS)
    merged = merge(SourceForm.values_of(source), seen or None, form)
    # Unbound, so that the fields show the merged values and what its author has seen is what is stored now.
    again = SourceForm(source=source, overrides=_overridden(source), shown=merged.values)
    stale = f"{last_author(source)} changed these settings while you were editing them. Nothing of yours was stored yet."
    return _render(request, source, again, status=409, merge=merged, stale=stale)


@require_POST
@member_page(Role.OPERATOR)
def sync_source(request: PageRequest, pk: UUID) -> HttpResponse:
    """Starts the job that reads a source anew and makes a plan of what changed."""
    source = _find(pk)
    if not source.is_readable:
        messages.error(
            request,
            "This source has no address to be read anew from. Import a newer document, or set its URL.",
        )
        return redirect("source", pk=pk)
    try:
        job = jobs.start(SYNC, {"source": source.slug}, by=actor(request))
    except AlreadyRunning as error:
        messages.info(request, "This source is being read already.")
        return redirect("job", pk=error.job.pk)
    except JobError as error:
        messages.error(request, str(error))
        return redirect("source", pk=pk)
    return redirect("job", pk=job.pk)


@require_GET
@member_page(Role.OPERATOR)
def download_document(request: PageRequest, pk: UUID, document: UUID) -> HttpResponse:
    """The document as it was read, to the byte. It is a stranger's, so it is never shown, only saved."""
    found = SourceDocument.objects.filter(pk=document, source_id=pk).first()
    if found is None:
        raise Http404("There is no such document here.")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", found.name.rsplit("/", 1)[-1])[-100:].strip("-.") or "document"
    return HttpResponse(
        bytes(found.content),
        content_type="application/octet-stream",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Content-Type-Options": "nosniff",
        },
    )


@require_http_methods(["GET", "POST"])
@member_page(Role.ADMIN)
def delete_source(request: PageRequest, pk: UUID) -> HttpResponse:
    """Deletes a source with everything that came from it, after a question that counts it."""
    source = _find(pk)
    if request.method == "POST":
        try:
            count = sources.delete_source(pk=source.pk, actor=actor(request))
        except CatalogueError as error:
            messages.error(request, str(error))
            return redirect("source", pk=pk)
        messages.success(request, f"The source {source.slug} was deleted with {count} tools.")
        return redirect("source-list")
    tools = source.active_tools + source.inactive_tools
    question = {
        "title": f"Delete the source {source.slug}?",
        "effect": f"This removes its {tools} tools with their edits and vectors, its endpoints, its documents and its syncs. "
        "It cannot be undone; a new import brings the tools back, but not the edits.",
        "action": request.path,
        "button": f"Delete source and {tools} tools",
        "dangerous": True,
        "cancel": reverse("source", args=[pk]),
    }
    return render(request, "shell/confirm.html#question" if request.htmx else "shell/confirm.html", question)
