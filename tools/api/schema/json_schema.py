"""The JSON Schema of a serializer, for answers and bodies that the OpenAPI document describes in place.

drf-spectacular makes a component, with a name of its own, of each serializer. Most answers belong to one operation and
need no name; their schemas are made here, from the same serializers that answer and validate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rest_framework import serializers

from portal.jobs.arguments import WholeNumber
from portal.json_types import JsonObject
from tools.api.fields import AnyField, ComputedField, LinksField, RawField

SerializerClass = type[serializers.Serializer[Any]]
TEXT: JsonObject = {"type": "string"}
BOOLEAN: JsonObject = {"type": "boolean"}
COUNT: JsonObject = {"type": "integer", "minimum": 0}
TEXTS: JsonObject = {"type": "array", "items": TEXT}
ID: JsonObject = {"type": "string", "format": "uuid"}
TIME: JsonObject = {"type": "string", "format": "date-time"}
LINK: JsonObject = {"type": "string", "format": "uri-reference"}


def described(**properties: JsonObject) -> JsonObject:
    """An object that has all of these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def or_null(schema: JsonObject) -> JsonObject:
    return {"anyOf": [schema, {"type": "null"}]}


def answer_schema(serializer: SerializerClass) -> JsonObject:
    """What the serializer gives: an object with all of its fields."""
    return _object(serializer().fields)


def body_schema(serializer: SerializerClass, *, partial: bool = False) -> dict[str, JsonObject]:
    """What a serializer that refuses unknown fields takes, by media type. A `partial` body may leave out any field."""
    fields = serializer().fields
    required = [name for name, field in fields.items() if field.required and not partial]
    schema: JsonObject = {
        "type": "object",
        "properties": {name: field_schema(fields[name]) for name in dict.fromkeys([*required, *fields])},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }
    return {"application/json": schema}


def field_schema(field: AnyField) -> JsonObject:
    """The schema of one field: its type and bounds, null where it may be, its help text as the description."""
    schema = dict(_type_of(field))
    description = {"description": str(field.help_text)} if field.help_text else {}
    if isinstance(field.default, bool | int | list):
        schema["default"] = field.default
    if not field.allow_null:
        return schema | description
    if isinstance(field, serializers.ListField):  # its description is of the list, not of null
        return or_null(schema | description)
    return or_null(schema) | description


def _object(fields: Mapping[str, AnyField]) -> JsonObject:
    return described(**{name: field_schema(field) for name, field in fields.items()})


def _type_of(field: AnyField) -> JsonObject:
    if isinstance(field, RawField | ComputedField):
        return field.schema
    if isinstance(field, LinksField):
        return _links(field)
    if isinstance(field, serializers.ListSerializer):
        return {"type": "array", "items": _type_of(cast(AnyField, field.child))}
    if isinstance(field, serializers.Serializer):
        return _object(field.fields)
    if isinstance(field, serializers.ListField):
        return {"type": "array", "items": field_schema(field.child)} | _bounds(
            field, minItems="min_length", maxItems="max_length"
        )
    if isinstance(field, serializers.DictField):
        return {"type": "object", "additionalProperties": field_schema(field.child)}
    if isinstance(field, serializers.ChoiceField):
        return {"type": "string", "enum": list(field.choices)}
    for kind, schema in _SIMPLE.items():
        if isinstance(field, kind):
            bounds = _bounds(field, minimum="min_value", maximum="max_value", maxLength="max_length")
            return schema | bounds | _bounds(field, minimum="low", maximum="high")
    return {}  # any JSON value


_SIMPLE: dict[type, JsonObject] = {
    serializers.BooleanField: BOOLEAN,
    serializers.IntegerField: {"type": "integer"},
    WholeNumber: {"type": "integer"},
    serializers.FloatField: {"type": "number"},
    serializers.UUIDField: ID,
    serializers.DateTimeField: TIME,
    serializers.CharField: TEXT,
}


def _bounds(field: AnyField, **names: str) -> JsonObject:
    found = {keyword: getattr(field, attribute, None) for keyword, attribute in names.items()}
    return {keyword: bound for keyword, bound in found.items() if bound is not None}


def _links(field: LinksField) -> JsonObject:
    schema = described(**dict.fromkeys(field.always, LINK))
    schema["properties"] |= {name: {**LINK, "description": field.condition} for name in field.sometimes}
    return schema
