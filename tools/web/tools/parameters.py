"""The parameters of a tool as rows of a table, from its JSON Schema. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tools.catalogue.parameter_descriptions import Place, parameter_descriptions, parameter_places

_MOST_CHOICES = 12


@dataclass(frozen=True, slots=True)
class Parameter:
    """One of the tool's inputs; a field of the body is "body.<field>"."""

    name: str
    type: str
    required: bool
    description: str
    default: str
    choices: tuple[str, ...]
    more_choices: int


def parameters_of(schema: Mapping[str, object]) -> list[Parameter]:
    """A row for each parameter that operators may describe, required ones first, fields of the body below the body. An
    invalid schema gives the rows that can be read from it."""
    texts = parameter_descriptions(schema)
    places = {place.name: place for place in reversed(list(parameter_places(schema)))}
    return [_parameter(places[name], text) for name, text in texts.items()]


def _parameter(place: Place, description: str) -> Parameter:
    inner: Mapping[str, object] = place.schema if isinstance(place.schema, dict) else {}
    listed = inner.get("enum")
    choices = [str(choice) for choice in listed] if isinstance(listed, list) else []
    return Parameter(
        name=place.name,
        type=type_of(inner),
        required=place.required,
        description=description,
        default="" if inner.get("default") is None else str(inner["default"])[:200],
        choices=tuple(choices[:_MOST_CHOICES]),
        more_choices=max(0, len(choices) - _MOST_CHOICES),
    )


def type_of(schema: object, depth: int = 0) -> str:
    """A schema's type in a few words: `array of string`, `integer or null`, `Pet` for a reference."""
    if not isinstance(schema, dict) or depth > 3:
        return "any"
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return reference.rsplit("/", 1)[-1]
    for union in ("anyOf", "oneOf"):
        if isinstance(schema.get(union), list):
            return (
                " or ".join(dict.fromkeys(type_of(inner, depth + 1) for inner in schema[union][:4])) or "any"
            )
    named = schema.get("type")
    if isinstance(named, list):
        return " or ".join(str(one) for one in named)
    if named == "array":
        return f"array of {type_of(schema.get('items'), depth + 1)}"
    if isinstance(named, str):
        form = schema.get("format")
        return f"{named} ({form})" if isinstance(form, str) and form else named
    return "object" if "properties" in schema else "any"
