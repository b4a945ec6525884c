"""The arguments of a kind of job: one serializer a kind, from which the check, the API's schema and the web's form fields come.

The fields here take JSON's own types: "5" is no number, and 1 is not true. An argument that is null counts as not given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django import forms
from rest_framework import serializers

from portal.jobs.errors import InvalidArguments

Arguments = dict[str, Any]
"""Arguments in their final form, as the job's row holds them: JSON."""
Field = serializers.Field[Any, Any, Any, Any]
Fields = dict[str, Field]


class Number(serializers.FloatField):
    """A JSON number between two bounds."""

    default_error_messages = {"range": "A number from {low:,} to {high:,}, please."}
    types: tuple[type[float], ...] = (int, float)

    def __init__(self, *, low: float, high: float, **options: Any) -> None:
        self.low, self.high = low, high
        super().__init__(required=False, **options)

    def to_internal_value(self, data: Any) -> float:
        # Written so that NaN is refused.
        if isinstance(data, bool) or not isinstance(data, self.types) or not self.low <= data <= self.high:
            self.fail("range", low=self.low, high=self.high)
        return data


class WholeNumber(Number):
    """A JSON integer between two bounds."""

    default_error_messages = {"range": "A whole number from {low:,} to {high:,}, please."}
    types = (int,)


class Flag(serializers.BooleanField):
    """A JSON boolean; false where it is not given."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)

    def to_internal_value(self, data: object) -> bool:
        if not isinstance(data, bool):
            raise serializers.ValidationError("True or false, please.")
        return data


class Id(serializers.UUIDField):
    """A UUID in its written form; a number is none."""

    def to_internal_value(self, data: object) -> UUID:
        if not isinstance(data, str | UUID):
            self.fail("invalid", value=data)
        return super().to_internal_value(data)


class JobArguments(serializers.Serializer[Any]):
    """The arguments of one kind of job. A subclass declares its fields and gives them their final form in `validate`."""

    def to_internal_value(self, data: Any) -> Any:
        sentence = f"There is no such argument. Known: {', '.join(sorted(self.fields))}."
        errors: dict[str, Any] = {name: [sentence] for name in data.keys() - self.fields.keys()}
        try:
            values = super().to_internal_value(
                {name: value for name, value in data.items() if value is not None}
            )
        except serializers.ValidationError as error:
            errors |= error.detail if isinstance(error.detail, dict) else {}
        if errors:
            raise serializers.ValidationError(errors)
        return values

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Arguments:
        """The arguments in their final form. Runs in the tenant's context. Raises InvalidArguments."""
        serializer = cls(data=dict(given))
        if not serializer.is_valid():
            raise InvalidArguments({name: _sentences(error) for name, error in serializer.errors.items()})
        return dict(serializer.validated_data)

    @classmethod
    def form_field(cls, name: str, **options: Any) -> forms.Field:
        """The form field of a number, with the same bounds; `options` are those of Django's field."""
        field = cls().fields[name]
        if not isinstance(field, Number):
            raise TypeError(f"{name} is no number")
        form_field: Callable[..., forms.Field] = (
            forms.IntegerField if isinstance(field, WholeNumber) else forms.FloatField
        )
        return form_field(required=False, min_value=field.low, max_value=field.high, **options)


def _sentences(error: Any) -> list[str]:
    """The sentences of a field and of its items, each once."""
    if isinstance(error, Mapping):
        return list(dict.fromkeys(sentence for inner in error.values() for sentence in _sentences(inner)))
    return [str(sentence) for sentence in error]
