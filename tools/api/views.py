"""The REST endpoints of tools and of search: parse, call one service in the caller's tenant, present."""

from __future__ import annotations

import hashlib
from typing import Any

from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.http.conditional import expected_version, seen_versions, tagged, version_etag
from portal.http.idempotency import idempotent
from portal.http.problems import Problem
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope
from tools.api import docs
from tools.api.callers import (
    actor_of,
    caller_of,
    find_tool,
    namespace_of,
    rights_of,
    with_answer_rows,
    written_tool,
)
from tools.api.pages import CursorPages, refuse_unknown
from tools.api.refusals import as_problems
from tools.api.serializers import NewToolSerializer, SearchSerializer, ToolEditSerializer, ToolSerializer
from tools.catalogue.filters import ToolFilter
from tools.catalogue.tools import create_tool, delete_tool, refresh_embeddings, update_tool
from tools.models import Tool
from tools.search.service import search


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
        answer = search(rights_of(request), serializer.to_query())
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
                "filters_applied": answer.query.filters.applied(),
                "took_ms": answer.took_ms,
                "search_id": answer.search_id,
            },
        }
        timing = ", ".join(f"{stage};dur={spent}" for stage, spent in answer.timings.items())
        return body, {"Server-Timing": timing, "Cache-Control": "no-cache"}


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
        refuse_unknown(request.query_params, {*ToolFilter.base_filters, *CursorPages.PARAMETERS})
        with tenant_context(caller.tenant_id):
            tools = with_answer_rows(Tool.objects.listed_for(rights_of(request)).active())
            filtered = ToolFilter(request.query_params, tools)
            if not filtered.is_valid():
                raise ValidationError(filtered.errors)
            pages = CursorPages()
            rows: list[Tool] | None = pages.paginate_queryset(filtered.qs, request, view=self)
            return pages.get_paginated_response(ToolSerializer(rows, many=True).data)

    @docs.create_tool
    @idempotent
    def post(self, request: Request) -> Response:
        caller = caller_of(request)
        serializer = NewToolSerializer(data=request.data)
        with tenant_context(caller.tenant_id):
            serializer.is_valid(raise_exception=True)
            with as_problems():
                tool = create_tool(actor=actor_of(caller), **serializer.validated_data)
            body = ToolSerializer(written_tool(tool.pk)).data
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
            tool = find_tool(caller, ref, namespace_of(request))
            return tagged(request, ToolSerializer(tool).data, version_etag(tool.version))

    @docs.update_tool
    def patch(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        seen = seen_versions(request)
        with tenant_context(caller.tenant_id):
            tool = find_tool(caller, ref, namespace_of(request))
            serializer = ToolEditSerializer(tool, data=request.data, partial=True)
            serializer.is_valid(raise_exception=True)
            with as_problems():
                tool = update_tool(
                    pk=tool.pk,
                    expected_version=expected_version(seen, tool.version),
                    changes=serializer.validated_data,
                    actor=actor_of(caller),
                )
            body = ToolSerializer(written_tool(tool.pk)).data
        return Response(body, headers={"ETag": version_etag(tool.version)})

    @docs.delete_tool
    def delete(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        seen = seen_versions(request)
        with tenant_context(caller.tenant_id):
            tool = find_tool(caller, ref, namespace_of(request))
            with as_problems():
                delete_tool(
                    pk=tool.pk, actor=actor_of(caller), expected_version=expected_version(seen, tool.version)
                )
        return Response(status=204)


class EmbeddingView(APIView):
    """How the embedding of a tool stands. No answer holds a vector."""

    required_scope = Scope.TOOLS_READ

    @docs.get_embedding
    def get(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id):
            tool = find_tool(caller, ref, namespace_of(request))
            return Response(embedding_state(tool))


class EmbeddingRefreshView(APIView):
    """Asks for a new vector; safe to repeat."""

    required_scope = Scope.TOOLS_WRITE

    @docs.refresh_embedding
    @idempotent
    def post(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id):
            tool = find_tool(caller, ref, namespace_of(request))
            with as_problems():
                queued = refresh_embeddings(pks=[tool.pk])
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
