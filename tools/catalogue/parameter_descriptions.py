"""The descriptions of a tool's parameters, which operators override one by one, while the rest of the schema is its source's.

A parameter is a property of the input schema, or a field one level down in its `body`, then called "body.<field>"; both may
stand behind a `$ref` into the schema's own `$defs`, or in a part of an `allOf`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

BODY = "body"
_MOST_HOPS = (
    3  # references and parts of an allOf on the way to a property; more is a circle, or as good as one
)


class Place(NamedTuple):
    """A parameter, its schema, the way there from the root, and whether it is required where it stands."""

    name: str
    schema: Any
    path: tuple[str | int, ...]
    required: bool


def parameter_places(schema: Mapping[str, object]) -> Iterator[Place]:
    """Required ones first, then by name; fields of the body follow it. A property that two parts of an `allOf` describe
    comes twice."""
    for place in _properties(schema, schema, (), _MOST_HOPS):
        yield place
        if place.name == BODY:
            for inner in _properties(schema, place.schema, place.path, _MOST_HOPS):
                yield Place(f"{BODY}.{inner.name}", *inner[1:])


def _properties(
    root: Mapping[str, object], schema: object, path: tuple[str | int, ...], hops: int
) -> Iterator[Place]:
    if not isinstance(schema, dict) or hops == 0:
        return
    reference, definitions = schema.get("$ref"), root.get("$defs")
    if isinstance(reference, str) and isinstance(definitions, dict):
        name = reference.removeprefix("#/$defs/")
        yield from _properties(root, definitions.get(name), ("$defs", name), hops - 1)
    parts = schema.get("allOf")
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        yield from _properties(root, part, (*path, "allOf", index), hops - 1)
    properties, listed = schema.get("properties"), schema.get("required")
    if isinstance(properties, dict):
        # PostgreSQL reorders the keys of an object, so the order must be ours.
        order = {str(name): place for place, name in enumerate(listed)} if isinstance(listed, list) else {}
        for name in sorted(properties, key=lambda name: (order.get(name, len(order)), name)):
            yield Place(name, properties[name], (*path, "properties", name), name in order)


def parameter_descriptions(schema: Mapping[str, object]) -> dict[str, str]:
    """Every parameter with its description, "" where it has none; of two parts of an `allOf`, the one that describes it."""
    found: dict[str, str] = {}
    for place in parameter_places(schema):
        found[place.name] = found.get(place.name) or description_of(place.schema)
    return found


def with_descriptions(schema: Mapping[str, object], descriptions: Mapping[str, str]) -> dict[str, object]:
    """The schema with these descriptions instead of its own; "" takes one away, and names that it does not have are left
    out. A description in a definition is changed there, so it shows wherever the tool's schema refers to it. What was
    given stays as it is."""
    changed: Any = dict(schema)
    for place in list(parameter_places(schema)) if descriptions else ():
        if place.name in descriptions:
            changed = _described(changed, place.path, descriptions[place.name])
    return dict(changed)


def description_of(schema: object) -> str:
    """The description that a schema carries itself."""
    text = schema.get("description") if isinstance(schema, dict) else None
    return text if isinstance(text, str) else ""


def _described(node: Any, path: Sequence[str | int], text: str) -> Any:
    if path:
        copy = list(node) if isinstance(node, list) else dict(node)
        copy[path[0]] = _described(node[path[0]], path[1:], text)  # type: ignore[index]
        return copy
    if isinstance(node, dict):
        schema = {key: value for key, value in node.items() if key != "description"}
    else:
        schema = {"not": {}} if node is False else {}
    return {**schema, "description": text} if text else schema
