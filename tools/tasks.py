"""Celery's tasks of the catalogue."""

from __future__ import annotations

from celery import shared_task

from tools.imports.syncing import schedule, store


@shared_task(name="tools.tasks.start_due_syncs", ignore_result=True)
def start_due_syncs() -> None:
    """Starts the scheduled syncs that are due."""
    schedule.start_due_syncs()


@shared_task(name="tools.tasks.prune_syncs", ignore_result=True)
def prune_syncs() -> None:
    """Forgets all but the newest syncs of each source, with their documents."""
    store.prune_syncs()
