"""The Celery application, and the poll that lets the embedding worker live without its broker."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, bootsteps, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
os.environ.setdefault("PORTAL_DB_ROLE", "worker")

app = Celery("portal")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["embeddings", "portal"])


class EmbeddingPoll(bootsteps.StartStopStep):
    """Drains the work table in a thread of the worker that consumes `embeddings`, at the bell and every few seconds.

    It is a step of the worker, not of its consumer, so it starts and goes on while the broker is down or frozen.
    """

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        self._loop: Any = None
        super().__init__(parent, **kwargs)

    def include_if(self, parent: Any) -> bool:
        return "embeddings" in parent.app.amqp.queues.consume_from

    def start(self, parent: Any) -> None:
        from embeddings.worker import Loop

        self._loop = Loop()
        self._loop.start()
        # At the signal itself, as Celery may be long about its end while it waits for a broker.
        signals.worker_shutting_down.connect(self._end, weak=False)

    def stop(self, parent: Any) -> None:
        self._loop.finish()

    def _end(self, **_: Any) -> None:
        self._loop.end()


app.steps["worker"].add(EmbeddingPoll)
