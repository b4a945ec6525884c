"""The Celery application, and the loops that let its workers live without their broker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from celery import Celery, bootsteps, signals
from django.utils.module_loading import import_string

from portal.embedded.spawn import hide_from_own_user

if TYPE_CHECKING:
    from portal.jobs.loop import WorkLoop

hide_from_own_user()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
os.environ.setdefault("PORTAL_DB_ROLE", "worker")

app = Celery("portal")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["embeddings", "metrics", "portal.ops", "tools"])


class LoopStep(bootsteps.StartStopStep):
    """Runs a loop in a thread of the worker that consumes `queue`: it works when it is woken, and every few seconds without that.

    It is a step of the worker, not of its consumer, so it starts and goes on while the broker is down or frozen.
    """

    queue: str
    loop_class: str  # by its path, as it can be imported only once Django is set up

    def __init__(self, parent: object, **kwargs: Any) -> None:
        self._loop: WorkLoop | None = None
        super().__init__(parent, **kwargs)

    def include_if(self, parent: Any) -> bool:
        return self.queue in parent.app.amqp.queues.consume_from

    def start(self, parent: object) -> None:
        loop: WorkLoop = import_string(self.loop_class)()
        loop.start()
        self._loop = loop
        # At the signal itself, as Celery may be long about its end while it waits for a broker.
        signals.worker_shutting_down.connect(self._end, weak=False)

    def stop(self, parent: object) -> None:
        if self._loop is not None:
            self._loop.finish()

    def _end(self, **_: object) -> None:
        if self._loop is not None:
            self._loop.end()


class EmbeddingLoop(LoopStep):
    """Drains the work table of embeddings."""

    queue = "embeddings"
    loop_class = "embeddings.queue.worker.Loop"


class JobLoop(LoopStep):
    """Runs jobs. It shares the process with Celery's own tasks, which is why that has no pool to fork."""

    queue = "default"
    loop_class = "portal.jobs.runner.Loop"


app.steps["worker"] |= {EmbeddingLoop, JobLoop}
