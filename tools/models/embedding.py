"""Where the vectors of tools live."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from embeddings.models import EntityEmbedding
from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey
from tools.models.tool import Tool


class ToolEmbedding(EntityEmbedding):
    """The embedding of a tool."""

    entity = TenantForeignKey(Tool, on_delete=models.CASCADE, related_name="embeddings")

    class Meta(EntityEmbedding.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *EntityEmbedding.Meta.constraints,
            CompositeForeignKey(
                column="entity_id", table="tools_tool", name="tool_embedding_tool", on_delete="CASCADE"
            ),
        ]
