"""Wakes workers after a commit by a message of the broker. It can neither block nor fail a save.

A message has no content and may be lost, doubled or late: workers poll as well. A thread of its own publishes it, because even a
bounded publish to a frozen broker costs the operator a second (RELIABILITY rule 12).
"""

from __future__ import annotations

import logging
import os
import threading

from celery import Celery
from django.conf import settings
from django.db import transaction

log = logging.getLogger(__name__)

EXPIRES_SECONDS = 30


class Notifier:
    """Publishes one task to one queue, from one thread a process, started by the first `notify`; a fork starts without it."""

    def __init__(self, task: str, *, queue: str) -> None:
        self._task, self._queue = task, queue
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._wanted = threading.Event()
        self._start = threading.Lock()
        self._started = False

    def notify_on_commit(self) -> None:
        """Wakes a worker once the current transaction has committed; a rollback wakes none."""
        transaction.on_commit(self.notify, robust=True)

    def notify(self) -> None:
        """Has the message published soon; several calls may become one message."""
        self._wanted.set()
        with self._start:
            if not self._started:
                threading.Thread(
                    target=self._publish_for_ever, name=f"wakeup-{self._queue}", daemon=True
                ).start()
                self._started = True

    def _publish_for_ever(self) -> None:
        # A producer of our own: in the web nothing else loads Celery, and "the current app" would be a blank one.
        app = Celery("portal-wakeup", set_as_current=False)
        app.config_from_object("django.conf:settings", namespace="CELERY")
        idle = threading.Event()
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                app.send_task(
                    self._task, queue=self._queue, expires=EXPIRES_SECONDS, ignore_result=True, retry=False
                )
            except Exception as error:  # noqa: BLE001 - whatever the broker's client raises, workers poll
                log.warning("The broker cannot be reached (%s); workers find the work by polling.", error)
                idle.wait(settings.EMBEDDING_CIRCUIT_SECONDS)
