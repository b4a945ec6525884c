"""The pages of a sync: their addresses, and Apply answered as its dialog does."""

from __future__ import annotations

from typing import Any

from django.test import Client

from portal.jobs.models import Job
from tools.models import Sync


def path_of(sync: Sync, step: str = "") -> str:
    """The address of a sync's page, or of one of its steps."""
    return f"/sources/{sync.source_id}/syncs/{sync.pk}/{step}"


def ids(sync: Sync, *names: str) -> list[str]:
    """The ids of the changes of the named tools."""
    return [str(pk) for pk in sync.changes.filter(name__in=names).values_list("pk", flat=True)]


def agreed(client: Client, sync: Sync, **fields: Any) -> Any:
    """Answers the question of Apply, as the dialog does."""
    asked = client.post(path_of(sync, "apply/"))
    return client.post(path_of(sync, "apply/"), {"choice": dict(asked.context["hidden"])["choice"], **fields})


def started(answer: Any) -> Job:
    """The only job, to whose page the answer leads."""
    job: Job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.pk}/"
    return job
