"""The REST endpoints of tools and of their embeddings: parse, call one service, present."""

from __future__ import annotations

from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.conditional import expected_version, seen_versions, tagged, version_etag
from portal.http.idempotency import idempotent
from portal.http.problems import Problem
from portal.tenancy.models import Scope
from tools.api.base import TenantListView
from tools.api.schema import operations as docs
from tools.api.tools.lookup import OneToolView, for_answers, tool_response
from tools.api.tools.serializers import (
    EmbeddingSerializer,
    NewToolSerializer,
    ToolEditSerializer,
    ToolSerializer,
)
from tools.catalogue.filters import ToolFilter
from tools.catalogue.tools import create_tool, delete_tool, refresh_embeddings, update_tool
from tools.models import Tool, ToolEmbedding, ToolQuerySet


class ToolListView(TenantListView):
    """The catalogue, page by page; and tools written by hand."""

    required_scope = {"GET": Scope.TOOLS_READ, "POST": Scope.TOOLS_WRITE}
    list_operation = ("list_tools", "The catalogue, page by page")
    serializer_class = ToolSerializer
    item_schema = {"$ref": "#/components/schemas/Tool"}
    ordering = ("name", "id")
    filterset_class = ToolFilter

    def get_queryset(self) -> ToolQuerySet:
        return for_answers(Tool.objects.listed_for(self.rights).active())

    @docs.operation(
        "create_tool",
        "A tool written by hand",
        body=NewToolSerializer,
        parameters=[docs.header("Location", "The new tool's address.", 201), docs.etag(201)],
        answers={201: ToolSerializer},
        examples={
            "A small tool": {
                "tool_id": "send_mail",
                "name": "Send mail",
                "description": "Sends an e-mail to one person.",
            }
        },
    )
    @idempotent
    def post(self, request: Request) -> Response:
        tool = create_tool(actor=self.rights.actor, **NewToolSerializer.parsed(request.data))
        return tool_response(tool.pk, status=201, Location=f"/api/v1/tools/{tool.pk}")


class ToolView(OneToolView):
    """One tool, by UUID or tool_id (`?namespace=`)."""

    required_scope = {"GET": Scope.TOOLS_READ, "PATCH": Scope.TOOLS_WRITE, "DELETE": Scope.TOOLS_WRITE}

    @docs.operation(
        "get_tool",
        "One tool, by UUID or tool_id",
        "The ETag is of the tool's own version. `embedding_status` changes without it; ask for `/embedding` to follow that.",
        parameters=[docs.NAMESPACE, *docs.IF_NONE_MATCH],
        answers={200: ToolSerializer} | docs.UNCHANGED,
    )
    def get(self, request: Request, ref: str) -> Response:
        tool = self.find_tool(ref)
        return tagged(request, ToolSerializer(tool).data, version_etag(tool.version))

    @docs.operation(
        "update_tool",
        "Changes the fields that are sent",
        body=ToolEditSerializer,
        parameters=[docs.NAMESPACE, docs.etag(200)],
        answers={200: ToolSerializer},
    )
    def patch(self, request: Request, ref: str) -> Response:
        seen = seen_versions(request)
        tool = self.find_tool(ref)
        serializer = ToolEditSerializer(tool, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        update_tool(
            pk=tool.pk,
            expected_version=expected_version(seen, tool.version),
            changes=serializer.validated_data,
            actor=self.rights.actor,
        )
        return tool_response(tool.pk)

    @docs.operation(
        "delete_tool", "Deletes a tool written by hand", parameters=[docs.NAMESPACE], answers={204: None}
    )
    def delete(self, request: Request, ref: str) -> Response:
        seen = seen_versions(request)
        tool = self.find_tool(ref)
        expected = expected_version(seen, tool.version)
        delete_tool(pk=tool.pk, actor=self.rights.actor, expected_version=expected)
        return Response(status=204)


class EmbeddingView(OneToolView):
    """How the embedding of a tool stands. No answer holds a vector."""

    required_scope = Scope.TOOLS_READ

    @docs.operation(
        "get_embedding",
        "How the embedding of a tool stands",
        parameters=[docs.NAMESPACE],
        answers=docs.one(EmbeddingSerializer),
    )
    def get(self, request: Request, ref: str) -> Response:
        return Response(EmbeddingSerializer(serving_embedding(self.find_tool(ref))).data)


class EmbeddingRefreshView(OneToolView):
    """Asks for a new vector; safe to repeat."""

    required_scope = Scope.TOOLS_WRITE

    @docs.operation(
        "refresh_embedding",
        "Asks for a new vector",
        parameters=[docs.NAMESPACE],
        answers=docs.one(EmbeddingSerializer, 202),
    )
    @idempotent
    def post(self, request: Request, ref: str) -> Response:
        tool = self.find_tool(ref)
        if not refresh_embeddings(pks=[tool.pk]):
            raise Problem(409, "This tool has nothing to embed, is inactive, or embedding is disabled.")
        embedding = serving_embedding(self.find_tool(str(tool.pk)))
        return Response(EmbeddingSerializer(embedding).data, status=202)


def serving_embedding(tool: Tool) -> ToolEmbedding:
    """Of a tool that was found with it. Raises NotFound."""
    embedding = next(iter(tool.embeddings.all()), None)
    if embedding is None:
        raise NotFound("This tool has no embedding yet.")
    return embedding
