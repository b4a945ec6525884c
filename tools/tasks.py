"""Celery's doors to the catalogue."""

from __future__ import annotations

from celery import shared_task

from tools.imports import schedule


@shared_task(name="tools.tasks.start_due_syncs", ignore_result=True)
def start_due_syncs() -> None:
    """Reads sources anew whose schedule says so."""
    schedule.start_due_syncs()
