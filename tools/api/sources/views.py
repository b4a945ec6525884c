"""The REST endpoints of sources and their documents: import one, look at it, change it, delete it, try whether it can be read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.bodies import DocumentForm, JsonBody
from portal.http.conditional import tagged
from portal.http.idempotency import idempotent, marked_idempotent
from portal.http.problems import Problem
from portal.jobs import services as jobs
from portal.json_types import JsonObject
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope
from tools.api.base import TenantListView, TenantView, calls_external, find_row
from tools.api.etags import etag_of, require_current
from tools.api.jobs.serializers import JOB, accepted
from tools.api.schema import operations as docs
from tools.api.schema.json_schema import BOOLEAN
from tools.api.sources.serializers import (
    IMPORT_BY_ADDRESS,
    REPORT,
    SOURCE_CHANGES,
    TRIED,
    DeletionOptionsSerializer,
    DocumentSerializer,
    ImportOptionsSerializer,
    ImportSerializer,
    SourceChangeSerializer,
    SourceSerializer,
)
from tools.catalogue import sources
from tools.catalogue.errors import Invalid
from tools.catalogue.sources import source_write
from tools.catalogue.tools import catalogue_write
from tools.catalogue.visibility import require_whole_documents, seen, with_tool_counts
from tools.imports.formats.specs import ParsedDocument
from tools.imports.syncing import service as syncs
from tools.imports.syncing.apply import check_removals
from tools.imports.syncing.documents import (
    NOT_READABLE,
    READ_SECONDS,
    IncomingDocument,
    RequestDeadline,
    parse,
    read_source,
)
from tools.imports.syncing.jobs import APPLY
from tools.models import McpServer, Source, SourceDocument, SourceKind, SyncState

Found = tuple[IncomingDocument, ParsedDocument]
LARGE = 5_000
"""Operations of a document up to which a request waits for its import: a worker of the web has a minute for each."""
WRITE_SECONDS = 20.0
"""How long a request writes tools, before it leaves them to a job: the words of long texts take longer than their number tells."""
_UPSTREAM = (409, 422, 502, 504)
"""Statuses of refusals that reading a source may end in."""


class _TakesTooLong(Exception):
    """Undoes what a request has written of a document so far."""


def _within(seconds: float) -> Callable[[int], None]:
    """The progress of an import that takes `seconds` at most. Raises _TakesTooLong."""
    end = time.monotonic() + seconds

    def go_on(_: int) -> None:
        if time.monotonic() >= end:
            raise _TakesTooLong

    return go_on


def find_source(slug: str, rows: QuerySet[Source] | None = None) -> Source:
    """The source, if the caller may see it. Raises NotFound."""
    return find_row(seen(Source.objects.all() if rows is None else rows), "source", slug, by="slug")


def find_whole_source(slug: str) -> Source:
    """A source whose documents and syncs the caller may read. Raises NotFound, BeyondRights."""
    source = find_source(slug)
    require_whole_documents(source)
    return source


def _with_counts() -> QuerySet[Source]:
    """The sources with what SourceSerializer shows beside the row."""
    return with_tool_counts(seen(Source.objects.select_related("server")))


def _find_server(slug: str) -> McpServer:
    server = McpServer.objects.filter(slug=slug).first()
    if server is None:
        raise Invalid({"server": [f"There is no MCP server {slug!r} here."]})
    return server


class SourceListView(TenantListView):
    """The sources of the catalogue; and the import of a document, or of a server's tools."""

    required_scope = {"GET": Scope.TOOLS_READ, "POST": Scope.SOURCES_WRITE}
    list_operation = ("list_sources", "The sources of the catalogue")
    parser_classes = (DocumentForm, JsonBody)
    serializer_class = SourceSerializer
    ordering = ("slug", "pk")

    def get_queryset(self) -> QuerySet[Source]:
        return _with_counts()

    @docs.operation(
        "import_source",
        "Imports a document, or the tools of an MCP server",
        "An OpenAPI document, a list of MCP tools or a LightAPI description, as a form with `document`, or by its "
        "address. `operations` = `tools` + `not_chosen` + the length of `left_out`. A document of more than 5,000 operations is planned, and "
        "applied by a job (202), and so is one whose import takes long. Fetching an address again for a repeated `Idempotency-Key` changes nothing.",
        body={"multipart/form-data": ImportSerializer, "application/json": IMPORT_BY_ADDRESS},
        parameters=[
            docs.query("dry_run", BOOLEAN, "Says what would change, and stores nothing. The same as in the body."),
            *docs.JOB_HEADERS,
            docs.query("confirm_removals", BOOLEAN, "More than a fifth of the source's endpoints may vanish. The same as in the body."),
        ],
        answers={200: REPORT, 202: JOB},
        examples={
            "A document by its address": {
                "url": "https://example.com/openapi.yaml",
                "source": "billing",
                "dry_run": True,
            },
            "The tools of a server": {"server": "github", "kind": "mcp"},
        },
        problems=_UPSTREAM,
    )  # fmt: skip
    @marked_idempotent
    @calls_external
    def post(self, request: Request) -> Response:
        given = ImportSerializer.parsed(request.data)
        options = ImportOptionsSerializer.parsed(request.query_params)
        given |= {name: value or given[name] for name, value in options.items()}
        found: Found | Exception
        try:
            # Before the transaction that an Idempotency-Key opens, which must wait neither for strangers nor for the parser.
            found = self._read(given)
        except Exception as error:  # noqa: BLE001 - raised below, unless a repeated request has its answer already
            found = error
        return self._import(request, given, found)

    def _read(self, given: JsonObject) -> Found:
        """The document that the request holds or names, and what it says. Raises FetchError, DocumentRefused, CatalogueError."""
        deadline = RequestDeadline(asks_server="server" in given or given["kind"] == SourceKind.MCP)
        incoming = self._incoming(given, deadline.left(READ_SECONDS))
        return incoming, parse(incoming, seconds=deadline.left())

    def _incoming(self, given: JsonObject, seconds: float) -> IncomingDocument:
        """The document; one at a URL is fetched in at most `seconds`. Raises FetchError, CatalogueError."""
        slug, kind = given["source"], given["kind"]
        if document := given.get("document"):
            return IncomingDocument(document.read(), document.name, slug, kind)
        source = Source(tenant_id=self.caller.tenant_id, slug=slug, kind=kind, url=given.get("url", ""))
        if "server" in given:
            with tenant_context(self.caller.tenant_id):
                source.server = _find_server(given["server"])
        return read_source(source, seconds=seconds)

    @idempotent
    def _import(self, request: Request, given: JsonObject, found: Found | Exception) -> Response:
        if isinstance(found, Exception):
            raise found
        incoming, document = found
        if document.operations > LARGE and not given["dry_run"]:
            return self._import_as_job(document, incoming, confirmed=given["confirm_removals"])
        try:
            with tenant_context(self.caller.tenant_id):
                report = syncs.import_parsed(
                    document,
                    incoming,
                    actor=self.rights.actor,
                    dry_run=given["dry_run"],
                    confirm_removals=given["confirm_removals"],
                    progress=_within(WRITE_SECONDS),
                )
        except _TakesTooLong:
            return self._import_as_job(document, incoming, confirmed=given["confirm_removals"])
        return Response(report.as_dict())

    def _import_as_job(
        self, document: ParsedDocument, incoming: IncomingDocument, *, confirmed: bool
    ) -> Response:
        """Plans the document, and lets a job apply that; a document that changes nothing needs none."""
        # One transaction: a plan whose removals are not confirmed is not kept, as one in a single request is not.
        with tenant_context(self.caller.tenant_id):
            sync = syncs.plan_parsed(document, incoming, actor=self.rights.actor)
            if sync.state == SyncState.APPLIED:
                return Response(sync.summary)
            if not confirmed:
                check_removals(sync.summary["removed"], sync.source.endpoints.filter(active=True).count())
            args = {"sync": str(sync.pk), "confirm_removals": confirmed}
            return accepted(jobs.start(APPLY, args, by=self.rights.actor))


