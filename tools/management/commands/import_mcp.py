"""Imports the tools of an MCP server: of one over HTTP, of one that is started here, or from a file with its answer to tools/list.
A command becomes an MCP server of the tenant, so that the source can be synced from then on."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from uuid import UUID

from django.core.management.base import CommandParser

from portal.outbound.errors import FetchError
from portal.tenancy.commands import REFUSED
from portal.tenancy.context import tenant_context
from tools.catalogue import servers
from tools.catalogue.errors import CatalogueError
from tools.imports.fetching.mcp import server as mcp_server
from tools.imports.fetching.mcp.server import ToolList
from tools.imports.syncing.documents import slug_of
from tools.management.import_command import ACTOR, WholeImportCommand
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
        is_stored = bool(options["command_id"]) and not options["dry_run"]
        known = self._known(tenant_id, options["command_id"]) if is_stored else None
        found = self._list(options, known)
        is_new = is_stored and known is None
        # One transaction: where the import is refused there is no new server.
        with tenant_context(tenant_id) if is_new else nullcontext():
            made = self._made(options["command_id"]) if is_new else None
            self.import_document(
                tenant_id,
                where,
                options,
                found.raw,
                warnings=found.warnings,
                kind=SourceKind.MCP.value,
                server=known or made,
            )
            if made:
                servers.note_health(made)

    def _known(self, tenant_id: UUID, command_id: str) -> McpServer | None:
        if "\0" in command_id:
            return None  # no row holds one, and PostgreSQL refuses to look for it
        with tenant_context(tenant_id):
            known: McpServer | None = McpServer.objects.filter(command_id=command_id).first()
            return known

    def _made(self, command_id: str) -> McpServer:
        """The connection that stands for the command from now on."""
        try:
            return servers.create_server(actor=ACTOR, slug=slug_of(command_id), command_id=command_id)
        except CatalogueError as error:
            self.stop(REFUSED, str(error))

    def _list(self, options: dict[str, Any], known: McpServer | None) -> ToolList:
        try:
            if options["url"]:
                return mcp_server.from_url(options["url"])
            if known:
                return servers.ask(known)
            if options["command_id"]:
                return mcp_server.from_command(options["command_id"])
        except FetchError as error:
            self.stop(REFUSED, str(error))
        return ToolList(self.read(options["file"]), ())
