"""What the import commands share: options, the report as text or JSON, and exit codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

from django.core.management.base import CommandParser

from portal.outbound.errors import FetchError
from portal.tenancy.commands import REFUSED, TenantCommand
from tools.catalogue.errors import CatalogueError, RemovalsNeedConfirmation
from tools.imports.fetching.http import fetch_document
from tools.imports.files.import_export import Conflicts
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing.documents import import_document
from tools.imports.syncing.plan import ImportReport
from tools.models import SourceKind

ACTOR = "command line"
SHOWN = 20


class ImportCommand(TenantCommand):
    """Reads one file (or what `read` makes of its argument) and imports it."""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--source", default="", metavar="SLUG", help="the source's name; from the file's without it"
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would change, and store nothing")

    def read(self, where: str) -> bytes:
        try:
            return Path(where).read_bytes()
        except OSError as error:
            self.stop(REFUSED, f"{where} cannot be read: {error.strerror}.")

    def run_import(
        self,
        importer: Callable[..., ImportReport],
        tenant_id: UUID,
        where: str,
        options: dict[str, Any],
        raw: bytes | None = None,
        **extra: Any,
    ) -> None:
        try:
            report = importer(
                tenant_id=tenant_id, raw=self.read(where) if raw is None else raw, name=where, actor=ACTOR, slug=options["source"],
                dry_run=options["dry_run"], **extra,
            )  # fmt: skip
        except RemovalsNeedConfirmation as error:
            self.stop(REFUSED, f"{error} Add --confirm-removals.")
        except Conflicts:
            raise
        except (DocumentRefused, CatalogueError) as error:
            self.stop(REFUSED, str(error))
        self.show(options, report.as_dict(), "\n".join(_lines(report)))


class WholeImportCommand(ImportCommand):
    """Imports what is all of its source, so that what it no longer has is removed."""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--confirm-removals",
            "--yes",
            action="store_true",
            help="also if more than a fifth of the source would vanish",
        )

    def import_document(
        self, tenant_id: UUID, where: str, options: dict[str, Any], raw: bytes | None = None, **extra: Any
    ) -> None:
        confirmed = options["confirm_removals"]
        self.run_import(import_document, tenant_id, where, options, raw, confirm_removals=confirmed, **extra)


class DocumentCommand(WholeImportCommand):
    """Imports a document of one kind from a file or URL."""

    kind: ClassVar[SourceKind]

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("document", metavar="PATH|URL")

    def read(self, where: str) -> bytes:
        if "://" not in where:
            return super().read(where)
        try:
            return fetch_document(where)
        except FetchError as error:
            self.stop(REFUSED, str(error))

    def run_for(self, tenant_id: UUID, options: dict[str, Any]) -> None:
        self.import_document(tenant_id, options["document"], options, kind=self.kind.value)


def _lines(report: ImportReport) -> list[str]:
    would = " (dry run: nothing was stored)" if report.dry_run else ""
    return [
        f"Source {report.source}: {report.operations} operations, {report.tools} tools{would}",
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
