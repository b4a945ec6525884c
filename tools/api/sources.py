"""The REST endpoints of sources: import one, look at it, change it, delete it, try whether it can be read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.http.bodies import DocumentForm, JsonBody
from portal.http.conditional import tagged
from portal.http.idempotency import idempotent
from portal.http.problems import Problem
from portal.jobs import services as jobs
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope
from tools.api import source_docs as docs
from tools.api.callers import actor_of, caller_of
from tools.api.jobs import accepted
from tools.api.pages import BySlug, refuse_unknown
from tools.api.refusals import as_problems, in_bulkhead
from tools.api.source_serializers import ImportOptionsSerializer, ImportSerializer, SourceChangeSerializer
from tools.api.versions import etag_of, require_seen
from tools.catalogue import sources
from tools.catalogue.errors import Invalid
from tools.catalogue.sources import source_write
from tools.catalogue.tools import catalogue_write
from tools.imports.syncing import service as syncs
from tools.imports.syncing.apply import check_removals
from tools.imports.syncing.documents import (
    NOT_READABLE,
    REQUEST_SECONDS,
    IncomingDocument,
    parse,
    read_source,
)
from tools.imports.syncing.jobs import APPLY
from tools.models import McpServer, Source, SyncState

LARGE = 5_000
"""Operations of a document up to which a request waits for its import: a worker of the web has a minute for each."""


def source_state(source: Any) -> dict[str, Any]:
    """A source as callers see it."""
    return {
        "id": source.pk,
        "slug": source.slug,
        "title": source.display_title,
        "document_title": source.document_title,
        "kind": source.kind,
        "url": source.url,
        "server": source.server.slug if source.server else None,
        "schedule": source.schedule,
        "auto_apply": source.auto_apply,
        "sync_wins": source.sync_wins,
        "active_tools": source.active_tools,
        "synced_at": source.synced_at,
        "next_sync_at": source.next_sync_at,
        "failures": source.failures,
        "last_error": source.last_error or None,
        "created_at": source.created_at,
        "updated_at": source.updated_at,
    }


def _shown() -> QuerySet[Source]:
    """With what `source_state` needs beside the row."""
    shown: QuerySet[Source] = Source.objects.select_related("server").annotate(
        active_tools=Count("tools", filter=Q(tools__active=True))
    )
    return shown


def find_source(slug: str, rows: QuerySet[Source] | None = None) -> Source:
    """A foreign source and an unknown one give the same 404."""
    found = Source.objects.all() if rows is None else rows
    source: Source | None = found.filter(slug=slug).first()
    if source is None:
        raise NotFound(f"There is no source {slug!r} here.")
    return source


def find_in(rows: QuerySet[Any], ref: str, noun: str) -> Any:
    """A row by its UUID, of those that the address leads to."""
    try:
        return rows.get(pk=UUID(ref))
    except (ValueError, rows.model.DoesNotExist) as error:
        raise NotFound(f"There is no {noun} {ref!r} here.") from error


def _incoming(tenant_id: UUID, asked: dict[str, Any]) -> IncomingDocument:
    """The document that the request holds or names. Raises Problem."""
    if document := asked.get("document"):
        return IncomingDocument(document.read(), document.name, asked["source"], asked["kind"])
    source = Source(tenant_id=tenant_id, slug=asked["source"], kind=asked["kind"], url=asked.get("url", ""))
    if "server" in asked:
        with tenant_context(tenant_id), as_problems():
            source.server = _server(asked["server"])
    return _read(source)


def _read(source: Source) -> IncomingDocument:
    """The document as it is now at the source's address. Raises Problem."""
    with as_problems():
        return read_source(source, seconds=REQUEST_SECONDS)


