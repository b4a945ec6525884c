"""Runs jobs until it is stopped: the same loop as the Celery worker of queue `default`, without a broker."""

from __future__ import annotations

from portal.jobs.runner import Loop
from portal.tenancy.commands import Options, PortalCommand


class Command(PortalCommand):
    help = __doc__

    def run(self, options: Options) -> None:
        Loop().run_until_signal()
