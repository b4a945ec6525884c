"""Embeds due tasks until it is stopped: the same loop as the Celery worker of queue `embeddings`, without a broker."""

from __future__ import annotations

import signal
import threading

from django.core.management.base import CommandParser

from embeddings.queue import worker
from portal.tenancy.commands import Options, PortalCommand


class Command(PortalCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--once", action="store_true", help="stop when no task is due")

    def run(self, options: Options) -> None:
        ends = {signal.SIGINT, signal.SIGTERM}
        if options["once"]:
            stop = threading.Event()
            for number in ends:
                signal.signal(number, lambda *_: stop.set())
            done = worker.drain(stop=stop)
            self.show(
                options,
                {"stored": done.stored, "failed": done.failed},
                f"{done.stored} embedded, {done.failed} failed.",
            )
        else:
            signal.pthread_sigmask(signal.SIG_BLOCK, ends)
            loop = worker.Loop()
            loop.start()
            signal.sigwait(ends)
            loop.finish()
