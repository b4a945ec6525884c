"""The REST endpoints of the documents that a source was read from."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope
from tools.api import source_docs as docs
from tools.api.callers import caller_of, require_unbound
from tools.api.pages import NewestFirst, refuse_unknown
from tools.api.sources import find_in, find_source
from tools.models import SourceDocument


class DocumentListView(APIView):
    """The documents that a source was read from, newest first."""

    required_scope = Scope.SOURCES_WRITE

    @docs.list_documents
    def get(self, request: Request, slug: str) -> Response:
        refuse_unknown(request.query_params, NewestDocuments.PARAMETERS)
        with tenant_context(caller_of(request).tenant_id):
            pages = NewestDocuments()
            documents = find_source(slug).documents.defer("content", "report")
            rows = pages.paginate_queryset(documents, request, view=self) or []
            return pages.get_paginated_response([_document_state(slug, one) for one in rows])


class NewestDocuments(NewestFirst):
    ordering = ("-fetched_at", "-pk")


def _document_state(slug: str, document: SourceDocument) -> dict[str, Any]:
    return {
        "id": document.pk,
        "name": document.name,
        "version": document.version,
        "layer": document.layer,
        "sha256": document.sha256,
        "size": document.size,
        "fetched_at": document.fetched_at,
        "links": {"content": f"/api/v1/sources/{slug}/documents/{document.pk}"},
    }


class _AnyForm(DefaultContentNegotiation):
    """A document has the form that it has, whatever is asked for; a refusal is JSON."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class DocumentView(APIView):
    """A document to the byte. It tells of every tool, so it needs a key that may see all of them."""

    required_scope = Scope.SOURCES_WRITE
    content_negotiation_class = _AnyForm

    @docs.get_document
    def get(self, request: Request, slug: str, ref: str) -> HttpResponse:
        caller = caller_of(request)
        require_unbound(caller)
        with tenant_context(caller.tenant_id):
            document = find_in(find_source(slug).documents.all(), ref, "document")
        etag = f'"{document.sha256}"'
        disposition = content_disposition_header(
            as_attachment=True, filename=PurePosixPath(document.name).name
        )
        headers = {"ETag": etag, "Content-Disposition": disposition or "attachment"}
        return HttpResponse(bytes(document.content), content_type="application/octet-stream", headers=headers)
