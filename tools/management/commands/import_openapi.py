"""Imports an OpenAPI document from a file or URL: every operation becomes a tool."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import CommandParser

from portal.tenancy.commands import REFUSED
from tools.imports import fetch
from tools.imports.command import ImportCommand
from tools.imports.service import import_openapi


class Command(ImportCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("document", metavar="PATH|URL")

    def read(self, where: str) -> bytes:
        if "://" not in where:
            return super().read(where)
        try:
            return fetch.document(where)
        except fetch.FetchRefused as error:
            self.stop(REFUSED, str(error))

    def run_for(self, tenant_id: UUID, options: dict[str, Any]) -> None:
        self.run_import(import_openapi, tenant_id, options["document"], options)
