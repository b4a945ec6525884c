"""The Celery application, and the poll that lets the embedding worker live without its broker."""

from __future__ import annotations

import os
import threading
from typing import Any

from celery import Celery, bootsteps

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
os.environ.setdefault("PORTAL_DB_ROLE", "worker")

app = Celery("portal")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["embeddings"])


class EmbeddingPoll(bootsteps.StartStopStep):
    """Drains the work table every few seconds in a thread of the worker that consumes `embeddings`.

    It is a step of the worker, not of its consumer, so it starts and goes on while the broker is down or frozen.
    """

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        self._stop = threading.Event()
        super().__init__(parent, **kwargs)

    def include_if(self, parent: Any) -> bool:
        return "embeddings" in parent.app.amqp.queues.consume_from

    def start(self, parent: Any) -> None:
        from embeddings.worker import serve

        threading.Thread(target=serve, args=[self._stop], name="embedding-poll", daemon=True).start()

    def stop(self, parent: Any) -> None:
        self._stop.set()


app.steps["worker"].add(EmbeddingPoll)
