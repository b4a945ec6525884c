"""The syncs of a source: what each found, what was chosen of it, and what became of it (SYN-4)."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from portal.error_text import ErrorField
from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey, one_of
from portal.tenancy.models import TenantManager, TenantModel
from tools.models.source import Source, SourceDocument


class SyncState(models.TextChoices):
    PLANNED = "planned", "Planned"
    APPLIED = "applied", "Applied"
    DISCARDED = "discarded", "Discarded"
    FAILED = "failed", "Failed"


class SyncQuerySet(models.QuerySet["Sync"]):
    """Syncs by what became of them."""

    def planned(self) -> SyncQuerySet:
        """Those that wait to be applied or discarded."""
        return self.filter(state=SyncState.PLANNED)


SyncManager = TenantManager.from_queryset(SyncQuerySet)


class Sync(TenantModel):
    """One reading of a source. Planned, it waits to be applied or discarded; failed, it has no document and changed nothing.

    `summary` holds the report of the import (`ImportReport.as_dict()`); of a plan it says what would happen.
    """

    source = TenantForeignKey(Source, on_delete=models.CASCADE, related_name="syncs", db_index=False)
    document = TenantForeignKey(
        SourceDocument, on_delete=models.CASCADE, null=True, blank=True, related_name="syncs"
    )
    state = models.CharField(max_length=10, choices=SyncState.choices, default=SyncState.PLANNED)
    summary = models.JSONField(default=dict)
    error = ErrorField(blank=True, default="")
    # Where the source is read from once this plan is applied; both empty: where it was.
    url = models.URLField(max_length=2048, blank=True, default="")
    server_uuid = models.UUIDField(null=True, blank=True)
    job_id = models.UUIDField(
        null=True, blank=True
    )  # the job that made the plan, or the one that applied it last
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=200)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=200, blank=True, default="")

    objects: ClassVar[SyncManager[Sync]] = SyncManager()

    class Meta(TenantModel.Meta):
        ordering = ("-created_at", "-id")
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            CompositeForeignKey(
                column="source_id", table="tools_source", name="sync_source", on_delete="CASCADE"
            ),
            CompositeForeignKey(
                column="document_id", table="tools_sourcedocument", name="sync_document", on_delete="CASCADE"
            ),
            one_of("state", SyncState, name="sync_state_known"),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["tenant", "source", "-created_at"], name="sync_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.source_id} {self.state}"

    @property
    def over(self) -> str:
        """What is said to who wants to apply or discard it when it is over."""
        return f"This sync is over ({SyncState(self.state).label.lower()}). Plan the source again."


class Action(models.TextChoices):
    ADD = "add", "Added"
    CHANGE = "change", "Changed"
    MOVE = "move", "Moved"  # another path or method, and the same operationId: id, overrides and metrics stay
    REMOVE = "remove", "Removed"


class SyncChange(TenantModel):
    """What a sync would do, or did, to one endpoint and its tool; those it leaves alone have no row.

    `fields` lists the differences as {field, before, after, override} (tools/imports/syncing/differences.py): `override` is "" (none),
    "conflict" where an operator's value stays although the imported one moves on, or "reset" where syncs win. `kept` names
    overrides that nothing has changed under.
    """

    sync = TenantForeignKey(Sync, on_delete=models.CASCADE, related_name="changes", db_index=False)
    key = models.TextField()
    old_key = models.TextField(blank=True, default="")  # of a move
    action = models.CharField(max_length=10, choices=Action.choices)
    name = models.CharField(max_length=200)  # of the tool, as it is or will be
    tool_uuid = models.UUIDField(null=True, blank=True)  # of the tool that is there already
    fields = models.JSONField(default=list)
    kept = models.JSONField(default=list)
    conflict = models.BooleanField(default=False)
    applied = models.BooleanField(default=False)

    class Meta(TenantModel.Meta):
        ordering = ("sync", "action", "key")
        constraints: ClassVar[list[models.BaseConstraint]] = [
            CompositeForeignKey(
                column="sync_id", table="tools_sync", name="sync_change_sync", on_delete="CASCADE"
            ),
            models.UniqueConstraint(fields=["tenant", "sync", "key"], name="sync_change_once"),
            one_of("action", Action, name="sync_change_action_known"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.key}"
