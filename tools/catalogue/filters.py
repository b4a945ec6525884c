"""The filters of the tool list, the same for page and API."""

from __future__ import annotations

import unicodedata

import django_filters
from django.db.models import Q, QuerySet

from embeddings.models import EmbeddingStatus
from portal.tenancy.models import Sensitivity
from tools.models import Tool, ToolQuerySet, ToolType


def spellings(text: str) -> list[str]:
    """A text in each of the ways in which Unicode composes its characters, of which a stored text may have any."""
    if text.isascii():
        return [text]
    return list(
        dict.fromkeys((text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD"))))
    )


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
        condition = Q()
        for text in spellings(value):
            condition |= Q(name__icontains=text) | Q(tool_id__icontains=text) | Q(description__icontains=text)
        return tools.filter(condition)

    def tagged(self, tools: QuerySet[Tool], name: str, value: str) -> QuerySet[Tool]:
        return tools.filter(tags__overlap=spellings(value))

    def embedded(self, tools: ToolQuerySet, name: str, value: str) -> ToolQuerySet:
        return tools.with_embedding_status(value)

    def overridden(self, tools: QuerySet[Tool], name: str, value: object) -> QuerySet[Tool]:
        edited = tools.filter(overrides__isnull=False).distinct()
        return edited if value else tools.exclude(pk__in=edited.values("pk"))
