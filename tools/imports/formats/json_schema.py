"""Schemas of OpenAPI 2.0, 3.0 and 3.1 as JSON Schema 2020-12, in pieces whose size is known.

A schema's `$ref` is never unfolded in place. It becomes `#/$defs/Name`, and the schema that it leads to
becomes a piece of its own, converted once a document and shared by all tools that reach it; so neither
circles nor doubling references can make anything grow. Only keywords that JSON Schema knows, with values that
it allows, are carried over; the rest is dropped in silence, since a validator's findings must not cost a
tool. Which pieces a tool can afford is decided in `schema_budget`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tools.imports.formats.names import definition_name, hashed_name
from tools.imports.formats.references import RefResolver
from tools.imports.formats.specs import JsonObject, JsonValue, as_list, as_object
from tools.imports.formats.texts import as_text, plain_text, truncate

MAX_TEXT = 2_000
_MAX_EXAMPLE = 500
_MAX_EXAMPLES = 3
# How many schemas are looked at to find out whether one leads back to itself; more is a document made to be
# slow.
_MAX_CIRCLE = 30

TYPES = frozenset(("string", "number", "integer", "boolean", "array", "object", "null"))
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
SCHEMA_KEYS = frozenset(
    ("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", *_UNEVALUATED)
)
LIST_KEYS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
MAP_KEYS = frozenset(("properties", "patternProperties", "dependentSchemas"))
_BOOLEAN_TOO = frozenset(("additionalProperties", *_UNEVALUATED))
# Keywords whose schemas judge the same value as the schema that holds them. A circle of these alone never
# ends.
_IN_PLACE = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else"))


# Keywords whose values are of the schema's own type.
_TEXTS = frozenset(("const", "default", "enum", "examples"))
# Words that mean something else, or nothing, in a parameter of 2.0 that is read as a schema.
_OF_PARAMETERS = frozenset(
    ("$ref", "name", "in", "description", "required", "deprecated", "example", "examples")
)


class Piece(NamedTuple):
    """A converted schema, the names of the definitions that it refers to in order, and its bytes as JSON."""

    schema: JsonObject
    refs: tuple[str, ...]
    size: int


def piece_of(schema: JsonObject, size: int | None = None) -> Piece:
    """Collect the references of a finished schema, and measure it if its `size` is not known."""
    refs: dict[str, None] = {}
    _collect_references(schema, refs)
    return Piece(schema, tuple(refs), json_size(schema) if size is None else size)


def json_size(value: object) -> int:
    """Bytes of the value as compact JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))


