"""The REST endpoints of MCP servers: connections that sources share. They hold names of secrets, never a secret."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.http.conditional import tagged
from portal.http.idempotency import idempotent
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope
from tools.api import server_docs as docs
from tools.api.callers import actor_of, caller_of
from tools.api.pages import BySlug, refuse_unknown
from tools.api.refusals import as_problems, in_bulkhead
from tools.api.source_serializers import NewServerSerializer, ServerChangeSerializer
from tools.api.versions import etag_of, require_seen
from tools.catalogue import servers
from tools.catalogue.tools import catalogue_write
from tools.imports.fetching.mcp.connection import check_connection
from tools.models import McpServer


def server_state(server: McpServer) -> dict[str, Any]:
    """A server as callers see it."""
    return {
        "id": server.pk,
        "slug": server.slug,
        "title": server.title,
        "url": server.url,
        "command_id": server.command_id,
        "headers": server.headers,
        "health": server.health,
        "synced_at": server.synced_at,
        "last_error": server.last_error or None,
        "created_at": server.created_at,
        "updated_at": server.updated_at,
    }


def find_server(slug: str, rows: QuerySet[McpServer] | None = None) -> McpServer:
    """A foreign server and an unknown one give the same 404."""
    found = McpServer.objects.all() if rows is None else rows
    server: McpServer | None = found.filter(slug=slug).first()
    if server is None:
        raise NotFound(f"There is no MCP server {slug!r} here.")
    return server


class ServerListView(APIView):
    """The MCP servers of the tenant; and a new one."""

    required_scope = {"GET": Scope.TOOLS_READ, "POST": Scope.ADMIN}

    @docs.list_servers
    def get(self, request: Request) -> Response:
        refuse_unknown(request.query_params, BySlug.PARAMETERS)
        with tenant_context(caller_of(request).tenant_id):
            pages = BySlug()
            rows: list[McpServer] = pages.paginate_queryset(McpServer.objects.all(), request, view=self) or []
            return pages.get_paginated_response([server_state(one) for one in rows])

    @docs.create_server
    @idempotent
    def post(self, request: Request) -> Response:
        caller = caller_of(request)
        given = NewServerSerializer.parsed(request.data)
        with tenant_context(caller.tenant_id), as_problems():
            made = servers.create_server(actor=actor_of(caller), **given)
            server = find_server(made.slug)
        headers = {"Location": f"/api/v1/servers/{server.slug}", "ETag": etag_of(server)}
        return Response(server_state(server), status=201, headers=headers)


class ServerView(APIView):
    """One MCP server, by its slug."""

    required_scope = {"GET": Scope.TOOLS_READ, "PATCH": Scope.ADMIN, "DELETE": Scope.ADMIN}

    @docs.get_server
    def get(self, request: Request, slug: str) -> Response:
        with tenant_context(caller_of(request).tenant_id):
            server = find_server(slug)
            return tagged(request, server_state(server), etag_of(server))

    @docs.update_server
    def patch(self, request: Request, slug: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id), as_problems():
            with catalogue_write(actor_of(caller)):
                server = find_server(slug, McpServer.objects.select_for_update())
                require_seen(request, server)
                changes = ServerChangeSerializer.parsed(request.data, partial=True)
                servers.update_server(pk=server.pk, actor=actor_of(caller), **changes)
            server = find_server(slug)
        return Response(server_state(server), headers={"ETag": etag_of(server)})

    @docs.delete_server
    def delete(self, request: Request, slug: str) -> Response:
        caller = caller_of(request)
        with (
            tenant_context(caller.tenant_id),
            as_problems(),
            catalogue_write(actor_of(caller)),
        ):
            server = find_server(slug, McpServer.objects.select_for_update())
            require_seen(request, server)
            servers.delete_server(pk=server.pk, actor=actor_of(caller))
        return Response(status=204)


class ServerTestView(APIView):
    """Asks the server for its tools, and imports none."""

    required_scope = Scope.SOURCES_WRITE

    @docs.test_server
    @in_bulkhead
    def post(self, request: Request, slug: str) -> Response:
        with tenant_context(caller_of(request).tenant_id):
            server = find_server(slug)
        return Response(asdict(check_connection(server)))
