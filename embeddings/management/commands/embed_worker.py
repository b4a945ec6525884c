"""Embeds due tasks until it is stopped: the same loop as the Celery worker of queue `embeddings`, without a broker."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import CommandParser

from embeddings import worker
from portal.tenancy.commands import PortalCommand


class Command(PortalCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--once", action="store_true", help="stop when no task is due")

    def run(self, **options: Any) -> None:
        stop = threading.Event()

        def end(*_: object) -> None:
            stop.set()
            worker.wake()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        if options["once"]:
            done = worker.drain(stop=stop)
            self.show(options, {"stored": done.stored, "failed": done.failed}, f"{done.stored} embedded, {done.failed} failed.")
        else:
            # In a thread, because a signal's handler may not touch an Event that its own thread waits for.
            loop = threading.Thread(target=worker.serve, args=[stop], name="embedding-worker")
            loop.start()
            loop.join()
