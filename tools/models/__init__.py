"""The catalogue: where tools come from, what they are, and what operators made of them."""

from __future__ import annotations

from tools.models.embedding import ToolEmbedding
from tools.models.override import ManualOverride
from tools.models.source import DOCUMENT_KINDS, Endpoint, Source, SourceDocument, SourceKind
from tools.models.tool import (
    OVERRIDABLE_FIELDS,
    DescriptionSource,
    Lifecycle,
    Tool,
    ToolType,
    Visibility,
)

__all__ = [
    "DOCUMENT_KINDS",
    "OVERRIDABLE_FIELDS",
    "DescriptionSource",
    "Endpoint",
    "Lifecycle",
    "ManualOverride",
    "Source",
    "SourceDocument",
    "SourceKind",
    "Tool",
    "ToolEmbedding",
    "ToolType",
    "Visibility",
]
