"""Celery's tasks: jobs, and the housekeeping of the portal's own tables."""

from __future__ import annotations

from celery import shared_task

from portal.http import idempotency, sign_ins
from portal.jobs import heartbeats, services
from portal.jobs.runner import Loop


@shared_task(name="portal.ops.tasks.prune_idempotency_keys", ignore_result=True)
def prune_idempotency_keys() -> None:
    """Deletes answers that are older than 24 hours, in every tenant."""
    idempotency.prune_idempotency_keys()


@shared_task(name="portal.ops.tasks.work_on_jobs", ignore_result=True)
def work_on_jobs() -> None:
    """Wakes the loop of this process after a job was started. Without a loop, another process finds the job by polling."""
    if Loop.running is not None:
        Loop.running.wake()


@shared_task(name="portal.ops.tasks.prune_jobs", ignore_result=True)
def prune_jobs() -> None:
    """Deletes jobs that ended JOB_KEEP_DAYS ago, and the heartbeats of dead processes."""
    services.prune_jobs()
    heartbeats.prune_heartbeats()


@shared_task(name="portal.ops.tasks.prune_sign_ins", ignore_result=True)
def prune_sign_ins() -> None:
    """Deletes the attempts to sign in of SIGN_INS_KEPT_DAYS ago, in every tenant."""
    sign_ins.prune_sign_ins()