class SourceView(TenantView):
    """One source, by its slug."""

    required_scope = {"GET": Scope.TOOLS_READ, "PATCH": Scope.SOURCES_WRITE, "DELETE": Scope.ADMIN}

    @docs.operation(
        "get_source",
        "One source",
        "The ETag is of what people set. What a sync notes (`synced_at`, `last_error`, …) changes without it.",
        parameters=docs.IF_NONE_MATCH,
        answers=docs.one(SourceSerializer) | docs.UNCHANGED,
    )
    def get(self, request: Request, slug: str) -> Response:
        source = find_source(slug, _with_counts())
        return tagged(request, SourceSerializer(source).data, etag_of(source))

    @docs.operation(
        "update_source",
        "Changes the settings that are sent",
        "A merge patch: null empties a field.",
        body=SOURCE_CHANGES,
        parameters=[docs.etag(200)],
        answers=docs.one(SourceSerializer),
    )
    def patch(self, request: Request, slug: str) -> Response:
        with catalogue_write(self.rights.actor):
            source = find_source(slug, Source.objects.select_for_update(no_key=True))
            require_current(request, source)
            changes = SourceChangeSerializer.parsed(request.data, partial=True)
            changes |= {name: "" for name in ("title", "url", "schedule") if changes.get(name, "") is None}
            if changes.get("server") is not None:
                changes["server"] = _find_server(changes["server"])
            sources.update_source(pk=source.pk, actor=self.rights.actor, **changes)
        source = find_source(slug, _with_counts())
        return Response(SourceSerializer(source).data, headers={"ETag": etag_of(source)})

    @docs.operation(
        "delete_source",
        "Deletes a source with its documents",
        "Its tools and their edits go with it, unless they are kept.",
        parameters=[
            docs.query(
                "tools",
                {
                    "type": "string",
                    "enum": sources.ToolsOfDeleted.values,
                    "default": sources.ToolsOfDeleted.DELETE.value,
                },
                "`deactivate` keeps them with their present texts, as inactive tools written by hand. A new import leaves out whatever has the same `tool_id`.",
            )
        ],
        answers={204: None},
    )
    def delete(self, request: Request, slug: str) -> Response:
        options = DeletionOptionsSerializer.parsed(request.query_params)
        with source_write(slug, self.rights.actor):  # as a sync does: first the source's lock, then its row
            source = find_source(slug, Source.objects.select_for_update(no_key=True))
            require_current(request, source)
            sources.delete_source(pk=source.pk, actor=self.rights.actor, **options)
        return Response(status=204)


