"""Deletes jobs that ended long ago, in every tenant; beat does the same once a day."""

from __future__ import annotations

import re
from datetime import timedelta

from django.conf import settings
from django.core.management.base import CommandParser
from django.template.defaultfilters import pluralize

from portal.jobs import services
from portal.tenancy.commands import USAGE, Options, PortalCommand


class Command(PortalCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--jobs",
            default=f"{settings.JOB_KEEP_DAYS}d",
            metavar="DAYS",
            help="delete jobs that ended longer ago; default: %(default)s",
        )

    def run(self, options: Options) -> None:
        days = re.fullmatch("([0-9]{1,5})d", options["jobs"])
        if days is None:
            self.stop(USAGE, "--jobs takes a number of days, as in 90d.")
        pruned = services.prune_jobs(timedelta(days=int(days[1])))
        self.show(options, {"jobs": pruned}, f"{pruned:,} job{pluralize(pruned)} deleted.")
