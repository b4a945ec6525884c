"""The tables of metrics. They name a tool by its UUID and have no foreign key to it."""

from __future__ import annotations

from metrics.models.logged_search import LoggedSearch
from metrics.models.tool_statistics import ToolStatistics

__all__ = ["LoggedSearch", "ToolStatistics"]
