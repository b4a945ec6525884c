"""The import of a document or of an MCP server's tools: Test says what is there and stores nothing, Plan makes a sync of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from portal.outbound.errors import FetchError
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Role
from tools.catalogue import servers
from tools.catalogue.errors import CatalogueError
from tools.imports.fetching import sandbox
from tools.imports.fetching.http import fetch_document
from tools.imports.fetching.mcp import server as mcp_server
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import slug_of
from tools.imports.syncing.store import Origin
from tools.models import McpServer, Source, SourceKind, Sync
from tools.web.shell.access import PAGE_SECONDS, PageRequest, actor, member_page
from tools.web.sources.forms import ImportForm


@dataclass(frozen=True, slots=True)
class _Given:
    """A document, wherever it came from."""

    raw: bytes
    name: str
    kind: str
    warnings: Sequence[str] = ()
    server: McpServer | None = None


@require_http_methods(["GET", "POST"])
@member_page(Role.OPERATOR, calls_external=True)
def import_page(request: PageRequest) -> HttpResponse:
    """The form and its two buttons. htmx swaps `#report` and so keeps a chosen file."""
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
    name = "sources/import.html#report" if request.htmx else "sources/import.html"
    with tenant_context(request.member.tenant_id):
        return render(request, name, context, status=422 if tested is None else 200)


def _read(given: dict[str, Any], seconds: float) -> _Given:
    """Takes at most `seconds`. Raises FetchError."""
    upload: UploadedFile[bytes] | None = given["document"]
    if upload is not None:
        return _Given(upload.read(), upload.name or "document", given["kind"])
    if given["url"]:
        return _Given(fetch_document(given["url"], seconds=seconds), given["url"], given["kind"])
    if given["server"]:
        server: McpServer = given["server"]
        found = servers.ask(server, seconds=seconds)
        return _Given(found.raw, server.slug, SourceKind.MCP, found.warnings, server)
    if given["server_url"]:
        found = mcp_server.from_url(given["server_url"], seconds=seconds)
        return _Given(found.raw, given["server_url"], SourceKind.MCP, found.warnings)
    return _Given(given["text"].encode(), f"{given['source']}.txt", given["kind"])


def _rest(begun: float) -> float:
    """The seconds that are left for parsing; a little even after a server that did not end in time."""
    return max(5.0, begun + PAGE_SECONDS - time.monotonic())


def _plan(request: PageRequest, given: dict[str, Any]) -> Sync:
    """Raises DocumentRefused, FetchError, CatalogueError."""
    begun = time.monotonic()
    read = _read(given, syncs.REQUEST_SECONDS)
    return syncs.plan_document(
        tenant_id=request.member.tenant_id,
        raw=read.raw,
        name=read.name,
        actor=actor(request),
        slug=given["source"] or slug_of(read.name),
        kind=read.kind,
        server=read.server,
        warnings=read.warnings,
        seconds=_rest(begun),
    )


def _test(request: PageRequest, given: dict[str, Any]) -> dict[str, Any]:
    """What is there and what a plan would hold; nothing is stored. Raises as `_plan`."""
    begun = time.monotonic()
    read = _read(given, servers.TEST_SECONDS)
    seconds = time.monotonic() - begun
    document = syncs.parsed(read.kind or sandbox.ANY, read.raw, read.name, read.warnings, _rest(begun))
    kind = SourceKind(document.kind)
    origin = Origin(slug=given["source"] or slug_of(read.name), kind=kind, name=read.name, raw=read.raw)
    with tenant_context(request.member.tenant_id):
        return {
            "found": document,
            "kind": kind.label,
            "seconds": None if given["document"] or given["text"] else seconds,
            "report": syncs.apply_document(document, origin, actor=actor(request), dry_run=True),
            "is_new": not Source.objects.filter(slug=origin.slug).exists(),
        }
