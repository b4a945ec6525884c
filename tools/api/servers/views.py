"""The REST endpoints of MCP servers: connections that sources share."""

from __future__ import annotations

from dataclasses import asdict

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.conditional import tagged
from portal.http.idempotency import idempotent
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope
from tools.api.base import TenantListView, TenantView, calls_external, find_row
from tools.api.etags import etag_of, require_current
from tools.api.schema import operations as docs
from tools.api.schema.json_schema import body_schema
from tools.api.servers.serializers import (
    TESTED,
    NewServerSerializer,
    ServerChangeSerializer,
    ServerSerializer,
)
from tools.catalogue import servers
from tools.catalogue.tools import catalogue_write
from tools.catalogue.visibility import require_all_sensitivities
from tools.imports.fetching.mcp.client import check_connection
from tools.models import McpServer


def _find(slug: str, *, lock: bool = False) -> McpServer:
    rows = McpServer.objects.select_for_update(no_key=True) if lock else McpServer.objects.all()
    return find_row(rows, "MCP server", slug, by="slug")


def _response(server: McpServer, *, status: int = 200, **headers: str) -> Response:
    headers["ETag"] = etag_of(server)
    return Response(ServerSerializer(server).data, status=status, headers=headers)


class ServerListView(TenantListView):
    """The MCP servers of the tenant; and a new one."""

    required_scope = {"GET": Scope.TOOLS_READ, "POST": Scope.ADMIN}
    list_operation = ("list_servers", "The MCP servers")
    serializer_class = ServerSerializer
    ordering = ("slug", "pk")

    def get_queryset(self) -> QuerySet[McpServer]:
        return McpServer.objects.all()

    @docs.operation(
        "create_server",
        "A new MCP server",
        "Which commands may run, and which variables may be sent, is decided where the portal is deployed.",
        body=body_schema(NewServerSerializer),
        parameters=[docs.header("Location", "The new server's address.", 201), docs.etag(201)],
        answers=docs.one(ServerSerializer, 201),
        examples={
            "A server over HTTP": {
                "slug": "github",
                "url": "https://mcp.example.com/mcp",
                "headers": {"Authorization": "MCP_SECRET_GITHUB"},
            }
        },
    )
    @idempotent
    def post(self, request: Request) -> Response:
        given = NewServerSerializer.parsed(request.data)
        server = _find(servers.create_server(actor=self.rights.actor, **given).slug)
        return _response(server, status=201, Location=f"/api/v1/servers/{server.slug}")


class ServerView(TenantView):
    """One MCP server, by its slug."""

    required_scope = {"GET": Scope.TOOLS_READ, "PATCH": Scope.ADMIN, "DELETE": Scope.ADMIN}

    @docs.operation(
        "get_server",
        "One MCP server",
        "The ETag is of what people set; `health`, `synced_at` and `last_error` change without it.",
        parameters=docs.IF_NONE_MATCH,
        answers=docs.one(ServerSerializer) | docs.UNCHANGED,
    )
    def get(self, request: Request, slug: str) -> Response:
        server = _find(slug)
        return tagged(request, ServerSerializer(server).data, etag_of(server))

    @docs.operation(
        "update_server",
        "Changes the settings that are sent",
        body=body_schema(ServerChangeSerializer, partial=True),
        parameters=[docs.etag(200)],
        answers=docs.one(ServerSerializer),
    )
    def patch(self, request: Request, slug: str) -> Response:
        with catalogue_write(self.rights.actor):
            server = _find(slug, lock=True)
            require_current(request, server)
            changes = ServerChangeSerializer.parsed(request.data, partial=True)
            servers.update_server(pk=server.pk, actor=self.rights.actor, **changes)
        return _response(_find(slug))

    @docs.operation("delete_server", "Deletes an MCP server that no source reads", answers={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        with catalogue_write(self.rights.actor):
            server = _find(slug, lock=True)
            require_current(request, server)
            servers.delete_server(pk=server.pk, actor=self.rights.actor)
        return Response(status=204)


class ServerTestView(TenantView):
    """Asks the server for its tools, and imports none."""

    required_scope = Scope.SOURCES_WRITE

    @docs.operation(
        "test_server",
        "Asks the server for its tools, and imports none",
        "Needs a key that may see tools of every sensitivity.",
        answers={200: TESTED},
    )
    @calls_external
    def post(self, request: Request, slug: str) -> Response:
        with tenant_context(self.caller.tenant_id):
            server = _find(slug)
        require_all_sensitivities()  # it names whatever the server offers
        return Response(asdict(check_connection(server)))
