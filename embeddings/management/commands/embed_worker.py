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
        if not options["once"]:
            worker.Loop().run_until_signal()
            return
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        done = worker.drain(stop=stop)
        counts = {"stored": done.stored, "failed": done.failed}
        self.show(options, counts, f"{done.stored} embedded, {done.failed} failed.")
