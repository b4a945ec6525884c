"""Imports a file of tools in JSON Lines or YAML: an export of export_tools, or hand-written tools {id, name, description, server,
domain, parameters, tags, …}."""

from __future__ import annotations

import json
from uuid import UUID

from django.core.management.base import CommandParser
from django.template.defaultfilters import pluralize

from portal.tenancy.commands import REFUSED, SOME_FAILED, USAGE, Options
from portal.tenancy.context import tenant_context
from tools.catalogue.errors import CatalogueError
from tools.imports.files.import_export import (
    FAIL,
    ON_CONFLICT,
    SKIP,
    Conflicts,
    EntriesReport,
    import_export,
    is_export,
)
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing.changes import ImportReport
from tools.imports.syncing.documents import PUBLIC, slug_of, tool_file
from tools.imports.syncing.plan import ID_TAKEN
from tools.imports.syncing.service import import_parsed
from tools.management.import_command import ACTOR, ImportCommand, details
from tools.models import Tool


class Command(ImportCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", metavar="FILE")
        parser.add_argument(
            "--namespace",
            help="for tools without one in the file; default: that of the source's tools, or public",
        )
        parser.add_argument(
            "--on-conflict",
            choices=ON_CONFLICT,
            default=SKIP,
            help="in an export with tools that exist and differ: leave them, overwrite them, or store nothing at all; in a "
            "written file with ids that are not its source's: leave them out (update as well), or store nothing at all; "
            "default: %(default)s",
        )

    def run_for(self, tenant_id: UUID, options: Options) -> int | None:
        raw = self.read(options["file"])
        try:
            if is_export(raw, name=options["file"]):
                report: EntriesReport | ImportReport = self._import_export(tenant_id, raw, options)
            else:
                report = self._import_written(tenant_id, raw, options)
        except Conflicts as error:
            if options["json"]:
                self.stdout.write(json.dumps({"conflicts": error.names}, ensure_ascii=False))
            self.stop(REFUSED, str(error))
        except (DocumentRefused, CatalogueError) as error:
            self.stop(REFUSED, str(error))
        return SOME_FAILED if report.left_out else None

    def _import_export(self, tenant_id: UUID, raw: bytes, options: Options) -> EntriesReport:
        if options["source"]:
            self.stop(USAGE, "An export names the sources of its tools itself; leave --source out.")
        report = import_export(
            tenant_id=tenant_id, raw=raw, name=options["file"], actor=ACTOR, on_conflict=options["on_conflict"],
            namespace=options["namespace"] or PUBLIC, dry_run=options["dry_run"],
        )  # fmt: skip
        self.show(options, report.as_dict(), "\n".join(_lines(report)))
        return report

    def _import_written(self, tenant_id: UUID, raw: bytes, options: Options) -> ImportReport:
        incoming = tool_file(
            raw, options["file"], slug=options["source"], namespace=self._namespace(tenant_id, options)
        )
        document = self.parse(incoming)
        if options["on_conflict"] == FAIL:
            with tenant_context(tenant_id):
                found = import_parsed(document, incoming, actor=ACTOR, dry_run=True).left_out
            if taken := [one["operation"] for one in found if one["reason"].startswith(ID_TAKEN)]:
                raise Conflicts(
                    taken, "Give them other ids, or leave --on-conflict out to import the others."
                )
        return self.import_parsed(tenant_id, document, incoming, options)

    def _namespace(self, tenant_id: UUID, options: Options) -> str:
        """Where the tools of the source are; new ones do not go elsewhere."""
        slug, asked = options["source"] or slug_of(options["file"]), options["namespace"]
        with tenant_context(tenant_id):
            found = Tool.objects.filter(source__slug=slug).order_by("namespace").distinct()
            there = list(found.values_list("namespace", flat=True))
        if asked and there not in ([], [asked]):
            self.stop(
                REFUSED,
                f"The tools of the source {slug} are in the namespace {', '.join(there)}. Leave --namespace out, or give "
                "the file another --source.",
            )
        return asked or (there[0] if there else PUBLIC)


def _lines(report: EntriesReport) -> list[str]:
    would = " (dry run: nothing was stored)" if report.dry_run else ""
    return [
        f"{report.file}: {report.tools:,} tool{pluralize(report.tools)}{would}",
        (
            f"  {report.added:,} added, {report.changed:,} changed, {report.unchanged:,} unchanged, "
            f"{report.skipped:,} left as they are here, {len(report.left_out):,} left out"
        ),
        *details(report.left_out, report.warnings),
    ]
