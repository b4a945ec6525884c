"""The filters of the tool list, the same for page and API."""

from __future__ import annotations

import django_filters
from django.db.models import Q, QuerySet

from embeddings.models import EmbeddingStatus
from portal.tenancy.models import Sensitivity
from tools.models import Tool, ToolQuerySet, ToolType


class ToolFilter(django_filters.FilterSet):
    """`q` looks into name, tool_id and description; everything else compares one field."""

    q = django_filters.CharFilter(method="containing", label="Text", max_length=200)
    source = django_filters.CharFilter(field_name="source__slug", label="Source")
    tool_type = django_filters.ChoiceFilter(choices=ToolType.choices, label="Type")
    source_protocol = django_filters.CharFilter(label="Protocol")
    category = django_filters.CharFilter(label="Category")
    routing_domain = django_filters.CharFilter(label="Domain")
    namespace = django_filters.CharFilter(label="Namespace")
    tag = django_filters.CharFilter(method="tagged", label="Tag")
    sensitivity = django_filters.ChoiceFilter(choices=Sensitivity.choices, label="Sensitivity")
    embedding_status = django_filters.ChoiceFilter(
        method="embedded", choices=EmbeddingStatus.choices, label="Embedding"
    )
    has_override = django_filters.BooleanFilter(method="overridden", label="Edited by hand")

    def containing(self, tools: QuerySet[Tool], name: str, value: str) -> QuerySet[Tool]:
        return tools.filter(
            Q(name__icontains=value) | Q(tool_id__icontains=value) | Q(description__icontains=value)
        )

    def tagged(self, tools: QuerySet[Tool], name: str, value: str) -> QuerySet[Tool]:
        return tools.filter(tags__contains=[value])

    def embedded(self, tools: ToolQuerySet, name: str, value: str) -> ToolQuerySet:
        return tools.with_embedding_status(value)

    def overridden(self, tools: QuerySet[Tool], name: str, value: object) -> QuerySet[Tool]:
        edited = tools.filter(overrides__isnull=False).distinct()
        return edited if value else tools.exclude(pk__in=edited.values("pk"))
