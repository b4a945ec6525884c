"""Fields and base classes of the API's serializers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from django.db import models
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from portal.json_types import JsonObject

AnyField = serializers.Field[Any, Any, Any, Any]


def refuse_unknown(given: Iterable[object], known: Collection[str]) -> None:
    """Raises ValidationError for names that are not known: a mistyped filter that is ignored would list the whole catalogue."""
    if unknown := sorted({str(name) for name in given} - set(known)):
        sentence = f"There is no such parameter. Known: {', '.join(sorted(known))}."
        raise ValidationError(dict.fromkeys(unknown, sentence))


class CountField(serializers.IntegerField):
    """A count: 0 or more."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "min_value": 0})


class BlankAsNullField(serializers.CharField):
    """A text whose empty value answers show as null."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "allow_null": True})

    def to_representation(self, value: Any) -> Any:
        return super().to_representation(value) or None


class RawField(AnyField):
    """A JSON value that answers show as it is; `schema` describes it in the OpenAPI document."""

    def __init__(self, schema: JsonObject, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "read_only": True})
        self.schema = schema

    def to_representation(self, value: object) -> object:
        return value


class ComputedField(serializers.SerializerMethodField):
    """A value that the serializer's `get_<field>` makes; `schema` describes it in the OpenAPI document."""

    def __init__(self, schema: JsonObject) -> None:
        super().__init__()
        self.schema = schema


class LinksField(serializers.SerializerMethodField):
    """Addresses by name, made by the serializer's `get_links`: those of `always`, and of `sometimes` under a condition."""

    def __init__(self, *always: str, sometimes: Collection[str] = (), condition: str = "") -> None:
        super().__init__()
        self.always, self.sometimes, self.condition = always, sometimes, condition


class RowSerializer(serializers.ModelSerializer[Any]):
    """A row as callers see it, read only."""

    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.PositiveIntegerField: CountField,
    }

    def get_extra_kwargs(self) -> JsonObject:
        return {name: {"read_only": True} for name in self.Meta.fields}


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses unknown fields: a mistyped option that is quietly ignored would do something else than asked."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            refuse_unknown(data, self.fields)
        return super().to_internal_value(data)

    @classmethod
    def parsed(cls, data: object, *, partial: bool = False) -> JsonObject:
        """What was given, in its final form. Raises ValidationError."""
        serializer = cls(data=data, partial=partial)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)
