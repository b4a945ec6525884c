"""Runs jobs until it is stopped: the same loop as the Celery worker of queue `default`, without a broker."""

from __future__ import annotations

import signal

from portal.jobs.runner import Loop
from portal.tenancy.commands import Options, PortalCommand


class Command(PortalCommand):
    help = __doc__

    def run(self, options: Options) -> None:
        ends = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        loop = Loop()
        loop.start()
        signal.sigwait(ends)
        loop.finish()
