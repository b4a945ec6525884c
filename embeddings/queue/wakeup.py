"""Wakes an embedding worker after a commit (portal/resilience/wakeup.py)."""

from __future__ import annotations

from django.db import transaction

from portal.resilience.wakeup import Notifier

TASK = "embeddings.tasks.wake"
_notifier = Notifier(TASK, queue="embeddings")


def notify_on_commit() -> None:
    """Wakes a worker once the current transaction has committed; a rollback wakes none."""
    transaction.on_commit(_notifier.notify, robust=True)
