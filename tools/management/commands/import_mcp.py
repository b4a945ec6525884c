"""Imports the tools of an MCP server: of one over HTTP, of one that is started here, or from a file with its answer to tools/list.
A command becomes an MCP server of the tenant, so that the source can be synced from then on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import CommandParser

from portal.tenancy.commands import REFUSED
from portal.tenancy.context import tenant_context
from tools import servers
from tools.errors import CatalogueError
from tools.imports import mcp_server
from tools.imports.command import ACTOR, WholeImportCommand
from tools.imports.fetch import FetchRefused
from tools.imports.mcp_server import ToolList
from tools.imports.service import slug_of
from tools.models import McpServer, SourceKind


class Command(WholeImportCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--url", help="of a server over streamable HTTP")
        where.add_argument("--command", dest="command_id", metavar="ID", help="a server of MCP_COMMANDS_FILE")
        where.add_argument("--file", metavar="LIST.json", help="an answer to tools/list")

    def run_for(self, tenant_id: UUID, options: dict[str, Any]) -> None:
        where = options["url"] or options["command_id"] or options["file"]
        found = self._list(options)
        self.import_document(
            tenant_id,
            where,
            options,
            found.raw,
            warnings=found.warnings,
            kind=SourceKind.MCP.value,
            server=self._server(tenant_id, options),
        )

    def _server(self, tenant_id: UUID, options: dict[str, Any]) -> McpServer | None:
        """The connection that stands for the command, made if need be."""
        command_id = options["command_id"]
        if not command_id or options["dry_run"]:
            return None
        try:
            with tenant_context(tenant_id):
                known: McpServer | None = McpServer.objects.filter(command_id=command_id).first()
                return known or servers.create_server(
                    actor=ACTOR, slug=slug_of(command_id), command_id=command_id
                )
        except CatalogueError as error:
            self.stop(REFUSED, str(error))

    def _list(self, options: dict[str, Any]) -> ToolList:
        try:
            if options["url"]:
                return mcp_server.from_url(options["url"])
            if options["command_id"]:
                return mcp_server.from_command(options["command_id"])
        except FetchRefused as error:
            self.stop(REFUSED, str(error))
        return ToolList(self.read(options["file"]), ())