class SourceTestView(TenantView):
    """Reads the source as a sync would, and stores nothing."""

    required_scope = Scope.SOURCES_WRITE

    @docs.operation(
        "test_source",
        "Tries whether the source can be read",
        "Reads it as a sync would, and stores nothing. Needs a key that may see tools of every sensitivity. 409 `conflict` for a source without an address.",
        answers={200: TRIED},
        problems=_UPSTREAM,
    )
    @calls_external
    def post(self, request: Request, slug: str) -> Response:
        with tenant_context(self.caller.tenant_id):
            source = find_source(slug, Source.objects.select_related("server"))
            require_whole_documents(source)
        if not source.is_readable:
            raise Problem(409, NOT_READABLE)
        deadline = RequestDeadline(asks_server=source.kind == SourceKind.MCP)
        found = read_source(source, seconds=deadline.left(READ_SECONDS))
        document = parse(found, seconds=deadline.left())
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


class DocumentListView(TenantListView):
    """The documents that a source was read from, newest first."""

    required_scope = Scope.SOURCES_WRITE
    list_operation = (
        "list_documents",
        "The documents that a source was read from, newest first",
        "Needs a key that may see tools of every sensitivity.",
    )
    serializer_class = DocumentSerializer
    ordering = ("-fetched_at", "-pk")

    def get_queryset(self) -> QuerySet[SourceDocument]:
        return find_whole_source(self.kwargs["slug"]).documents.defer("content", "report")


class _AnyForm(DefaultContentNegotiation):
    """A document has the form that it has, whatever is asked for; a refusal is JSON."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class DocumentView(TenantView):
    """A document to the byte. It tells of every tool, so it needs a key that may see all of them."""

    required_scope = Scope.SOURCES_WRITE
    content_negotiation_class = _AnyForm

    @docs.operation(
        "get_document",
        "A document, to the byte",
        "Needs a key that may see tools of every sensitivity.",
        parameters=[
            docs.etag(200),
            docs.header("Content-Disposition", "An attachment, with the document's file name.", 200),
        ],
        answers={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, slug: str, ref: str) -> HttpResponse:
        document = find_row(find_whole_source(slug).documents.all(), "document", ref)
        disposition = content_disposition_header(
            as_attachment=True, filename=PurePosixPath(document.name).name
        )
        headers = {
            "ETag": f'"{document.sha256}"',
            "Content-Disposition": disposition or "attachment",
        }
        return HttpResponse(bytes(document.content), content_type="application/octet-stream", headers=headers)
