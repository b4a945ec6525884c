"""The REST doors: parse, call one service in the caller's tenant, present."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from django.db.models import Prefetch, QuerySet
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from embeddings import slots
from portal.bodies import DocumentForm
from portal.conditional import expected_version, tagged, version_etag
from portal.idempotency import idempotent
from portal.problems import Problem
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import Caller
from portal.tenancy.models import Scope, Sensitivity
from tools import services
from tools.api import docs
from tools.api.pages import ToolPages, refuse_unknown
from tools.api.serializers import (
    ImportSerializer,
    NewToolSerializer,
    SearchSerializer,
    ToolChangeSerializer,
    ToolSerializer,
)
from tools.errors import Busy, CatalogueError, Invalid, ManagedBySource, NameTaken, StaleVersion
from tools.filters import ToolFilter
from tools.imports.service import import_document
from tools.imports.specs import DocumentRefused
from tools.models import Source, Tool, ToolEmbedding, Visibility
from tools.search.query import SearchQuery
from tools.search.service import search


def caller_of(request: Request) -> Caller:
    return cast(Caller, request.auth)


def visible_tools(caller: Caller) -> QuerySet[Tool]:
    """The tools that this key may see one by one, with what a full answer needs; private ones only if it may edit."""
    serving = ToolEmbedding.objects.filter(slot=slots.serving().number).defer("vector")
    tools: QuerySet[Tool] = Tool.objects.select_related("source").prefetch_related(
        Prefetch("embeddings", serving)
    )
    tools = tools.filter(sensitivity__in=Sensitivity.up_to(caller.max_sensitivity))
    return tools if _may_edit(caller) else tools.exclude(visibility=Visibility.PRIVATE)


def find_tool(caller: Caller, ref: str, namespace: str) -> Tool:
    """By UUID, or by tool_id within the namespace. A foreign and an unknown one give the same 404."""
    tool = None
    with suppress(ValueError):
        tool = visible_tools(caller).filter(pk=UUID(ref)).first()
    # A tool_id may look like a UUID, too.
    tool = tool or visible_tools(caller).filter(tool_id=ref, namespace=namespace).first()
    if tool is None:
        raise NotFound(f"There is no tool {ref!r} here.")
    return tool


def _may_edit(caller: Caller) -> bool:
    return bool(caller.scopes & {Scope.TOOLS_WRITE, Scope.ADMIN})


def _namespace(request: Request) -> str:
    return str(request.query_params.get("namespace", "public"))


def as_problem(error: CatalogueError) -> Problem:
    if isinstance(error, StaleVersion):
        etag = version_etag(error.current.version)
        return Problem(412, str(error), headers={"ETag": etag}, current_etag=etag)
    if isinstance(error, Invalid):
        entries = [
            {"code": "invalid", "detail": text, "pointer": f"/{field}"}
            for field, texts in error.errors.items()
            for text in texts
        ]
        return Problem(422, str(error), code="validation_error", errors=entries)
    if isinstance(error, NameTaken):
        return Problem(409, str(error), code="name_taken")
    if isinstance(error, ManagedBySource):
        return Problem(409, str(error), code="managed_by_source")
    return Problem(409, str(error), code="busy" if isinstance(error, Busy) else "conflict")


class SearchView(APIView):
    """Which tools serve this need? `GET` for curl and caches, `POST` for long filters."""

    required_scope = Scope.SEARCH_READ

    @docs.search_by_get
    def get(self, request: Request) -> Response:
        parameters = {
            name: values if len(values) > 1 else values[0] for name, values in request.query_params.lists()
        }
        body, headers = self._answer(request, parameters)
        # Of what was found, not of how long it took. Only here: a POST is not cached, and need not be read twice.
        found = repr((body["results"], body["metadata"]["mode"], body["metadata"]["degraded"]))
        etag = f'W/"{hashlib.sha256(found.encode()).hexdigest()[:32]}"'
        return tagged(request, body, etag, **headers)

    @docs.search_by_post
    def post(self, request: Request) -> Response:
        body, headers = self._answer(request, request.data)
        return Response(body, headers=headers)

    def _answer(self, request: Request, data: Any) -> tuple[dict[str, Any], dict[str, str]]:
        serializer = SearchSerializer(data=data)
        serializer.is_valid(raise_exception=True)
        caller = caller_of(request)
        asked = serializer.to_query()
        answer = search(caller.tenant_id, _within_rights(asked, caller))
        body = {
            "query": answer.query.text,
            "results": [
                {
                    "rank": hit.rank,
                    "score": round(hit.score, 6),
                    "match_type": hit.match_type,
                    "components": hit.components,
                    "tool": _brief(hit.tool),
                }
                for hit in answer.hits
            ],
            "metadata": {
                "result_count": len(answer.hits),
                "mode": answer.mode,
                "degraded": list(answer.degraded),
                "reranked": False,
                "used_llm_rerank": False,
                "filters_applied": asked.filters.applied(),
                "took_ms": answer.took_ms,
                "search_id": answer.search_id,
            },
        }
        timing = ", ".join(f"{stage};dur={spent}" for stage, spent in answer.timings.items())
        return body, {"Server-Timing": timing, "Cache-Control": "no-cache"}


def _within_rights(query: SearchQuery, caller: Caller) -> SearchQuery:
    """Narrows the question to what the key may see; a key without bound costs no filter."""
    allowed = Sensitivity.up_to(caller.max_sensitivity)
    if len(allowed) == len(Sensitivity.values):
        return query
    asked = query.filters.sensitivity
    narrowed = tuple(one for one in allowed if asked is None or one in asked)
    return replace(query, filters=replace(query.filters, sensitivity=narrowed))


def _brief(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "tool_id": row["tool_id"],
        "namespace": row["namespace"],
        "name": row["name"],
        "description": row["description"],
        "server": row["server"],
        "source": row["source__slug"],
        "category": row["category"],
        "tags": row["tags"],
        "tool_type": row["tool_type"],
        "source_protocol": row["source_protocol"],
        "routing_domain": row["routing_domain"],
        "sensitivity": row["sensitivity"],
        "average_latency_ms": None,
        "success_rate": None,
        "embedding_status": row["embedding_status"],
    }


class ToolListView(APIView):
    """The catalogue, page by page; and tools written by hand."""

    required_scope = {"GET": Scope.TOOLS_READ, "POST": Scope.TOOLS_WRITE}

    @docs.list_tools
    def get(self, request: Request) -> Response:
        caller = caller_of(request)
        refuse_unknown(request.query_params, {*ToolFilter.base_filters, *ToolPages.PARAMETERS})
        with tenant_context(caller.tenant_id):
            tools = visible_tools(caller).filter(active=True)
            if not _may_edit(caller):
                tools = tools.filter(visibility=Visibility.PUBLIC)
            filtered = ToolFilter(request.query_params, tools)
            if not filtered.is_valid():
                raise ValidationError(filtered.errors)
            pages = ToolPages()
            rows: list[Tool] | None = pages.paginate_queryset(filtered.qs, request, view=self)
            return pages.get_paginated_response(ToolSerializer(rows, many=True).data)

    @docs.create_tool
    @idempotent
    def post(self, request: Request) -> Response:
        caller = caller_of(request)
        serializer = NewToolSerializer(data=request.data)
        with tenant_context(caller.tenant_id):
            serializer.is_valid(raise_exception=True)
            try:
                tool = services.create_tool(actor=actor_of(caller), **serializer.validated_data)
            except CatalogueError as error:
                raise as_problem(error) from error
            body = ToolSerializer(find_tool(caller, str(tool.pk), "")).data
        return Response(
            body,
            status=201,
            headers={"Location": f"/api/v1/tools/{tool.pk}", "ETag": version_etag(tool.version)},
        )


class ToolView(APIView):
    """One tool, by UUID or tool_id (`?namespace=`)."""

    required_scope = {"GET": Scope.TOOLS_READ, "PATCH": Scope.TOOLS_WRITE, "DELETE": Scope.TOOLS_WRITE}

    @docs.get_tool
    def get(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id):
            tool = find_tool(caller, ref, _namespace(request))
            return tagged(request, ToolSerializer(tool).data, version_etag(tool.version))

    @docs.update_tool
    def patch(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        version = expected_version(request)
        with tenant_context(caller.tenant_id):
            tool = find_tool(caller, ref, _namespace(request))
            serializer = ToolChangeSerializer(tool, data=request.data, partial=True)
            serializer.is_valid(raise_exception=True)
            try:
                tool = services.update_tool(
                    pk=tool.pk,
                    expected_version=version,
                    changes=serializer.validated_data,
                    actor=actor_of(caller),
                )
            except CatalogueError as error:
                raise as_problem(error) from error
            body = ToolSerializer(find_tool(caller, str(tool.pk), "")).data
        return Response(body, headers={"ETag": version_etag(tool.version)})

    @docs.delete_tool
    def delete(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        version = expected_version(request)
        with tenant_context(caller.tenant_id):
            tool = find_tool(caller, ref, _namespace(request))
            try:
                services.delete_tool(pk=tool.pk, actor=actor_of(caller), expected_version=version)
            except CatalogueError as error:
                raise as_problem(error) from error
        return Response(status=204)


class EmbeddingView(APIView):
    """How the embedding of a tool stands. No answer holds a vector."""

    required_scope = Scope.TOOLS_READ

    @docs.get_embedding
    def get(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id):
            tool = find_tool(caller, ref, _namespace(request))
            return Response(embedding_state(tool))


class EmbeddingRefreshView(APIView):
    """Asks for a new vector; safe to repeat."""

    required_scope = Scope.TOOLS_WRITE

    @docs.refresh_embedding
    @idempotent
    def post(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id):
            tool = find_tool(caller, ref, _namespace(request))
            try:
                queued = services.refresh_embeddings(pks=[tool.pk])
            except CatalogueError as error:
                raise as_problem(error) from error
            if not queued:
                raise Problem(409, "This tool has nothing to embed, is inactive, or embedding is disabled.")
            tool = find_tool(caller, str(tool.pk), "")
            return Response(embedding_state(tool), status=202)


def embedding_state(tool: Tool) -> dict[str, Any]:
    embedding = next(iter(tool.embeddings.all()), None)
    if embedding is None:
        raise NotFound("This tool has no embedding yet.")
    return {
        "status": embedding.status,
        "model": embedding.model,
        "dimension": embedding.dimension,
        "source_hash": embedding.source_hash,
        "current": embedding.vector_hash == embedding.source_hash,
        "truncated": embedding.truncated,
        "embedded_at": embedding.embedded_at,
        "error": embedding.error or None,
    }


class SourceListView(APIView):
    """The sources of the catalogue; and the import of an OpenAPI document as a file upload."""

    required_scope = {"GET": Scope.TOOLS_READ, "POST": Scope.SOURCES_WRITE}
    parser_classes = (DocumentForm,)

    @docs.list_sources
    def get(self, request: Request) -> Response:
        with tenant_context(caller_of(request).tenant_id):
            rows = Source.objects.values("id", "slug", "title", "kind", "url", "sync_wins")
            return Response({"results": list(rows)})

    @docs.import_source
    @idempotent
    def post(self, request: Request) -> Response:
        caller = caller_of(request)
        serializer = ImportSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        given = serializer.validated_data
        try:
            report = import_document(
                tenant_id=caller.tenant_id,
                raw=given["document"].read(),
                name=given["document"].name,
                slug=given["source"],
                kind=given["kind"],
                actor=actor_of(caller),
                dry_run=given["dry_run"],
            )
        except DocumentRefused as error:
            raise Problem(422, str(error), code="invalid_source_document") from error
        except CatalogueError as error:
            raise as_problem(error) from error
        return Response(report.as_dict())


class MeView(APIView):
    """Which key is this, and what may it do."""

    required_scope = None

    @docs.get_me
    def get(self, request: Request) -> Response:
        caller = caller_of(request)
        return Response(
            {
                "name": caller.key_name,
                "scopes": sorted(caller.scopes),
                "max_sensitivity": caller.max_sensitivity,
                "limits": {"requests_per_minute": caller.requests_per_minute},
            }
        )


def actor_of(caller: Caller) -> str:
    return f"API key {caller.key_name}"
