"""The states of a job, and which of them allow what. transitions.py draws the ways between them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import models

from portal.error_text import shorten

LOG_LINES = 50


class JobState(models.TextChoices):
    QUEUED = "queued", "Queued"  # waits for a runner; has a cursor if it was started before
    RUNNING = "running", "Running"  # claimed by a runner that sends heartbeats
    CANCELLING = "cancelling", "Cancelling"  # ends after the batch; without a claim it waits for a runner
    CANCELLED = "cancelled", "Cancelled"  # can be resumed
    SUCCEEDED = "succeeded", "Succeeded"  # all items are done or skipped
    PARTIAL = "partial", "Partial"  # all items are done, but some failed; those can be retried
    FAILED = "failed", "Failed"  # could not go on, with its error; can be resumed
    LOST = "lost", "Lost"  # its runners died more often than it resumes by itself; a person can resume it


ACTIVE = (JobState.QUEUED, JobState.RUNNING, JobState.CANCELLING)
CLAIMED = (JobState.RUNNING, JobState.CANCELLING)
CAN_CANCEL = (JobState.QUEUED, JobState.RUNNING, JobState.LOST)
CAN_RESUME = (JobState.CANCELLED, JobState.LOST, JobState.FAILED)
CAN_RETRY = (JobState.PARTIAL,)
QUEUED_AGAIN: dict[str, Any] = {
    "state": JobState.QUEUED, "finished_at": None, "error": "", "attempts": 0, "due_at": None, "resumes": 0,
}  # fmt: skip
"""What a person's wish to go on stores: the job may lose as many runners again as a new one."""


def with_line(log: list[dict[str, str]], text: str, *, at: datetime) -> list[dict[str, str]]:
    """A job's log with one more line, cut to the last LOG_LINES."""
    line = {"at": at.astimezone(UTC).isoformat(timespec="seconds"), "text": shorten(text)}
    return [*log, line][-LOG_LINES:]
