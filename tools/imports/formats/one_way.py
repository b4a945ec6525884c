"""Which properties of a schema only one side sends: `readOnly` ones the server, `writeOnly` ones the client.

`required` holds on the side that may send a field only, so a tool's input demands no field of the server's, and leaves it
out; the same holds for an answer and the client's fields. A property may be marked behind its `$ref` or in its `allOf`, and
`required` may stand in another part of the same object than the property.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.imports.formats.references import RefResolver
from tools.imports.formats.specs import JsonObject, JsonValue, as_list, as_object

# How many parts of one object (allOf, anyOf …), and how long a chain of references, are looked at; more is made to be slow.
_MAX_PARTS = 30
_LISTED_PARTS, _SINGLE_PARTS = ("allOf", "anyOf", "oneOf"), ("then", "else")
PARTS = frozenset((*_LISTED_PARTS, *_SINGLE_PARTS))
"""Keywords whose schemas say what the same object needs; `not` and `if` turn what theirs say around."""

LOOSENED = ("not", "if", "oneOf", "unevaluatedProperties")
"""Keywords that may be left out, or become others, so that a schema without the marked properties is never stricter."""

Names = frozenset[str]


def with_any_of(node: JsonObject) -> JsonObject:
    """A schema whose `oneOf` is an `anyOf`, so that several alternatives may hold; any other schema as it is."""
    choices = node.get("oneOf")
    if not isinstance(choices, list) or not choices:
        return node
    rest = {key: value for key, value in node.items() if key != "oneOf"}
    either: JsonObject = {"anyOf": choices}
    return rest | ({"allOf": [*as_list(node.get("allOf")), either]} if "anyOf" in node else either)


class OneWay:
    """The marked properties of one document; `mark` is readOnly or writeOnly."""

    def __init__(self, resolver: RefResolver, mark: str) -> None:
        self._resolver, self._mark = resolver, mark
        # Keyed by the identity of nodes of the document, which outlive this object.
        self._marked: dict[int, bool] = {}
        self._touched: dict[int, bool] = {}
        # The same of nodes that may be made for a moment, which the value keeps alive.
        self._names: dict[int, tuple[JsonObject, Names]] = {}

    def sent(self, node: JsonObject, hidden: tuple[Names, ...]) -> tuple[JsonObject, tuple[Names, ...]]:
        """A schema as it holds for the side that sends no marked properties, never stricter; and the names of those that it and
        the schemas around it (`hidden`) have."""
        own = self.names(node)
        if not node.keys().isdisjoint((*PARTS, "required", "dependentRequired")):
            hidden = tuple(dict.fromkeys((*hidden, *self.names_of_parts(node))))[:_MAX_PARTS]
        sent = {key: value for key, value in node.items() if key != "unevaluatedProperties"}
        # Where no other properties are allowed, one that is sent all the same must still be known.
        if own and node.get("additionalProperties", True) in (True, {}):
            sent["properties"] = {
                name: value for name, value in node["properties"].items() if name not in own
            }
        if hidden and isinstance(node.get("required"), list):
            sent["required"] = [name for name in node["required"] if not _is_in(name, hidden)]
        if hidden and isinstance(demands := node.get("dependentRequired"), dict):
            sent["dependentRequired"] = {
                key: [name for name in as_list(names) if not _is_in(name, hidden)]
                for key, names in demands.items()
            }
        if self.is_touched(node.get("not")):
            del sent["not"]
        if self.is_touched(node.get("if")):
            for key in ("if", *_SINGLE_PARTS):
                sent.pop(key, None)
        # What told the alternatives apart may be gone, so several of them may hold.
        return with_any_of(sent), hidden

    def names(self, node: JsonObject) -> Names:
        """The names of the marked properties that a schema itself has."""
        found = self._names.get(id(node))
        if found is None:
            properties = as_object(node.get("properties"))
            names = frozenset(
                name for name, value in properties.items() if self._is_marked(value, _MAX_PARTS)
            )
            self._names[id(node)] = found = (node, names)
        return found[1]

    def names_of_parts(self, node: JsonObject) -> tuple[Names, ...]:
        """The same of all schemas that judge the same value as this one does, itself included; empty ones left out."""
        found: list[Names] = []
        waiting: list[JsonValue] = [node]
        seen: set[int] = set()
        while waiting and len(seen) < _MAX_PARTS:
            part = waiting.pop()
            if isinstance(part, dict) and id(part) not in seen:
                seen.add(id(part))
                waiting.extend(self._parts(part))
                if names := self.names(part):
                    found.append(names)
        return tuple(found)

    def is_touched(self, node: JsonValue) -> bool:
        """Whether leaving marked properties out could change what a schema allows: something in it is marked, or is a reference."""
        if not isinstance(node, dict | list):
            return False
        found = self._touched.get(id(node))
        if found is None:
            inner = node.values() if isinstance(node, dict) else node
            found = (isinstance(node, dict) and ("$ref" in node or node.get(self._mark) is True)) or any(
                self.is_touched(value) for value in inner
            )
            self._touched[id(node)] = found
        return found

    def _parts(self, node: JsonObject) -> Iterator[JsonValue]:
        if isinstance(ref := node.get("$ref"), str):
            yield self._resolver.target(ref).value
            if not self._resolver.siblings_count:
                return
        for key in _LISTED_PARTS:
            yield from as_list(node.get(key))
        for key in _SINGLE_PARTS:
            yield node.get(key)

    def _is_marked(self, node: JsonValue, left: int) -> bool:
        if not isinstance(node, dict) or not left:
            return False
        found = self._marked.get(id(node))
        if found is None:
            self._marked[id(node)] = False  # for a circle
            ref = node.get("$ref")
            counts = not isinstance(ref, str) or self._resolver.siblings_count
            found = (
                (counts and node.get(self._mark) is True)
                or (isinstance(ref, str) and self._is_marked(self._resolver.target(ref).value, left - 1))
                or (counts and any(self._is_marked(part, left - 1) for part in as_list(node.get("allOf"))))
            )
            self._marked[id(node)] = found
        return found


def _is_in(name: JsonValue, sets: tuple[Names, ...]) -> bool:
    return isinstance(name, str) and any(name in names for names in sets)