class SourceListView(APIView):
    """The sources of the catalogue; and the import of a document, or of a server's tools."""

    required_scope = {"GET": Scope.TOOLS_READ, "POST": Scope.SOURCES_WRITE}
    parser_classes = (DocumentForm, JsonBody)

    @docs.list_sources
    def get(self, request: Request) -> Response:
        refuse_unknown(request.query_params, BySlug.PARAMETERS)
        with tenant_context(caller_of(request).tenant_id):
            pages = BySlug()
            rows: list[Source] = pages.paginate_queryset(_shown(), request, view=self) or []
            return pages.get_paginated_response([source_state(one) for one in rows])

    @docs.import_source
    @in_bulkhead
    def post(self, request: Request) -> Response:
        given = ImportSerializer.parsed(request.data)
        asked = ImportOptionsSerializer.parsed(request.query_params)
        given |= {name: value or given[name] for name, value in asked.items()}
        found: IncomingDocument | Problem
        try:
            # Before the transaction that an Idempotency-Key opens, which must not wait for strangers.
            found = _incoming(caller_of(request).tenant_id, given)
        except Problem as refusal:
            found = refusal
        return self._import(request, given, found)

    post.idempotent = post.calls_external = True  # type: ignore[attr-defined]

    @idempotent
    def _import(self, request: Request, given: dict[str, Any], found: IncomingDocument | Problem) -> Response:
        if isinstance(found, Problem):
            raise found
        caller = caller_of(request)
        with as_problems():
            document = parse(found)
            if document.operations > LARGE and not given["dry_run"]:
                return _import_as_job(request, found, confirmed=given["confirm_removals"])
            with tenant_context(caller.tenant_id):
                report = syncs.import_parsed(
                    document,
                    found,
                    actor=actor_of(caller),
                    dry_run=given["dry_run"],
                    confirm_removals=given["confirm_removals"],
                )
        return Response(report.as_dict())


def _import_as_job(request: Request, incoming: IncomingDocument, *, confirmed: bool) -> Response:
    """Plans the document, and lets a job apply that; a document that changes nothing needs none."""
    caller = caller_of(request)
    # One transaction: a plan whose removals are not confirmed is not kept, as one in a single request is not.
    with tenant_context(caller.tenant_id):
        sync = syncs.plan_document(incoming, tenant_id=caller.tenant_id, actor=actor_of(caller))
        if sync.state == SyncState.APPLIED:
            return Response(sync.summary)
        if not confirmed:
            check_removals(sync.summary["removed"], sync.source.endpoints.filter(active=True).count())
        args = {"sync": str(sync.pk), "confirm_removals": confirmed}
        return accepted(jobs.start(APPLY, args, by=actor_of(caller)))


class SourceView(APIView):
    """One source, by its slug."""

    required_scope = {"GET": Scope.TOOLS_READ, "PATCH": Scope.SOURCES_WRITE, "DELETE": Scope.ADMIN}

    @docs.get_source
    def get(self, request: Request, slug: str) -> Response:
        with tenant_context(caller_of(request).tenant_id):
            source = find_source(slug, _shown())
            return tagged(request, source_state(source), etag_of(source))

    @docs.update_source
    def patch(self, request: Request, slug: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id), as_problems():
            with catalogue_write(actor_of(caller)):
                source = find_source(slug, Source.objects.select_for_update())
                require_seen(request, source)
                changes = SourceChangeSerializer.parsed(request.data, partial=True)
                changes |= {
                    name: "" for name in ("title", "url", "schedule") if changes.get(name, "") is None
                }
                if changes.get("server") is not None:
                    changes["server"] = _server(changes["server"])
                sources.update_source(pk=source.pk, actor=actor_of(caller), **changes)
            source = find_source(slug, _shown())
        return Response(source_state(source), headers={"ETag": etag_of(source)})

    @docs.delete_source
    def delete(self, request: Request, slug: str) -> Response:
        caller = caller_of(request)
        with (
            tenant_context(caller.tenant_id),
            as_problems(),
            # As a sync does: first the source's lock, then its row.
            source_write(slug, actor_of(caller)),
        ):
            source = find_source(slug, Source.objects.select_for_update())
            require_seen(request, source)
            sources.delete_source(pk=source.pk, actor=actor_of(caller))
        return Response(status=204)


def _server(slug: str) -> McpServer:
    server: McpServer | None = McpServer.objects.filter(slug=slug).first()
    if server is None:
        raise Invalid({"server": [f"There is no MCP server {slug!r} here."]})
    return server


class SourceTestView(APIView):
    """Reads the source as a sync would, and stores nothing."""

    required_scope = Scope.SOURCES_WRITE

    @docs.test_source
    @in_bulkhead
    def post(self, request: Request, slug: str) -> Response:
        with tenant_context(caller_of(request).tenant_id):
            source = find_source(slug, Source.objects.select_related("server"))
        if not source.is_readable:
            raise Problem(409, NOT_READABLE)
        found = _read(source)
        with as_problems():
            document = parse(found)
        return Response(
            {
                "title": document.title,
                "version": document.version,
                "format_version": document.format_version,
                "operations": document.operations,
                "tools": len(document.endpoints),
                "left_out": len(document.left_out),
                "warnings": document.warnings,
                "bytes": len(found.raw),
            }
        )

    post.calls_external = True  # type: ignore[attr-defined]
