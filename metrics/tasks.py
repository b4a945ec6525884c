"""Celery's tasks of metrics."""

from __future__ import annotations

from celery import shared_task

from metrics import search_log


@shared_task(name="metrics.tasks.prune_searches", ignore_result=True)
def prune_searches() -> None:
    """Deletes the searches of SEARCH_LOG_DAYS ago from the log, in every tenant."""
    search_log.prune_searches()
