"""Imports the tools of an MCP server: over HTTP, started here by the id of an allowed command, or from a file with its answer to
tools/list. A command becomes an MCP server of the tenant, so that the source can be synced from then on."""

from __future__ import annotations

from contextlib import nullcontext
from uuid import UUID

from django.core.management.base import CommandParser

from portal.outbound.errors import FetchError
from portal.tenancy.commands import REFUSED, Options
from portal.tenancy.context import tenant_context
from tools.catalogue import servers
from tools.catalogue.errors import CatalogueError
from tools.imports.fetching.mcp.client import list_tools, list_tools_from_command, note_health
from tools.imports.syncing.documents import IncomingDocument, read_mcp_url, slug_of
from tools.management.import_command import ACTOR, WholeImportCommand
from tools.models import McpServer, SourceKind


class Command(WholeImportCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--url", help="of a server over streamable HTTP")
        where.add_argument(
            "--command",
            dest="command_id",
            metavar="ID",
            help="a server that MCP_COMMANDS_FILE gives the tenant",
        )
        where.add_argument("--file", metavar="LIST.json", help="an answer to tools/list")

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        command_id = options["command_id"]
        is_stored = bool(command_id) and not options["dry_run"]
        known = self._known(tenant_id, command_id) if is_stored else None
        incoming = self._incoming(options, known)
        document = self.parse(incoming)
        is_new = is_stored and known is None
        # One transaction: where the import is refused there is no new server.
        with tenant_context(tenant_id) if is_new else nullcontext():
            created = self._create(command_id) if is_new else None
            incoming.server = created or incoming.server
            self.import_parsed(
                tenant_id, document, incoming, options, confirm_removals=options["confirm_removals"]
            )
            if created:
                note_health(created)

    def _known(self, tenant_id: UUID, command_id: str) -> McpServer | None:
        if "\0" in command_id:
            return None  # no row holds one, and PostgreSQL refuses to look for it
        with tenant_context(tenant_id):
            return McpServer.objects.filter(command_id=command_id).first()

    def _create(self, command_id: str) -> McpServer:
        """The MCP server that represents the command from now on."""
        try:
            return servers.create_server(actor=ACTOR, slug=slug_of(command_id), command_id=command_id)
        except CatalogueError as error:
            self.stop(REFUSED, str(error))

    def _incoming(self, options: Options, known: McpServer | None) -> IncomingDocument:
        slug, command_id, file = options["source"], options["command_id"], options["file"]
        try:
            if options["url"]:
                return read_mcp_url(options["url"], slug=slug)
            if command_id:
                found = list_tools(known) if known else list_tools_from_command(command_id, options["tenant"])
                return IncomingDocument(
                    found.raw, command_id, slug, SourceKind.MCP, server=known, warnings=found.warnings
                )
        except FetchError as error:
            self.stop(REFUSED, str(error))
        return IncomingDocument(self.read(file), file, slug, SourceKind.MCP)
