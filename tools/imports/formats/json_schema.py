"""Schemas of OpenAPI 2.0, 3.0 and 3.1 as JSON Schema 2020-12, in pieces whose size is known.

A schema's `$ref` is never unfolded in place. It becomes `#/$defs/Name`, and the schema that it leads to
becomes a piece of its own, converted once a document and shared by all tools that reach it; so neither
circles nor doubling references can make anything grow. Only keywords that JSON Schema knows, with values that
it allows, are carried over; the rest costs no tool, but is noted among the losses. Which pieces a tool can afford is
decided in `schema_budget`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tools.imports.formats.names import definition_name, hashed_name
from tools.imports.formats.one_way import LOOSENED, PARTS, Names, OneWay, with_any_of
from tools.imports.formats.references import RefResolver, unread
from tools.imports.formats.schema_values import ANNOTATIONS, VALUES, as_written, is_cut, json_size, small
from tools.imports.formats.specs import JsonObject, JsonValue, as_list
from tools.imports.formats.texts import truncate

# How many schemas are looked at to find out whether one leads back to itself; more is a document made to be
# slow.
_MAX_CIRCLE = 30

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
# Keywords that refuse more, the more the schemas in them allow; `contains` by the `maxContains` beside it.
_CHOOSING = frozenset(("oneOf", "not", "if", "contains"))
# Keywords that say nothing about a value, or whose meaning is carried in another way.
_WITHOUT_LOSS = frozenset(("example", "nullable", "$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions"))  # fmt: skip
# References that only a validator with the whole document can follow.
_NOT_FOLLOWED = frozenset(("$dynamicRef", "$recursiveRef"))
# What `_finished` reads.
_IN_OLDER_WORDS = (("type", "file"), ("exclusiveMinimum", True), ("exclusiveMaximum", True))
_EMPTY: tuple[JsonValue, ...] = (None, False, "", [], {})
# What is read beside a `$ref` where the version has the rest ignored.
_BESIDE = frozenset(("title", "description"))

# Keywords whose values are of the schema's own type.
_TEXTS = frozenset(("const", "default", "enum", "examples"))
# Words that mean something else, or nothing, in a parameter of 2.0 that is read as a schema, or say how it is written.
_OF_PARAMETERS = frozenset(
    ("$ref", "name", "in", "description", "required", "deprecated", "example", "examples", "collectionFormat", "style", "explode",
     "allowReserved", "allowEmptyValue")
)  # fmt: skip


class Piece(NamedTuple):
    """A converted schema, and what is known of it.

    `refs` are the names of the definitions that it refers to, in order; `refs_in_choices` those of them that stand in a
    keyword that refuses more, the more they allow. `size` is its bytes as JSON. `is_open`: somewhere it allows more than the
    document does, because a keyword could not be carried over as it stands; `has_open_choice`: it does so in such a keyword.
    """

    schema: JsonObject
    refs: tuple[str, ...]
    refs_in_choices: frozenset[str]
    size: int
    is_open: bool = False
    has_open_choice: bool = False


def piece_of(
    schema: JsonObject, size: int | None = None, *, is_open: bool = False, has_open_choice: bool = False
) -> Piece:
    """Collect the references of a finished schema, and measure it if its `size` is not known."""
    refs: dict[str, bool] = {}
    _collect_references(schema, refs, in_choice=False)
    in_choices = frozenset(name for name, is_in_choice in refs.items() if is_in_choice)
    size = json_size(schema) if size is None else size
    return Piece(schema, tuple(refs), in_choices, size, is_open, has_open_choice)


class Schemas:
    """The schemas of one document, each converted at most once."""

    def __init__(self, resolver: RefResolver, *, without: str = "") -> None:
        """`without`: properties with this mark (readOnly, writeOnly) are not of the side that sends the value."""
        self._resolver = resolver
        self.one_way = OneWay(resolver, without) if without in resolver.marks else None
        # Keyed by the identity of nodes of the document, which outlive this object.
        self._pieces: dict[int, Piece] = {}
        self._inline: dict[int, Piece] = {}
        self._definitions: dict[str, Piece] = {}
        self._pointers: dict[str, tuple[str, JsonValue]] = {}
        self._names: dict[str, str] = {}
        self._in_place: dict[str, tuple[str, ...]] = {}
        self._is_open = self._has_open_choice = False
        self._choosing = 0

    def piece(self, node: JsonValue, where: str) -> Piece:
        """A schema inside an operation; `where` names it in warnings."""
        found = self._pieces.get(id(node))
        if found is None:
            found = self._pieces[id(node)] = self._piece(node, where)
        return found

    def inline(self, parameter: JsonObject, where: str) -> Piece:
        """A parameter of 2.0, which is its own schema."""
        found = self._inline.get(id(parameter))
        if found is None:
            node = {key: value for key, value in parameter.items() if key not in _OF_PARAMETERS}
            found = self._inline[id(parameter)] = self._piece(node, where)
        return found

    def definition(self, name: str) -> Piece:
        """The schema behind a name that some piece's `refs` holds."""
        found = self._definitions.get(name)
        if found is None:
            pointer, node = self._pointers[name]
            found = self._definitions[name] = self._piece(node, f"#/{truncate(pointer, 200)}", pointer)
        return found

    def _piece(self, node: JsonValue, where: str, owner: str = "") -> Piece:
        self._is_open, self._has_open_choice, self._choosing = False, False, 0
        schema = self._converted(node, where, owner)
        return piece_of(schema, is_open=self._is_open, has_open_choice=self._has_open_choice)

    def _allow_more(self) -> None:
        """Notes that what is converted now allows more than the document does."""
        self._is_open = True
        self._has_open_choice = self._has_open_choice or self._choosing > 0

    def _converted(
        self,
        node: JsonValue,
        where: str,
        owner: str,
        *,
        in_place: bool = True,
        hidden: tuple[Names, ...] = (),
    ) -> JsonObject:
        """`hidden` are names of one-way properties that the schemas around this one have."""
        if not isinstance(node, dict):
            return {"not": {}} if node is False else {}
        if isinstance(ref := node.get("$ref"), str):
            return self._reference(node, ref, where, owner, in_place=in_place, hidden=hidden)
        return _finished(node, self._keywords(node, where, owner, in_place=in_place, hidden=hidden))

    def _keywords(
        self, node: JsonObject, where: str, owner: str, *, in_place: bool, hidden: tuple[Names, ...]
    ) -> JsonObject:
        if self.one_way is not None:
            written = node
            node, hidden = self.one_way.sent(node, hidden)
            if node != written:
                self._allow_more()
            for key in LOOSENED:
                if key in written and key not in node:
                    self._note(key, where)
        if "discriminator" in node and "oneOf" in node:
            # It tells the alternatives apart, is not carried over, and without it several of them may hold.
            node = with_any_of(node)
            self._allow_more()

        def sub(value: JsonValue, key: str) -> JsonObject:
            self._choosing += key in _CHOOSING
            schema = self._converted(
                value,
                where,
                owner,
                in_place=in_place and key in _IN_PLACE,
                hidden=hidden if key in PARTS else (),
            )
            self._choosing -= key in _CHOOSING
            return schema

        schema: JsonObject = {}
        for key, value in node.items():
            if key in VALUES:
                kept = VALUES[key](value)
                if kept is not None or key == "const":
                    schema[key] = kept
                elif value not in _EMPTY and (key, value) not in _IN_OLDER_WORDS:
                    self._note(key, where)
                    if key not in ANNOTATIONS:
                        self._allow_more()
                if is_cut(key, value):
                    self._note(key if key == "type" else f"{key} beyond its bounds", where)
            elif key in _BOOLEAN_TOO and isinstance(value, bool):
                schema[key] = value
            elif key in SCHEMA_KEYS and isinstance(value, dict | bool):
                schema[key] = sub(value, key)
            elif (key in LIST_KEYS or key == "items") and isinstance(value, list) and value:
                schema["prefixItems" if key == "items" else key] = [sub(item, key) for item in value]
            elif key in MAP_KEYS and isinstance(value, dict):
                schema[key] = {name: sub(item, key) for name, item in value.items()}
            elif key not in _WITHOUT_LOSS and not key.startswith("x-") and value not in _EMPTY:
                self._note(key, where)
                if key in _NOT_FOLLOWED or key in SCHEMA_KEYS | LIST_KEYS | MAP_KEYS:
                    self._allow_more()
        if self._allows_null(node):
            self._allow_more()
        if (example := node.get("example")) is not None:
            if "examples" not in schema and small(example) is not None:
                schema["examples"] = [example]
            elif example not in schema.get("examples", ()):
                self._note("example", where)
        if schema.get("not") == {} and node["not"] not in (True, {}):
            # What could not be carried over would otherwise forbid everything.
            del schema["not"]
        if self._resolver.siblings_count and node.get("type", "") is None and not schema.keys() - ANNOTATIONS:
            schema["type"] = "null"  # YAML's author wrote the word without quotes
        return schema

    def _allows_null(self, node: JsonObject) -> bool:
        """Whether null is allowed as the author means it, where OpenAPI is stricter: `nullable` counts up to 3.0, beside a type, and
        not against an enum."""
        if node.get("nullable") is not True and node.get("x-nullable") is not True:
            return False
        counts = not self._resolver.siblings_count and node.get("nullable") is True
        return not counts or "type" not in node or None not in as_list(node.get("enum", [None]))

    def _note(self, keyword: str, where: str) -> None:
        self._resolver.losses.note(f"'{truncate(keyword, 50)}' of schemas", where)

    def _reference(
        self, node: JsonObject, ref: str, where: str, owner: str, *, in_place: bool, hidden: tuple[Names, ...]
    ) -> JsonObject:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        if not self._resolver.siblings_count:
            for what in unread(beside, _BESIDE, "beside a $ref"):
                self._resolver.losses.note(what, where)
            beside = {key: value for key, value in beside.items() if key in _BESIDE}
        schema: JsonObject = {}
        if beside:
            keywords = self._keywords(beside, where, owner, in_place=in_place, hidden=hidden)
            schema = _finished(beside, keywords)
        target = self._resolver.target(ref)
        problem = target.problem
        if not problem and not isinstance(target.value, dict | bool):
            problem = "leads to something that is no schema"
        if not problem and in_place and owner and self._is_endless_circle(target.pointer, owner):
            problem = "leads in a circle that never ends"
        if problem:
            self._allow_more()
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
    for key, value in node.items():
        if key not in _IN_PLACE:
            continue
        for item in value if isinstance(value, list) else [value]:
            yield from _in_place_refs(item)


