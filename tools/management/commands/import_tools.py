"""Imports a file of tools, one JSON object a line: {id, name, description, server, domain, parameters, tags, …}."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import CommandParser

from tools.imports.command import ImportCommand
from tools.imports.service import import_tools


class Command(ImportCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", metavar="FILE.jsonl")
        parser.add_argument("--namespace", default="public", help="default: %(default)s")

    def run_for(self, tenant_id: UUID, options: dict[str, Any]) -> None:
        self.run_import(import_tools, tenant_id, options["file"], options, namespace=options["namespace"])
