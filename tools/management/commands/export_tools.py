"""Writes tools to a file (JSON Lines or YAML) with all that operators and sources put there: fields, sources, endpoints, overrides.
import_tools reads it back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from django.core.management.base import CommandParser
from django.template.defaultfilters import pluralize

from portal.tenancy.commands import REFUSED, USAGE, Options, TenantCommand
from portal.tenancy.context import tenant_context
from tools.imports.files import export as exports
from tools.models import Source


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--source", default="", metavar="SLUG", help="tools of this source only")
        parser.add_argument(
            "--format", choices=exports.FORMATS, default=exports.FORMATS[0], help="default: %(default)s"
        )
        parser.add_argument(
            "-o", "--output", default="", metavar="FILE", help="default: stdout, with the report on stderr"
        )

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        where = options["output"]
        tools = 0
        with tenant_context(tenant_id), self._opened(where) as write:
            if options["source"] and not Source.objects.filter(slug=options["source"]).exists():
                self.stop(USAGE, f"There is no source {options['source']!r}.")
            for text in exports.written(exports.entries(options["source"]), options["format"]):
                write(text)
                tools += 1
        report = {"file": where, "format": options["format"], "tools": tools}
        text = f"{tools:,} tool{pluralize(tools)} written to {where or 'stdout'}."
        if where:
            self.show(options, report, text)
        else:
            self.stderr.write(json.dumps(report) if options["json"] else text)

    @contextmanager
    def _opened(self, where: str) -> Iterator[Callable[[str], object]]:
        """How to write to the file, which comes to be only if all of it was written."""
        if not where:
            yield lambda text: self.stdout.write(text, ending="")
            return
        part = Path(f"{where}.part")
        try:
            with part.open("w", encoding="utf-8", newline="\n") as file:
                yield file.write
            part.replace(where)
        except OSError as error:
            self.stop(REFUSED, f"{where} cannot be written: {error.strerror}.")
        finally:
            part.unlink(missing_ok=True)
