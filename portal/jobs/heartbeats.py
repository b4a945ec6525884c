"""Which queues have a process that works on them: each says so every ten seconds, from a thread of its own, so that one
whose work blocks it is not taken for dead. Said with the worker's login; read by anybody.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Count
from django.db.models.functions import Now

from portal.jobs.models import WorkerHeartbeat

log = logging.getLogger(__name__)

JOBS, EMBEDDINGS = "jobs", "embeddings"
COMMANDS = {JOBS: "python manage.py job_worker", EMBEDDINGS: "python manage.py embed_worker"}
"""What starts one more process of a queue, beside `make up`."""
BEATS = 6  # within the time after which a process counts as dead


@contextmanager
def sending_heartbeats(queue: str) -> Iterator[None]:
    """While the block runs, this process is one of `queue`; at its end it is none at once."""
    row = WorkerHeartbeat(id=uuid.uuid4(), queue=queue, host=socket.gethostname()[:255], pid=os.getpid())
    over = threading.Event()

    def beat() -> None:
        while True:
            _logging_errors(lambda: _write(row))
            if over.wait(settings.JOB_LOST_SECONDS / BEATS):
                break
        _logging_errors(lambda: WorkerHeartbeat.objects.filter(pk=row.pk).delete())

    thread = threading.Thread(target=beat, name=f"heartbeat-{queue}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(1)


def _write(row: WorkerHeartbeat) -> None:
    if not WorkerHeartbeat.objects.filter(pk=row.pk).update(at=Now()):
        row.save(force_insert=True)


def _logging_errors(step: object) -> None:
    try:
        step()  # type: ignore[operator]
    except DatabaseError as error:
        log.warning("This process cannot say that it is alive: %s", " ".join(str(error).split()))
    finally:
        connection.close()


def live_workers() -> dict[str, int]:
    """How many live processes each queue has; queues without any are not there."""
    alive = WorkerHeartbeat.objects.filter(at__gte=Now() - timedelta(seconds=settings.JOB_LOST_SECONDS))
    return dict(alive.values_list("queue").annotate(Count("pk")))


def prune_heartbeats() -> int:
    """Deletes what processes that were killed have left behind for a day."""
    deleted: int = WorkerHeartbeat.objects.filter(at__lt=Now() - timedelta(days=1)).delete()[0]
    return deleted
