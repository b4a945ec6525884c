"""The catalogue: where tools come from, what they are, and what operators made of them."""

from __future__ import annotations

from tools.models.override import PARAMETER_PREFIX, ManualOverride
from tools.models.search_index import Posting, SearchDocument
from tools.models.server import Health, McpServer
from tools.models.source import (
    DOCUMENT_KINDS,
    Endpoint,
    Layer,
    Schedule,
    Source,
    SourceDocument,
    SourceKind,
)
from tools.models.sync import Action, Sync, SyncChange, SyncState
from tools.models.tool import (
    DescriptionSource,
    Lifecycle,
    Tool,
    ToolEmbedding,
    ToolQuerySet,
    ToolType,
    Visibility,
)

__all__ = [
    "DOCUMENT_KINDS",
    "PARAMETER_PREFIX",
    "Action",
    "DescriptionSource",
    "Endpoint",
    "Health",
    "Layer",
    "Lifecycle",
    "ManualOverride",
    "McpServer",
    "Posting",
    "Schedule",
    "SearchDocument",
    "Source",
    "SourceDocument",
    "SourceKind",
    "Sync",
    "SyncChange",
    "SyncState",
    "Tool",
    "ToolEmbedding",
    "ToolQuerySet",
    "ToolType",
    "Visibility",
]
