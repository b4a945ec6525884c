"""Imports the tools of an MCP server: of one over HTTP, of one that is started here, or from a file with its answer to tools/list."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import CommandParser

from portal.tenancy.commands import REFUSED
from tools.imports import mcp_server
from tools.imports.command import ImportCommand
from tools.imports.fetch import FetchRefused
from tools.imports.mcp_server import ToolList
from tools.imports.service import import_document
from tools.models import SourceKind


class Command(ImportCommand):
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
        self.run_import(
            import_document,
            tenant_id,
            where,
            options,
            raw=found.raw,
            warnings=found.warnings,
            kind=SourceKind.MCP.value,
        )

    def _list(self, options: dict[str, Any]) -> ToolList:
        try:
            if options["url"]:
                return mcp_server.from_url(options["url"])
            if options["command_id"]:
                return mcp_server.from_command(options["command_id"])
        except FetchRefused as error:
            self.stop(REFUSED, str(error))
        return ToolList(self.read(options["file"]), ())
