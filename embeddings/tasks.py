"""Celery's tasks of the embedding queue. Arguments are none: the table says what is to be done."""

from __future__ import annotations

from celery import shared_task

from embeddings.queue import reconcile as reconciler
from embeddings.queue import worker


@shared_task(name="embeddings.tasks.wake", ignore_result=True)
def wake() -> None:
    """Somebody committed work: the loop of this process looks at once (without one, here and now)."""
    loop = worker.Loop.running
    if loop is None:
        worker.drain()
    else:
        loop.wake()


@shared_task(name="embeddings.tasks.reconcile", ignore_result=True)
def reconcile() -> None:
    """Repairs embeddings that are pending without a task."""
    reconciler.reconcile()
