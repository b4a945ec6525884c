"""Sources: what there is, one of them with its documents, and the import of a document with its preview."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from portal.tenancy.models import Role
from tools import services
from tools.errors import CatalogueError
from tools.imports import fetch
from tools.imports.apply import ImportReport
from tools.imports.fetch import FetchRefused
from tools.imports.service import import_document
from tools.imports.specs import DocumentRefused
from tools.models import Source, SourceDocument
from tools.web.access import PageRequest, actor, member_page
from tools.web.forms import ImportForm


def _sources() -> QuerySet[Source]:
    """Every source with its counts and its newest document, in one query."""
    newest = SourceDocument.objects.filter(source=OuterRef("pk")).order_by("-fetched_at")
    found: QuerySet[Source] = Source.objects.annotate(
        active_tools=Count("tools", filter=Q(tools__active=True)),
        inactive_tools=Count("tools", filter=Q(tools__active=False)),
        imported_at=Subquery(newest.values("fetched_at")[:1]),
        document_version=Subquery(newest.values("version")[:1]),
    )
    return found


def _find(pk: UUID) -> Any:
    source = _sources().filter(pk=pk).first()
    if source is None:
        raise Http404("There is no such source here.")
    return source


@require_GET
@member_page()
def source_list(request: PageRequest) -> HttpResponse:
    return render(request, "sources/list.html", {"sources": _sources()})


@require_GET
@member_page()
def source_page(request: PageRequest, pk: UUID) -> HttpResponse:
    """One source: what it is, its documents, and what its last import left out."""
    source = _find(pk)
    documents = list(source.documents.defer("content")[:20])
    context = {
        "source": source,
        "documents": documents,
        "report": documents[0].report if documents else None,
        "overrides": source.tools.filter(overrides__isnull=False).distinct().count(),
    }
    return render(request, "sources/detail.html", context)


@require_http_methods(["GET", "POST"])
@member_page(Role.OPERATOR)
def import_page(request: PageRequest) -> HttpResponse:
    """The form; its two buttons preview (nothing is stored) or import. htmx swaps `#report` and so keeps a chosen file."""
    if request.method == "GET":
        start = {"url": request.GET.get("url", ""), "source": request.GET.get("source", "")}
        return render(request, "sources/import.html", {"form": ImportForm(initial=start)})
    form = ImportForm(request.POST, request.FILES)
    report = _import(request, form) if form.is_valid() else None
    context = {"form": form, "report": report, "source": _source_of(report)}
    name = "sources/import.html#report" if request.htmx else "sources/import.html"
    return render(request, name, context, status=422 if report is None else 200)


def _import(request: PageRequest, form: ImportForm) -> ImportReport | None:
    """The report, or None with the refusal among the form's errors."""
    given = form.cleaned_data
    upload: UploadedFile[bytes] | None = given["document"]
    try:
        if upload is not None:
            raw, name = upload.read(), upload.name or "document"
        elif given["url"]:
            raw, name = fetch.document(given["url"]), given["url"]
        else:
            raw, name = given["text"].encode(), f"{given['source']}.txt"
        return import_document(
            tenant_id=request.member.tenant_id,
            raw=raw,
            name=name,
            slug=given["source"],
            kind=given["kind"],
            actor=actor(request),
            dry_run="import" not in request.POST,
        )
    except (DocumentRefused, FetchRefused, CatalogueError) as error:
        form.add_error(None, str(error))
        return None


def _source_of(report: ImportReport | None) -> Source | None:
    if report is None or report.dry_run:
        return None
    found: Source | None = Source.objects.filter(slug=report.source).first()
    return found


@require_POST
@member_page(Role.OPERATOR)
def set_sync_wins(request: PageRequest, pk: UUID) -> HttpResponse:
    """Whether later imports overwrite what people edited."""
    source = _find(pk)
    wins = request.POST.get("sync_wins") == "yes"
    try:
        services.set_sync_wins(pk=source.pk, sync_wins=wins, actor=actor(request))
    except CatalogueError as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request,
            "From now on, imports of this source overwrite edits."
            if wins
            else "From now on, edits of this source's tools are kept.",
        )
    return redirect("source", pk=pk)


@require_http_methods(["GET", "POST"])
@member_page(Role.ADMIN)
def delete_source(request: PageRequest, pk: UUID) -> HttpResponse:
    """Deletes a source with everything that came from it, after a question that counts it."""
    source = _find(pk)
    if request.method == "POST":
        try:
            count = services.delete_source(pk=source.pk, actor=actor(request))
        except CatalogueError as error:
            messages.error(request, str(error))
            return redirect("source", pk=pk)
        messages.success(request, f"The source {source.slug} was deleted with {count} tools.")
        return redirect("source-list")
    tools = source.active_tools + source.inactive_tools
    question = {
        "title": f"Delete the source {source.slug}?",
        "effect": f"This removes its {tools} tools with their edits and vectors, its endpoints and its documents. "
        "It cannot be undone; a new import brings the tools back, but not the edits.",
        "action": request.path,
        "button": f"Delete source and {tools} tools",
        "dangerous": True,
        "cancel": reverse("source", args=[pk]),
    }
    return render(request, "confirm.html#question" if request.htmx else "confirm.html", question)
