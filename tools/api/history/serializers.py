"""Events of a tool's history as the API shows them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from tools.api.fields import FieldChangeSerializer


class EventSerializer(serializers.Serializer[Any]):
    """What happened to a tool or to one of its overrides."""

    id = serializers.CharField()
    at = serializers.DateTimeField()
    who = serializers.CharField(allow_null=True)
    thing = serializers.ChoiceField(["tool", "override"])
    event = serializers.ChoiceField(["created", "changed", "deleted"])
    field = serializers.CharField(allow_null=True, help_text="Of an override.")
    version = serializers.IntegerField(allow_null=True)
    changes = FieldChangeSerializer(many=True)
