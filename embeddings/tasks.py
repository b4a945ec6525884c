"""Celery's tasks of the embedding queue. They have no arguments: the table holds the work."""

from __future__ import annotations

from celery import shared_task

from embeddings.queue import reconcile as reconciler
from embeddings.queue import worker


@shared_task(name="embeddings.tasks.wake", ignore_result=True)
def wake() -> None:
    """Wakes the loop of this process after a commit; without a loop it drains the queue here."""
    loop = worker.Loop.running
    if loop is None:
        worker.drain()
    else:
        loop.wake()


@shared_task(name="embeddings.tasks.reconcile", ignore_result=True)
def reconcile() -> None:
    """Repairs embeddings that are pending without a task."""
    reconciler.reconcile()
