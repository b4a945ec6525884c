"""Asks a stored MCP server for its tools and records whether it answered (CAT-3)."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from django.db.models.functions import Now

from portal.outbound.errors import FetchError
from portal.tenancy.context import tenant_context
from tools.catalogue.servers import secret_headers
from tools.imports.fetching import sandbox
from tools.imports.fetching.mcp.client import ToolList, list_tools_from_command, list_tools_from_url
from tools.imports.formats.specs import DocumentRefused
from tools.models import McpServer
from tools.models.server import Health

TEST_SECONDS = 10.0  # "Test connection": somebody is waiting
_PARSE_SECONDS = 30.0  # so that they are answered within the minute that a request has


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What "Test connection" found. `error` is a sentence, and empty of a server that answered."""

    reachable: bool
    seconds: float
    error: str = ""
    protocol_version: str = ""
    server_name: str = ""
    server_version: str = ""
    tools: tuple[str, ...] = ()  # by name, as an import would take them
    warnings: tuple[str, ...] = ()


def list_tools(server: McpServer, *, seconds: float | None = None) -> ToolList:
    """The tools of a server as it is now, and a note of its health. Takes up to `seconds`, or MCP_SECONDS, so it is better
    called outside of a transaction. Raises FetchError."""
    try:
        found = (
            list_tools_from_url(server.url, secret_headers(server), seconds=seconds)
            if server.url
            else list_tools_from_command(server.command_id, seconds=seconds)
        )
    except FetchError as refused:
        note_health(server, error=str(refused))
        raise
    note_health(server)
    return found


def check_connection(server: McpServer) -> ServerReport:
    """Asks a server for its tools and changes nothing but the note of its health."""
    begun = time.monotonic()
    try:
        found = list_tools(server, seconds=TEST_SECONDS)
        document = sandbox.parse("mcp", found.raw, name=server.slug, seconds=_PARSE_SECONDS)
    except (FetchError, DocumentRefused) as refused:
        return ServerReport(reachable=False, seconds=time.monotonic() - begun, error=str(refused))
    said = json.loads(found.raw)
    return ServerReport(
        reachable=True,
        seconds=time.monotonic() - begun,
        protocol_version=said["protocolVersion"],
        server_name=document.title,
        server_version=document.version,
        tools=tuple(endpoint.name for endpoint in document.endpoints),
        warnings=(
            *found.warnings,
            *document.warnings,
            *(f"{entry.operation} would be left out: {entry.reason}." for entry in document.left_out),
        ),
    )


def note_health(server: McpServer, *, error: str = "") -> None:
    """Keeps the outcome of asking a server, if it is still reached in the same way."""
    noted: dict[str, Any] = (
        {"health": Health.FAILING, "last_error": error}
        if error
        else {"health": Health.HEALTHY, "last_error": "", "synced_at": Now()}
    )
    with tenant_context(cast(UUID, server.tenant_id)):
        McpServer.objects.filter(
            pk=server.pk, url=server.url, command_id=server.command_id, headers=server.headers
        ).update(**noted)
