"""The parameters of a tool as a table: its JSON Schema, one row a property. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST_CHOICES = 12


@dataclass(frozen=True, slots=True)
class Parameter:
    """One property of the tool's input."""

    name: str
    type: str
    required: bool
    description: str
    default: str
    choices: tuple[str, ...]
    more_choices: int


def parameters_of(schema: Mapping[str, Any]) -> list[Parameter]:
    """Rows in the document's order, required ones first; anything that is no schema gives what can be said of it."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return []
    required = schema.get("required")
    wanted = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    rows = [_parameter(str(name), inner, required=str(name) in wanted) for name, inner in properties.items()]
    return sorted(rows, key=lambda row: not row.required)


def _parameter(name: str, schema: Any, *, required: bool) -> Parameter:
    inner: Mapping[str, Any] = schema if isinstance(schema, dict) else {}
    listed = inner.get("enum")
    choices = [str(choice) for choice in listed] if isinstance(listed, list) else []
    description = inner.get("description")
    return Parameter(
        name=name,
        type=type_of(inner),
        required=required,
        description=description if isinstance(description, str) else "",
        default="" if inner.get("default") is None else str(inner["default"])[:200],
        choices=tuple(choices[:_MOST_CHOICES]),
        more_choices=max(0, len(choices) - _MOST_CHOICES),
    )


def type_of(schema: Any, depth: int = 0) -> str:
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
