"""What the schemas of an OpenAPI document say, found by walking the document alone, and what of it a schema of a tool shows (`said`
says more).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_SCHEMAS = (
    "items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedItems",
    "unevaluatedProperties",
)  # fmt: skip
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "dependentSchemas")
SAYS_NOTHING = (
    "nullable", "readOnly", "writeOnly", "$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions", "$ref",
)  # fmt: skip
CLOSED = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems", "items")
EMPTY: tuple[Any, ...] = (None, False, "", [], {})
# A tool of limited size, and a reference that is not followed: the warning stands for all that is missing because of it.
AS_A_WHOLE = ("too large to be shown whole", "no room for", "whose oneOf, not and if are loosened")


def canon(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def words_of(text: Any) -> set[str]:
    """The words of a text that are not part of its markup."""
    text = re.sub(r"<[^<>]*>|&#?\w+;", " ", str(text))
    return set(re.findall(r"\w+", text))


class View:
    """What a schema of a tool shows, wherever in it."""

    def __init__(self, schema: Any) -> None:
        self.pairs: set[tuple[str, str]] = set()
        self.keys: set[str] = set()
        self.values: set[str] = set()
        self.names: set[str] = set()
        self.required: set[str] = set()
        self.words: set[str] = set()
        self._walk(schema)

    def _walk(self, node: Any) -> None:
        if isinstance(node, list):
            for one in node:
                self._walk(one)
        if not isinstance(node, dict):
            return
        for key, value in node.items():
            self.keys.add(key)
            self.pairs.add((key, canon(value)))
            if key in ("description", "title") and isinstance(value, str):
                self.words |= words_of(value)
            if key in ("examples", "enum", "type", "required"):
                self.values |= {canon(one) for one in (value if isinstance(value, list) else [value])}
            if key == "required" and isinstance(value, list):
                self.required |= {str(one) for one in value}
            if key in _MAPS and isinstance(value, dict):
                self.names |= value.keys()
            self._walk(value)

    def has_value(self, value: Any) -> bool:
        # YAML's authors leave texts without quotes; a schema that says "string" makes texts of them.
        return bool({canon(value), canon(canon(value)), canon(str(value))} & self.values)


class Said(NamedTuple):
    """One thing that a document says: a name of it for who reads a failure, whether the tool shows it, and the words by which a
    warning may name it, any of which will do."""

    what: str
    is_shown: bool
    named: tuple[str, ...]


class SchemaWalker:
    """Walks the schemas of one document."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.version = str(tree.get("openapi") or tree.get("swagger"))
        self.siblings_count = not self.version.startswith(("2", "3.0"))
        self._seen: set[tuple[int, int, tuple[str, ...]]] = set()

    # --- References -----------------------------------------------------------------------------------------------------
    def target(self, node: Any) -> Any:
        """What a node finally refers to; None where its reference leads nowhere."""
        for _ in range(20):
            if not isinstance(node, dict) or not isinstance(ref := node.get("$ref"), str):
                return node
            node = self.at(ref)
        return None

    def at(self, ref: str) -> Any:
        if not ref.startswith("#/"):
            return None
        found = self.tree
        for step in ref[2:].split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            key = (
                key
                if isinstance(found, dict) and key in found
                else re.sub("%([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), key)
            )
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found

    def fields(self, node: Any, read: tuple[str, ...], of: str, shown: Any = None) -> Iterator[Said]:
        """Those fields of a node that are not `read` otherwise; `shown` is where the tool may have them."""
        for key, value in node.items():
            if key not in read and not key.startswith("x-") and value not in EMPTY:
                yield Said(
                    f"{key} {of}", (shown or {}).get(key) == value, (f"'{key}' {of}", f"further fields {of}")
                )

    # --- Schemas --------------------------------------------------------------------------------------------------------
    def _is_marked(self, node: Any, mark: str, left: int = 20) -> bool:
        if not isinstance(node, dict) or not left:
            return False
        if node.get(mark) is True and ("$ref" not in node or self.siblings_count):
            return True
        parts = [self.target(node)] if "$ref" in node else []
        parts += node.get("allOf") or []
        return any(part is not node and self._is_marked(part, mark, left - 1) for part in parts)

    def marked_names(self, node: Any, mark: str, left: int = 6) -> set[str]:
        """Names of marked properties that any schema of the same object has."""
        node = self.target(node)
        if not isinstance(node, dict) or not left:
            return set()
        found = {
            name for name, value in (node.get("properties") or {}).items() if self._is_marked(value, mark)
        }
        for key in ("allOf", "anyOf", "oneOf"):
            for part in node.get(key) or ():
                found |= self.marked_names(part, mark, left - 1)
        return found

    def schema(
        self,
        node: Any,
        view: View,
        mark: str,
        where: str,
        named: tuple[str, ...],
        hidden: frozenset[str] = frozenset(),
    ) -> Iterator[Said]:
        """`named`: warnings that stand for all of this schema; `hidden`: marked names of the schemas around it."""
        if not isinstance(node, dict) or (id(node), id(view), named) in self._seen:
            return
        self._seen.add((id(node), id(view), named))
        named = tuple(dict.fromkeys((*named, *AS_A_WHOLE)))
        if isinstance(ref := node.get("$ref"), str):
            target = self.target(node)
            if not isinstance(target, dict):
                yield Said(f"{where}: reference {ref}", target is not None, ("the reference", *named))
            else:
                yield from self.schema(target, view, mark, where, named, hidden)
            if not self.siblings_count:
                beside = {
                    key: value for key, value in node.items() if key not in ("$ref", "description", "title")
                }
                for said in self.fields(beside, (), "beside a $ref"):
                    yield said._replace(named=(*said.named, *named))
                node = {key: node[key] for key in ("description", "title") if key in node}
        hidden |= self.marked_names(node, mark)
        for key, value in node.items():
            if (
                key.startswith("x-")
                or key in SAYS_NOTHING
                or (value in EMPTY and not (value is False and key in CLOSED))
            ):
                continue
            here = (f"'{key}' of schemas", f"'{key} beyond its bounds'", *named)
            yield from self._keyword(node, key, value, view, hidden, where, here)
            parts = [value] if key in _SCHEMAS and isinstance(value, dict) else []
            parts += value if (key in _LISTS or key == "items") and isinstance(value, list) else []
            if key in _MAPS and isinstance(value, dict):
                parts += [
                    part
                    for name, part in value.items()
                    if key != "properties" or not self._is_marked(part, mark)
                ]
            more = here if key in ("not", "if", "then", "else", "unevaluatedProperties") else named
            more = (*more, "'if' of schemas") if key in ("then", "else") else more
            for part in parts:
                within = hidden if key in ("allOf", "anyOf", "oneOf", "then", "else") else frozenset()
                yield from self.schema(part, view, mark, where, more, within)

    def _keyword(
        self,
        node: Any,
        key: str,
        value: Any,
        view: View,
        hidden: frozenset[str],
        where: str,
        named: tuple[str, ...],
    ) -> Iterator[Said]:
        def said(is_shown: bool, what: Any = value) -> Said:  # noqa: FBT001
            return Said(f"{where}: {key} {what!r:.80}", is_shown, named)

        bound = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
        if key in ("description", "title"):
            beside = ("descriptions of schemas beside",)
            yield said(words_of(value) <= view.words)._replace(named=(*named, *beside))
        elif key in ("example", "default", "const"):
            yield said(
                view.has_value(value) or any(self._pair(view, one, value) for one in (key, "examples"))
            )
        elif key in ("examples", "enum") and isinstance(value, list):
            for one in value:
                yield said(view.has_value(one), one)
        elif key == "type":
            for one in value if isinstance(value, list) else [value]:
                yield said(canon({"file": "string", None: "null"}.get(one, one)) in view.values, one)
        elif key == "required" and isinstance(value, list):
            for name in value:
                yield said(name in view.required or name in hidden, name)
        elif key == "properties" and isinstance(value, dict):
            for name in value:
                yield said(name in view.names or name in hidden, name)
        elif key in _LISTS or key in _SCHEMAS or key in _MAPS:
            shown = {key, "anyOf"} if key == "oneOf" and "discriminator" in node else {key}
            shown |= {"prefixItems"} if key == "items" and isinstance(value, list) else set()
            yield said(
                bool(shown & view.keys)
                if value is not False
                else self._pair(view, key, value) or ("not", "{}") in view.pairs
            )
        elif value is True and key in bound:
            yield said(bound[key] not in node or self._pair(view, key, node[bound[key]]))
        elif key in bound.values() and node.get(f"exclusive{key.capitalize()}") is True:
            yield said(self._pair(view, f"exclusive{key.capitalize()}", value))
        else:
            yield said(self._pair(view, key, value))

    @staticmethod
    def _pair(view: View, key: str, value: Any) -> bool:
        return (key, canon(value)) in view.pairs or (key, canon(str(value))) in view.pairs