def _collect_references(schema: JsonObject, refs: dict[str, bool], *, in_choice: bool) -> None:
    """Adds the names of the definitions that a converted schema refers to, in order, and whether one stands in a choice."""
    if isinstance(ref := schema.get("$ref"), str):
        name = ref.removeprefix("#/$defs/")
        refs[name] = refs.get(name, False) or in_choice
    for key, part in _subschemas(schema):
        _collect_references(part, refs, in_choice=in_choice or key in _CHOOSING)


def _subschemas(schema: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for key, value in schema.items():
        if key in SCHEMA_KEYS and isinstance(value, dict):
            yield key, value
        elif key in LIST_KEYS:
            yield from ((key, part) for part in value)
        elif key in MAP_KEYS:
            yield from ((key, part) for part in value.values())


def _finished(node: JsonObject, schema: JsonObject) -> JsonObject:
    """What older versions write in another way, or need in addition."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        # Up to 3.0 the word is a flag on the bound; from 3.1 on it is a bound itself.
        if node.get(exclusive) is True and bound in schema:
            schema[exclusive] = schema.pop(bound)
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


def _types(schema: JsonObject) -> list[str]:
    types = schema.get("type", [])
    return types if isinstance(types, list) else [types]


def _nullable(schema: JsonObject) -> JsonObject:
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if types := _types(schema):
        return schema if "null" in types else {**schema, "type": [*types, "null"]}
    inner = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    if not inner.keys() - {"enum"}:
        return schema
    either = inner["anyOf"] if inner.keys() == {"anyOf"} else [inner]
    return {key: value for key, value in schema.items() if key in ANNOTATIONS} | {
        "anyOf": [*either, {"type": "null"}]
    }
