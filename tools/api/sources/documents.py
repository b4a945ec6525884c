"""The REST endpoints of the documents that a source was read from."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request

from portal.tenancy.models import Scope
from tools.api.base import TenantListView, TenantView
from tools.api.pagination import NewestFirst
from tools.api.schema import operations as docs
from tools.api.sources.lookup import find_in, find_source
from tools.api.sources.serializers import DocumentSerializer
from tools.models import SourceDocument


class NewestDocuments(NewestFirst):
    ordering = ("-fetched_at", "-pk")


class DocumentListView(TenantListView):
    """The documents that a source was read from, newest first."""

    required_scope = Scope.SOURCES_WRITE
    list_operation = ("list_documents", "The documents that a source was read from, newest first")
    serializer_class = DocumentSerializer
    pagination_class = NewestDocuments

    def get_queryset(self) -> QuerySet[SourceDocument]:
        return find_source(self.kwargs["slug"]).documents.defer("content", "report")


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
        self.require_unbound()
        document = find_in(find_source(slug).documents.all(), ref, "document")
        disposition = content_disposition_header(
            as_attachment=True, filename=PurePosixPath(document.name).name
        )
        headers = {
            "ETag": f'"{document.sha256}"',
            "Content-Disposition": disposition or "attachment",
        }
        return HttpResponse(bytes(document.content), content_type="application/octet-stream", headers=headers)
