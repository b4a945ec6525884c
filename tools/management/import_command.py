"""What the import commands share: options, the report as text or JSON, and exit codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from uuid import UUID

from django.core.management.base import CommandParser
from django.template.defaultfilters import pluralize

from portal.outbound.errors import FetchError
from portal.tenancy.commands import REFUSED, Options, TenantCommand
from portal.tenancy.context import tenant_context
from tools.catalogue.errors import CatalogueError, RemovalsNeedConfirmation
from tools.imports.formats.specs import DocumentRefused, ParsedDocument
from tools.imports.syncing.changes import ImportReport
from tools.imports.syncing.documents import IncomingDocument, parse, read_url
from tools.imports.syncing.service import import_parsed
from tools.models import SourceKind

ACTOR = "command line"
SHOWN = 20


class ImportCommand(TenantCommand):
    """Imports one document."""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--source", default="", metavar="SLUG", help="the source's name; default: from the file's"
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would change, and store nothing")

    def read(self, where: str) -> bytes:
        """The bytes of a file; ends the command where it cannot be read."""
        try:
            return Path(where).read_bytes()
        except OSError as error:
            self.stop(REFUSED, f"{where} cannot be read: {error.strerror}.")

    def parse(self, incoming: IncomingDocument) -> ParsedDocument:
        """The parsed document; ends the command where it is refused. Call it outside of a transaction."""
        try:
            return parse(incoming)
        except DocumentRefused as error:
            self.stop(REFUSED, str(error))

    def import_parsed(
        self,
        tenant_id: UUID,
        document: ParsedDocument,
        incoming: IncomingDocument,
        options: Options,
        *,
        confirm_removals: bool = False,
    ) -> ImportReport:
        """Imports and shows the report; ends the command where the import is refused."""
        try:
            with tenant_context(tenant_id):
                report = import_parsed(
                    document,
                    incoming,
                    actor=ACTOR,
                    dry_run=options["dry_run"],
                    confirm_removals=confirm_removals,
                )
        except RemovalsNeedConfirmation as error:
            self.stop(REFUSED, f"{error} Add --confirm-removals.")
        except CatalogueError as error:
            self.stop(REFUSED, str(error))
        self.show(options, report.as_dict(), "\n".join(_lines(report)))
        return report


class WholeImportCommand(ImportCommand):
    """Imports a document that holds the whole source, so that what it no longer has is removed."""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--confirm-removals",
            "--yes",
            action="store_true",
            help="also if more than a fifth of the source would vanish",
        )


class DocumentCommand(WholeImportCommand):
    """Imports a document of one kind from a file or URL."""

    kind: ClassVar[SourceKind]

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("document", metavar="PATH|URL")

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        where, slug = options["document"], options["source"]
        try:
            incoming = (
                read_url(where, kind=self.kind, slug=slug)
                if "://" in where
                else IncomingDocument(self.read(where), where, slug, self.kind)
            )
        except FetchError as error:
            self.stop(REFUSED, str(error))
        self.import_parsed(
            tenant_id,
            self.parse(incoming),
            incoming,
            options,
            confirm_removals=options["confirm_removals"],
        )


def _lines(report: ImportReport) -> list[str]:
    would = " (dry run: nothing was stored)" if report.dry_run else ""
    return [
        f"Source {report.source}: {report.operations} operation{pluralize(report.operations)}, {report.tools} tool{pluralize(report.tools)}{would}",
        (
            f"  {report.added} added, {report.changed} changed, {report.moved} moved, {report.removed} removed, "
            f"{report.unchanged} unchanged, {report.protected} protected by an override, {report.conflicts} in conflict with one"
        ),
        *details(report.left_out, report.warnings),
    ]


def details(left_out: Sequence[Mapping[str, str]], warnings: Sequence[str]) -> list[str]:
    """What a report says beside its counts, the first of each kind."""
    lines = [f"  left out: {entry['operation']}: {entry['reason']}" for entry in left_out[:SHOWN]]
    if len(left_out) > SHOWN:
        lines.append(f"  … and {len(left_out) - SHOWN:,} more left out (--json lists them all)")
    lines += [f"  warning: {warning}" for warning in warnings[:SHOWN]]
    if len(warnings) > SHOWN:
        lines.append(f"  … and {len(warnings) - SHOWN:,} more warnings (--json lists them all)")
    return lines
