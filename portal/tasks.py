"""Celery's doors to the housekeeping of the portal's own tables."""

from __future__ import annotations

from celery import shared_task

from portal import idempotency


@shared_task(name="portal.tasks.prune_idempotency_keys", ignore_result=True)
def prune_idempotency_keys() -> None:
    """Deletes answers that are older than 24 hours, in every tenant."""
    idempotency.prune_idempotency_keys()
