"""What is known of a tool's calls. Search ranks and filters by it (tools/search/ranking.py, SRC-3)."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Case, F, Q, Value, When

from portal.error_text import ErrorField
from portal.tenancy.models import TenantModel


class ToolStatistics(TenantModel):
    """The calls of one tool. A tool without a row, or with no call, is unmeasured: search takes the priors of metrics/scores.py."""

    tool_id = models.UUIDField()  # tools.Tool.id
    calls = models.PositiveIntegerField(default=0, db_default=0)
    successes = models.PositiveIntegerField(default=0, db_default=0)
    # (s + 1) / (n + 2): one call alone proves neither a good tool nor a bad one (QLT-4). Null while unmeasured.
    success_rate = models.GeneratedField(
        expression=Case(
            When(calls__gt=0, then=(F("successes") + Value(1.0)) / (F("calls") + Value(2.0))),
            default=None,
        ),
        output_field=models.FloatField(null=True),
        db_persist=True,
    )
    average_latency_ms = models.FloatField(null=True, blank=True)
    quality = models.FloatField(null=True, blank=True)  # 0 to 1; null while nothing has judged it
    last_called_at = models.DateTimeField(null=True, blank=True)
    last_succeeded_at = models.DateTimeField(null=True, blank=True)
    # Until then neither search nor routing offers the tool.
    quarantined_until = models.DateTimeField(null=True, blank=True)
    quarantine_reason = ErrorField(blank=True, default="", db_default="")

    class Meta(TenantModel.Meta):
        verbose_name = verbose_name_plural = "statistics of a tool"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["tenant", "tool_id"], name="tool_statistics_once"),
            models.CheckConstraint(condition=Q(successes__lte=F("calls")), name="tool_statistics_successes"),
            models.CheckConstraint(
                condition=Q(quality=None) | Q(quality__gte=0, quality__lte=1),
                name="tool_statistics_quality_range",
            ),
            models.CheckConstraint(
                condition=Q(average_latency_ms=None) | Q(average_latency_ms__gte=0),
                name="tool_statistics_latency_range",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            # Serves the search, which leaves quarantined tools out.
            models.Index(
                fields=["tenant", "quarantined_until"],
                condition=Q(quarantined_until__isnull=False),
                name="tool_statistics_quarantined",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool_id}: {self.successes} of {self.calls} calls succeeded"
