"""Admin of jobs, embeddings and their tasks: read-only, without vectors; Refresh is the one thing to do."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import pluralize

from embeddings import slots
from embeddings.models import EmbeddingModel, EmbeddingTask
from portal.jobs.models import Job, JobFailure, WorkerHeartbeat
from portal.resilience.models import Circuit, CounterSum
from portal.tenancy.models import Role
from tools.admin.base import InstallationAdmin, ModelAdmin, ReadOnlyAdmin
from tools.catalogue.tools import refresh_embeddings
from tools.models import Tool, ToolEmbedding


@admin.action(description="Refresh embedding", permissions=["operate"])
def refresh_embedding(model_admin: ModelAdmin, request: HttpRequest, rows: QuerySet[Any]) -> None:
    """Asks for new vectors of tools, or of the tools of embeddings."""
    ids = list(rows.values_list("pk" if rows.model is Tool else "entity_id", flat=True))
    queued = refresh_embeddings(pks=ids)
    messages.success(request, f"Embedding refresh queued for {queued} of {len(ids)} tool{pluralize(ids)}.")


@admin.register(ToolEmbedding)
class ToolEmbeddingAdmin(ReadOnlyAdmin):
    """The embeddings that serve, one a tool."""

    list_display = ("entity", "status", "model", "dimension", "truncated", "embedded_at")
    list_select_related = ("entity",)
    list_filter = ("status", "model", "truncated", "active")
    search_fields = ("entity__name",)
    fields = (
        "entity", "slot", "active", "status", "source_hash", "vector_hash", "model", "dimension", "truncated", "error",
        "embedded_at",
    )  # fmt: skip
    actions = (refresh_embedding,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return slots.serving_rows(super().get_queryset(request))


@admin.register(EmbeddingTask)
class EmbeddingTaskAdmin(ReadOnlyAdmin):
    """The tasks of all models: what a second one is still to embed, and where it failed, stands here alone."""

    list_display = (
        "entity_type",
        "entity_id",
        "model",
        "status",
        "attempts",
        "next_attempt_at",
        "last_error",
    )
    list_filter = ("status", "model", "entity_type", "priority")


@admin.register(EmbeddingModel)
class EmbeddingModelAdmin(ReadOnlyAdmin):
    """To look at; the page of the models, which is for the same people, and `manage.py embedding_model` switch and drop."""

    role_to_view = Role.ADMIN
    is_of_catalogue = False

    list_display = ("model", "slot", "serves", "provider", "created_at")
    exclude = ("url",)  # the address of the provider is for those who run the portal


@admin.register(Circuit)
class CircuitAdmin(ReadOnlyAdmin):
    """To look at; the workers and searches open and close them."""

    role_to_view = Role.ADMIN
    is_of_catalogue = False

    list_display = ("name", "purpose", "errors", "since", "next_try", "reason")


@admin.register(CounterSum)
class CounterSumAdmin(InstallationAdmin):
    """To look at; `/metrics` shows the same."""

    list_display = ("name", "label", "value")


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """To look at; the portal's own pages start, cancel and resume them, and show viewers less of them."""

    role_to_view = Role.OPERATOR

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
class WorkerHeartbeatAdmin(InstallationAdmin):
    """Heartbeats of all workers of the installation; they belong to no tenant."""

    list_display = ("queue", "host", "pid", "at")
    list_filter = ("queue",)