class Schemas:
    """The schemas of one document, each converted at most once."""

    def __init__(self, resolver: RefResolver) -> None:
        self._resolver = resolver
        # Keyed by the identity of nodes of the document, which outlive this object.
        self._pieces: dict[int, Piece] = {}
        self._inline: dict[int, Piece] = {}
        self._definitions: dict[str, Piece] = {}
        self._pointers: dict[str, tuple[str, JsonValue]] = {}
        self._names: dict[str, str] = {}
        self._in_place: dict[str, tuple[str, ...]] = {}

    def piece(self, node: JsonValue, where: str) -> Piece:
        """A schema inside an operation; `where` names it in warnings."""
        found = self._pieces.get(id(node))
        if found is None:
            found = self._pieces[id(node)] = piece_of(self._converted(node, where, ""))
        return found

    def inline(self, parameter: JsonObject, where: str) -> Piece:
        """A parameter of 2.0, which is its own schema."""
        found = self._inline.get(id(parameter))
        if found is None:
            node = {key: value for key, value in parameter.items() if key not in _OF_PARAMETERS}
            found = self._inline[id(parameter)] = piece_of(self._converted(node, where, ""))
        return found

    def definition(self, name: str) -> Piece:
        """The schema behind a name that some piece's `refs` holds."""
        found = self._definitions.get(name)
        if found is None:
            pointer, node = self._pointers[name]
            found = self._definitions[name] = piece_of(
                self._converted(node, f"#/{truncate(pointer, 200)}", pointer)
            )
        return found

    def _converted(self, node: JsonValue, where: str, owner: str, *, in_place: bool = True) -> JsonObject:
        if not isinstance(node, dict):
            return {"not": {}} if node is False else {}
        if isinstance(ref := node.get("$ref"), str):
            return self._reference(node, ref, where, owner, in_place=in_place)
        return _finished(node, self._keywords(node, where, owner, in_place=in_place))

    def _keywords(self, node: JsonObject, where: str, owner: str, *, in_place: bool) -> JsonObject:
        def sub(value: JsonValue, key: str) -> JsonObject:
            return self._converted(value, where, owner, in_place=in_place and key in _IN_PLACE)

        schema: JsonObject = {}
        for key, value in node.items():
            if key in _VALUES:
                if (kept := _VALUES[key](value)) is not None or key == "const":
                    schema[key] = kept
            elif key in _BOOLEAN_TOO and isinstance(value, bool):
                schema[key] = value
            elif key in SCHEMA_KEYS and isinstance(value, dict | bool):
                schema[key] = sub(value, key)
            elif (key in LIST_KEYS or key == "items") and isinstance(value, list) and value:
                schema["prefixItems" if key == "items" else key] = [sub(item, key) for item in value]
            elif key in MAP_KEYS and isinstance(value, dict):
                schema[key] = {name: sub(item, key) for name, item in value.items()}
        if schema.get("not") == {} and node["not"] not in (True, {}):
            # What could not be carried over would otherwise forbid everything.
            del schema["not"]
        return schema

    def _reference(self, node: JsonObject, ref: str, where: str, owner: str, *, in_place: bool) -> JsonObject:
        if self._resolver.siblings_count:
            beside = {key: value for key, value in node.items() if key != "$ref"}
        else:
            beside = {key: node[key] for key in ("title", "description") if key in node}
        schema = _finished(beside, self._keywords(beside, where, owner, in_place=in_place)) if beside else {}
        target = self._resolver.target(ref)
        problem = target.problem
        if not problem and not isinstance(target.value, dict | bool):
            problem = "leads to something that is no schema"
        if not problem and in_place and owner and self._is_endless_circle(target.pointer, owner):
            problem = "leads in a circle that never ends"
        if problem:
            self._resolver.warnings.add(
                f"{where}: the reference '{truncate(ref, 200)}' {problem}; any value is allowed there."
            )
            return schema
        name = self._names.get(target.pointer)
        if name is None:
            name = self._names[target.pointer] = definition_name(target.pointer)
        if self._pointers.setdefault(name, (target.pointer, target.value))[0] != target.pointer:
            name = hashed_name(name, target.pointer)
            self._pointers[name] = (target.pointer, target.value)
        return {"$ref": f"#/$defs/{name}", **schema}

    def _is_endless_circle(self, start: str, owner: str) -> bool:
        """Whether the schema at `start` applies the owner's to the same value, so that no check ends."""
        seen: set[str] = set()
        waiting = [start]
        while waiting and len(seen) < _MAX_CIRCLE:
            pointer = waiting.pop()
            if pointer == owner:
                return True
            if pointer not in seen:
                seen.add(pointer)
                waiting.extend(self._in_place_from(pointer))
        return False

    def _in_place_from(self, pointer: str) -> tuple[str, ...]:
        found = self._in_place.get(pointer)
        if found is None:
            targets = (
                self._resolver.target(ref)
                for ref in _in_place_refs(self._resolver.target(f"#/{pointer}").value)
            )
            found = self._in_place[pointer] = tuple(
                target.pointer for target in targets if not target.problem
            )
        return found


def _in_place_refs(node: JsonValue) -> Iterator[str]:
    if not isinstance(node, dict):
        return
    if isinstance(ref := node.get("$ref"), str):
        yield ref
    for key in _IN_PLACE & node.keys():
        value = node[key]
        for item in value if isinstance(value, list) else [value]:
            yield from _in_place_refs(item)


def _collect_references(schema: JsonObject, refs: dict[str, None]) -> None:
    """Adds the names of the definitions that a converted schema refers to, in order, each once."""
    if isinstance(ref := schema.get("$ref"), str):
        refs[ref.removeprefix("#/$defs/")] = None
    for part in _subschemas(schema):
        _collect_references(part, refs)


