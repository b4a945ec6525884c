"""Lists every setting with its value, its default and where the value came from. Secrets are masked."""

from __future__ import annotations

from django.core.management.base import CommandParser

from portal.env import DECLARED
from portal.ops import settings_report
from portal.tenancy.commands import Options, PortalCommand


class Command(PortalCommand):
    help = __doc__
    requires_system_checks: list[str] = []  # the command is for when something is wrong

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--markdown", action="store_true", help="print the page docs/settings.md instead")

    def run(self, options: Options) -> None:
        settings = DECLARED.values()
        if options["markdown"]:
            self.stdout.write(settings_report.as_markdown(settings), ending="")
            return
        self.show(options, settings_report.as_json(settings), settings_report.as_table(settings))
