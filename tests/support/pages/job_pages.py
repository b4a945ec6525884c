"""Pages of jobs, and jobs that a runner has brought into a state."""

from __future__ import annotations

import uuid

from django.test import Client

from portal.jobs import services
from portal.jobs.context import Context, Failure
from portal.jobs.models import Job, JobState

HTMX = {"HX-Request": "true"}


def failures(*errors: str) -> list[Failure]:
    return [Failure(uuid.uuid4(), f"tool_{number}", error) for number, error in enumerate(errors)]


def end(context: Context, outcome: JobState, error: str = "") -> Job:
    assert Job.objects.finish(context.job, outcome, error=error)
    return services.find(context.job.pk)


def page(client: Client, path: str, **headers: str) -> str:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer.content.decode()
    return " ".join(answer.content.decode().split())


def job_page(client: Client, context: Context, query: str = "", **headers: str) -> str:
    return page(client, f"/jobs/{context.job.pk}/{query}", **headers)
