"""Writes to the statistics of tools. Services of the current tenant, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from metrics.models import ToolStatistics


def delete_statistics(tool_ids: Iterable[UUID]) -> None:
    """Forgets the calls of tools that are deleted; no foreign key would do it."""
    ToolStatistics.objects.filter(tool_id__in=list(tool_ids)).delete()
