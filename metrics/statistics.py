"""What is asked of the statistics of tools, and written to them. Services of the current tenant, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Min
from django.db.models.functions import Extract, Now

from metrics.models import ToolStatistics


def delete_statistics(tool_ids: Iterable[UUID]) -> None:
    """Forgets the calls of tools that are deleted; no foreign key would do it."""
    ToolStatistics.objects.filter(tool_id__in=list(tool_ids)).delete()


def seconds_until_release() -> float | None:
    """The seconds until the next quarantine ends; None without one."""
    held = ToolStatistics.objects.filter(quarantined_until__gt=Now())
    found = held.aggregate(seconds=Extract(Min("quarantined_until") - Now(), "epoch"))
    return None if found["seconds"] is None else float(found["seconds"])
