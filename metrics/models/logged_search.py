"""The log of searches (SRC-9): what was asked, what was answered, and which tool was selected."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from portal.tenancy.models import TenantModel


class LoggedSearch(TenantModel):
    """One search. Its `id` is the `search_id` of the answer.

    metrics/search_log.py writes the row a moment after the answer. A selection that comes sooner makes the row itself, with an
    empty `mode`; the log then fills in the rest, and takes the selection back if the search had not returned that tool.
    """

    at = models.DateTimeField(db_default=Now())
    asked_by = models.CharField(
        max_length=200, blank=True, default=""
    )  # the key or the person, as in the history
    query = models.TextField(blank=True, default="")  # without secrets, or redacted (metrics/redaction.py)
    filters = models.JSONField(default=dict)
    top_k = models.PositiveSmallIntegerField(default=0)
    mode = models.CharField(
        max_length=10, blank=True, default=""
    )  # hybrid | semantic | keyword; empty: see above
    degraded = ArrayField(models.TextField(), default=list)
    reranked = models.BooleanField(default=False)
    results = ArrayField(models.UUIDField(), default=list)  # tools, best first
    top_score = models.FloatField(null=True)
    best_similarity = models.FloatField(null=True)  # the highest raw cosine; null by keyword alone
    took_ms = models.FloatField(default=0)
    timings = models.JSONField(default=dict)  # milliseconds by stage
    selected_tool = models.UUIDField(null=True)
    selected_rank = models.PositiveSmallIntegerField(null=True)
    selected_at = models.DateTimeField(null=True)

    class Meta(TenantModel.Meta):
        verbose_name, verbose_name_plural = "logged search", "logged searches"
        constraints: ClassVar[list[models.BaseConstraint]] = []
        # Serves the report and the pruning.
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["tenant", "at"], name="search_log_age")]

    def __str__(self) -> str:
        return self.query or str(self.pk)

    @property
    def is_written(self) -> bool:
        """Whether the log has written the row; else only a selection has made it."""
        return bool(self.mode)

    def rank_of(self, tool_id: UUID) -> int | None:
        """The rank of a tool in the answer, from 1; None where it was not returned."""
        return self.results.index(tool_id) + 1 if tool_id in self.results else None
