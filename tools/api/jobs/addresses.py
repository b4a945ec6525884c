"""Where a job is found: apart from its serializer, which needs the registered kinds of jobs."""

from __future__ import annotations

from uuid import UUID


def job_address(pk: UUID) -> str:
    return f"/api/v1/jobs/{pk}"
