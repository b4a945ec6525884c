"""Imports a list of MCP tools, as a server answers tools/list, from a file."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import CommandParser

from tools.imports.command import ImportCommand
from tools.imports.service import import_document
from tools.models import SourceKind


class Command(ImportCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--file", required=True, metavar="LIST.json", help="an answer to tools/list")

    def run_for(self, tenant_id: UUID, options: dict[str, Any]) -> None:
        self.run_import(import_document, tenant_id, options["file"], options, kind=SourceKind.MCP.value)
