"""What the API takes and gives: parameters with their bounds, and tools as agents see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from rest_framework import serializers

from tools.api.pages import refuse_unknown
from tools.models import Tool
from tools.search.query import FILTER_NAMES, SearchFilters, SearchQuery

# The filters that may hold more values than the others.
_MAX_FILTER_VALUES = {"names": settings.SEARCH_NAMES_MAX, "exclude": settings.SEARCH_NAMES_MAX}
# Short forms that callers write; the long form is the field's name everywhere else.
ALIASES = {
    "protocol": "source_protocol",
    "domain": "routing_domain",
    "type": "tool_type",
    "exclude_names": "exclude",
}


class WordsField(serializers.ListField):
    """One value, several, or a comma-separated list."""

    child = serializers.CharField(max_length=300, trim_whitespace=True)

    def to_internal_value(self, data: Any) -> list[str]:
        if isinstance(data, str):
            data = [part.strip() for part in data.split(",") if part.strip()]
        words: list[str] = super().to_internal_value(data)
        return words


class SearchSerializer(serializers.Serializer[Any]):
    """A search request; the filters stand beside `query` or inside `filters`."""

    query = serializers.CharField(max_length=settings.SEARCH_QUERY_MAX_LENGTH, trim_whitespace=True)
    top_k = serializers.IntegerField(
        min_value=1, max_value=settings.SEARCH_TOP_K_MAX, default=settings.SEARCH_TOP_K
    )
    filters = serializers.DictField(required=False)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = super().get_fields()
        # Only the filters that were given: making the others would be a tenth of a search's time in Python.
        for name in self._given:
            fields[name] = WordsField(
                required=False, max_length=_MAX_FILTER_VALUES.get(name, settings.SEARCH_FILTER_VALUES_MAX)
            )
        return fields

    _given: Iterable[str] = FILTER_NAMES

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise serializers.ValidationError({"non_field_errors": ["Send a JSON object."]})
        flat = {ALIASES.get(name, name): value for name, value in data.items()}
        if isinstance(flat.get("filters"), dict):
            inside = {ALIASES.get(name, name): value for name, value in flat.pop("filters").items()}
            refuse_unknown(inside, FILTER_NAMES)
            flat |= inside
        refuse_unknown(flat, (*self._declared_fields, *FILTER_NAMES))
        self._given = [name for name in FILTER_NAMES if name in flat]
        return super().to_internal_value(flat)

    def to_query(self) -> SearchQuery:
        data = self.validated_data
        filters = {name: tuple(data[name]) for name in FILTER_NAMES if name in data}
        return SearchQuery(text=data["query"], top_k=data["top_k"], filters=SearchFilters(**filters))


class Strict(serializers.Serializer[Any]):
    """Refuses what it does not know: a mistyped option that is quietly ignored would do something else than asked."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            refuse_unknown(data, self.fields)
        return super().to_internal_value(data)

    @classmethod
    def parsed(cls, data: Any, *, partial: bool = False) -> dict[str, Any]:
        """What was given, in its final form. Raises ValidationError."""
        serializer = cls(data=data, partial=partial)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)


class ToolSerializer(serializers.ModelSerializer[Tool]):
    """A tool in full."""

    source = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, allow_null=True)  # type: ignore[assignment]
    embedding_status = serializers.SerializerMethodField()

    class Meta:
        model = Tool
        fields = (
            "id", "tool_id", "namespace", "name", "description", "description_source", "tool_type", "category", "subcategory",
            "tags", "tech_stack", "use_cases", "routing_domain", "semantic_namespace", "source_protocol", "server",
            "sensitivity", "target_personas", "parameters", "output", "annotations", "semantic_weight", "visibility",
            "lifecycle", "owner", "official", "active", "core", "estimated_cost", "source", "embedding_status", "version",
            "created_at", "updated_at",
        )  # fmt: skip

    def get_embedding_status(self, tool: Tool) -> str | None:
        embedding = next(iter(tool.embeddings.all()), None)
        return embedding.status if embedding else None


class ToolChangeSerializer(serializers.ModelSerializer[Tool]):
    """The fields of a tool that a caller may set."""

    class Meta:
        model = Tool
        fields = (
            "name", "description", "tool_type", "category", "subcategory", "tags", "tech_stack", "use_cases",
            "routing_domain", "semantic_namespace", "sensitivity", "target_personas", "parameters", "output", "annotations",
            "semantic_weight", "visibility", "lifecycle", "owner", "official", "active", "core", "estimated_cost",
        )  # fmt: skip

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            refuse_unknown(data, self.fields)
        return super().to_internal_value(data)


class NewToolSerializer(ToolChangeSerializer):
    """A tool written by hand."""

    class Meta(ToolChangeSerializer.Meta):
        fields = ("tool_id", "namespace", *ToolChangeSerializer.Meta.fields)  # type: ignore[assignment]


class ToolEditSerializer(ToolChangeSerializer):
    """An edit; of an imported tool, whose parameters are its source's, their descriptions may be changed one by one."""

    parameter_descriptions = serializers.DictField(
        child=serializers.CharField(allow_blank=True), required=False
    )

    class Meta(ToolChangeSerializer.Meta):
        fields = (*ToolChangeSerializer.Meta.fields, "parameter_descriptions")  # type: ignore[assignment]
