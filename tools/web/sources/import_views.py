"""The import of a document or of an MCP server's tools: Test reports what it holds and stores nothing, Plan creates a sync."""

from __future__ import annotations

import time
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from portal.outbound.errors import FetchError
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Role
from tools.catalogue.errors import CatalogueError
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import (
    READ_SECONDS,
    IncomingDocument,
    RequestDeadline,
    parse,
    read_mcp_url,
    read_server,
    read_url,
)
from tools.models import Source, SourceKind, Sync
from tools.web.shell.access import TenantRequest, actor, member_page, render_part
from tools.web.sources.forms import ImportForm


@member_page("GET POST", Role.OPERATOR, calls_external=True, has_text=True, takes_document=True)
def import_page(request: TenantRequest) -> HttpResponse:
    """The form with its two buttons. htmx swaps only `#report`, so that the form keeps a chosen file."""
    with tenant_context(request.member.tenant_id):
        if request.method == "GET":
            start = {name: request.GET.get(name, "") for name in ("url", "source", "server", "server_url")}
            return render(request, "sources/import.html", {"form": ImportForm(initial=start)})
        form = ImportForm(request.POST, request.FILES)
        is_valid = form.is_valid()
    tested: dict[str, Any] | None = None
    if is_valid:
        try:
            if "plan" in request.POST:
                sync = _plan(request, form.cleaned_data)
                there = reverse("sync", args=[sync.source_id, sync.pk])
                return HttpResponseClientRedirect(there) if request.htmx else redirect(there)
            tested = _test(request, form.cleaned_data)
        except (DocumentRefused, FetchError, CatalogueError) as error:
            form.add_error(None, str(error))
    context = {"form": form, **(tested or {})}
    with tenant_context(request.member.tenant_id):
        return render_part(request, "sources/import.html#report", context, 422 if tested is None else 200)


def _read(given: dict[str, Any], deadline: RequestDeadline) -> IncomingDocument:
    """Reads the document. Raises FetchError."""
    slug, kind = given["source"], given["kind"]
    upload: UploadedFile[bytes] | None = given["document"]
    if upload is not None:
        return IncomingDocument(upload.read(), upload.name or "document", slug, kind)
    if given["url"]:
        return read_url(given["url"], kind=kind, slug=slug, seconds=deadline.left(READ_SECONDS))
    if given["server"]:
        return read_server(given["server"], slug=slug)
    if given["server_url"]:
        return read_mcp_url(given["server_url"], slug=slug)
    return IncomingDocument(given["text"].encode(), f"{slug}.txt", slug, kind)


def _deadline(given: dict[str, Any]) -> RequestDeadline:
    return RequestDeadline(asks_server=bool(given["server"] or given["server_url"]))


def _plan(request: TenantRequest, given: dict[str, Any]) -> Sync:
    """Raises DocumentRefused, FetchError, CatalogueError."""
    deadline = _deadline(given)
    incoming = _read(given, deadline)
    return syncs.plan_document(
        incoming, tenant_id=request.member.tenant_id, actor=actor(request), seconds=deadline.left()
    )


def _test(request: TenantRequest, given: dict[str, Any]) -> dict[str, Any]:
    """Reports the document and what a plan would change. Stores nothing. Raises as `_plan`."""
    begun, deadline = time.monotonic(), _deadline(given)
    incoming = _read(given, deadline)
    seconds = time.monotonic() - begun
    document = parse(incoming, seconds=deadline.left())
    with tenant_context(request.member.tenant_id):
        return {
            "found": document,
            "kind": SourceKind(document.kind).label,
            "seconds": None if given["document"] or given["text"] else seconds,
            "report": syncs.import_parsed(document, incoming, actor=actor(request), dry_run=True),
            "is_new": not Source.objects.filter(slug=incoming.slug).exists(),
        }
