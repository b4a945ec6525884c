"""Tools and their embeddings as the API takes and shows them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from tools import fields as tool_fields
from tools.api.fields import BlankAsNullField, ComputedField, CountField, RowSerializer, StrictSerializer
from tools.api.schema.json_schema import BOOLEAN
from tools.models import Tool, ToolEmbedding


class ToolSerializer(serializers.ModelSerializer[Tool]):
    """A tool in full."""

    source: Any = serializers.SlugRelatedField(slug_field="slug", read_only=True, allow_null=True)
    embedding_status = serializers.SerializerMethodField()

    class Meta:
        model = Tool
        fields = (
            "id", *tool_fields.BY_NAME, "source", "embedding_status", "version", "created_at", "updated_at",
        )  # fmt: skip

    def get_embedding_status(self, tool: Tool) -> str | None:
        embedding = next(iter(tool.embeddings.all()), None)
        return embedding.status if embedding else None


class ToolChangeSerializer(StrictSerializer, serializers.ModelSerializer[Tool]):
    """The fields of a tool that a caller may set."""

    class Meta:
        model = Tool
        fields: tuple[str, ...] = tool_fields.EDITABLE


class NewToolSerializer(ToolChangeSerializer):
    """A tool written by hand."""

    class Meta(ToolChangeSerializer.Meta):
        fields = ("tool_id", "namespace", *tool_fields.EDITABLE)


class ToolEditSerializer(ToolChangeSerializer):
    """An edit; of an imported tool, whose parameters are its source's, their descriptions may be changed one by one."""

    parameter_descriptions = serializers.DictField(
        child=serializers.CharField(allow_blank=True), required=False
    )

    class Meta(ToolChangeSerializer.Meta):
        fields = (*tool_fields.EDITABLE, "parameter_descriptions")


class EmbeddingSerializer(RowSerializer):
    """How the embedding of a tool stands. No answer holds a vector."""

    dimension = CountField()
    current = ComputedField(BOOLEAN)
    error = BlankAsNullField()

    class Meta:
        model = ToolEmbedding
        fields = (
            "status", "model", "dimension", "source_hash", "current", "truncated", "embedded_at", "error",
        )  # fmt: skip

    def get_current(self, embedding: ToolEmbedding) -> bool:
        return embedding.vector_hash == embedding.source_hash
