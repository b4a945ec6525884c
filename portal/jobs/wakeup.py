"""Wakes a job runner after a commit; without it a runner polls every JOB_POLL seconds."""

from __future__ import annotations

from django.db import transaction

from portal.resilience.wakeup import Notifier

TASK = "portal.ops.tasks.work_on_jobs"
_notifier = Notifier(TASK, queue="default")


def notify_on_commit() -> None:
    """Wakes a runner once the current transaction has committed; a rollback wakes none."""
    transaction.on_commit(_notifier.notify, robust=True)