def _subschemas(schema: JsonObject) -> Iterator[JsonObject]:
    for key, value in schema.items():
        if key in SCHEMA_KEYS and isinstance(value, dict):
            yield value
        elif key in LIST_KEYS:
            yield from value
        elif key in MAP_KEYS:
            yield from value.values()


def _finished(node: JsonObject, schema: JsonObject) -> JsonObject:
    """What older versions write in another way, or need in addition."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # Up to 3.0 the word is a flag on the bound; from 3.1 on it is a bound itself.
        if node.get(exclusive) is True and bound in schema:
            schema[exclusive] = schema.pop(bound)
    if "examples" not in schema and (example := small(node.get("example"))) is not None:
        schema["examples"] = [example]
    if _types(schema) and set(_types(schema)) <= {"string", "null"}:
        # A text that YAML's author left without quotes, such as a version or a year.
        for key in _TEXTS & schema.keys():
            schema[key] = as_written(schema[key])
    if node.get("type") == "file":
        schema |= {"type": "string", "format": "binary"}
    if "array" in _types(schema) and "items" not in schema and "prefixItems" not in schema:
        schema["items"] = {}
    if node.get("nullable") is True or node.get("x-nullable") is True:
        return _nullable(schema)
    return schema


def as_written(value: JsonValue) -> JsonValue:
    """Numbers and booleans as texts, also those of a list; anything else as it is."""
    if isinstance(value, list):
        return [as_written(item) for item in value]
    return as_text(value) if isinstance(value, bool | int | float) else value


def _types(schema: JsonObject) -> list[str]:
    types = schema.get("type", [])
    return types if isinstance(types, list) else [types]


def _nullable(schema: JsonObject) -> JsonObject:
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if types := _types(schema):
        return schema if "null" in types else {**schema, "type": [*types, "null"]}
    inner = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
    if not inner.keys() - {"enum"}:
        return schema
    either = inner["anyOf"] if inner.keys() == {"anyOf"} else [inner]
    return {key: value for key, value in schema.items() if key in _ANNOTATIONS} | {
        "anyOf": [*either, {"type": "null"}]
    }


def small(value: JsonValue) -> JsonValue:
    """An example that is short enough to be worth an agent's tokens, or None."""
    return value if value is not None and json_size(value) <= _MAX_EXAMPLE else None


def _type(value: JsonValue) -> str | list[str] | None:
    listed = value if isinstance(value, list) else [value]
    types = list(dict.fromkeys(kind for kind in listed if isinstance(kind, str) and kind in TYPES))
    return types[0] if len(types) == 1 else types or None


def _description(value: JsonValue) -> str | None:
    return plain_text(value, limit=MAX_TEXT) or None


def _word(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= MAX_TEXT else None


def _number(value: JsonValue) -> float | None:
    # The readers of documents have made text of what is not finite.
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _positive(value: JsonValue) -> float | None:
    number = _number(value)
    return number if number is not None and number > 0 else None


def _count(value: JsonValue) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None


def _flag(value: JsonValue) -> bool | None:
    return True if value is True else None


def _any(value: JsonValue) -> JsonValue:
    return value


def _list(value: JsonValue) -> list[JsonValue] | None:
    return as_list(value) or None


def _examples(value: JsonValue) -> list[JsonValue] | None:
    return [item for item in as_list(value)[:_MAX_EXAMPLES] if small(item) is not None] or None


def _names(value: JsonValue) -> list[str] | None:
    return list(dict.fromkeys(text for name in as_list(value) if (text := as_text(name)))) or None


def _name_lists(value: JsonValue) -> dict[str, list[str]] | None:
    return {key: names for key, item in as_object(value).items() if (names := _names(item))} or None


_ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
)
_VALUES: dict[str, Callable[[JsonValue], JsonValue]] = {
    "type": _type,
    "const": _any,
    "default": small,
    "enum": _list,
    "examples": _examples,
    "required": _names,
    "dependentRequired": _name_lists,
    "multipleOf": _positive,
    **dict.fromkeys(("title", "description"), _description),
    **dict.fromkeys(("format", "pattern", "contentEncoding", "contentMediaType"), _word),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _count
    ),
    **dict.fromkeys(("minContains", "maxContains"), _count),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _flag),
}
