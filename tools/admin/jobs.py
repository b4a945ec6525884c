"""Admin of jobs: read-only; the portal's own pages start, cancel and resume them."""

from __future__ import annotations

from django.contrib import admin

from portal.jobs.models import Job, JobFailure, WorkerHeartbeat
from tools.admin.base import ReadOnlyAdmin


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = (
        "title",
        "kind",
        "state",
        "requested_by",
        "total",
        "done",
        "failed",
        "skipped",
        "created_at",
    )
    list_filter = ("kind", "state")
    search_fields = ("title", "requested_by")


@admin.register(JobFailure)
class JobFailureAdmin(ReadOnlyAdmin):
    list_display = ("label", "error", "job", "failed_at", "retried_at")
    list_select_related = ("job",)
    search_fields = ("label", "error")


@admin.register(WorkerHeartbeat)
class WorkerHeartbeatAdmin(ReadOnlyAdmin):
    """Heartbeats of all workers of the installation; they belong to no tenant."""

    list_display = ("queue", "host", "pid", "at")
    list_filter = ("queue",)
