"""Overrides as the API shows them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from tools.api.fields import RowSerializer
from tools.models import ManualOverride, Tool


class _OverriddenToolSerializer(RowSerializer):
    source: Any = serializers.CharField(source="source.slug", allow_null=True)

    class Meta:
        model = Tool
        fields = ("id", "tool_id", "namespace", "name", "source")


class OverrideSerializer(RowSerializer):
    """An override beside what its source says now, of a row that has its `status` (OverrideStatus)."""

    tool = _OverriddenToolSerializer()
    field = serializers.CharField(help_text="`parameters.NAME` for the description of a parameter.")
    value = serializers.JSONField(help_text="What the operator wrote.")
    replaced = serializers.JSONField(source="imported_value", help_text="What the source said then.")
    imported = serializers.JSONField(source="status.imported", help_text="What the source says now.")
    conflict = serializers.BooleanField(
        source="status.conflict",
        help_text="The imported text has changed since, and is not what the operator wrote.",
    )

    class Meta:
        model = ManualOverride
        fields = ("tool", "field", "value", "replaced", "imported", "conflict", "made_by", "made_at")
