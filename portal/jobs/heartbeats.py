"""Heartbeats of worker processes: which queues have a live worker. Each process sends one every ten seconds from a thread of its
own, so that blocking work does not make it look dead. Sent with the worker's login; every login may read them.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
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
"""The command that starts one more worker of a queue, beside `make up`."""
BEATS = 6  # heartbeats within JOB_LOST_SECONDS, after which a process counts as dead


@contextmanager
def sending_heartbeats(queue: str) -> Iterator[None]:
    """Sends heartbeats of a worker of `queue` while the block runs, and deletes them at its end."""
    row = WorkerHeartbeat(id=uuid.uuid4(), queue=queue, host=socket.gethostname()[:255], pid=os.getpid())
    over = threading.Event()

    def send() -> None:
        while True:
            _logging_errors(lambda: _write(row))
            if over.wait(settings.JOB_LOST_SECONDS / BEATS):
                break
        _logging_errors(lambda: WorkerHeartbeat.objects.filter(pk=row.pk).delete())

    thread = threading.Thread(target=send, name=f"heartbeat-{queue}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(1)


def _write(row: WorkerHeartbeat) -> None:
    if not WorkerHeartbeat.objects.filter(pk=row.pk).update(at=Now()):
        row.save(force_insert=True)


def _logging_errors(step: Callable[[], object]) -> None:
    try:
        step()
    except DatabaseError as error:
        log.warning("The heartbeat of this process could not be stored: %s", " ".join(str(error).split()))
    finally:
        connection.close()


def live_workers() -> dict[str, int]:
    """Returns the number of live workers by queue, without the queues that have none."""
    live = WorkerHeartbeat.objects.filter(at__gte=Now() - timedelta(seconds=settings.JOB_LOST_SECONDS))
    return dict(live.values_list("queue").annotate(Count("pk")))


def prune_heartbeats() -> int:
    """Deletes the heartbeats of killed processes after a day; returns how many."""
    deleted: int = WorkerHeartbeat.objects.filter(at__lt=Now() - timedelta(days=1)).delete()[0]
    return deleted
