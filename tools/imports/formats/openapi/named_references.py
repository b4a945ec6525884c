"""References by name instead of by place: `#dog` to an `$anchor`, a URI to an `$id`, and the document's own file name (JSON Schema
2020-12, 8.2). They are rewritten as JSON pointers once, so that all that comes after knows pointers only. Nothing is opened: a
URI that no schema of the document has stays as it is.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote, urljoin

from tools.imports.formats.references import walk
from tools.imports.formats.specs import JsonObject, JsonValue

MARKS = ("readOnly", "writeOnly")
# Keys whose values are data and no part of the document.
_DATA = frozenset(("example", "default", "enum", "const"))
# Keys whose values map names of any kind, such as `default`, to parts of the document.
_MAPS = frozenset(
    (
        "properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "schemas", "responses", "parameters",
        "headers", "requestBodies", "content", "callbacks", "pathItems", "links", "paths", "webhooks",
    )
)  # fmt: skip
_NOT_READ = _DATA | {"examples"}
_ROOT = ""

_Place = tuple["_Place", str | int] | None  # the place of the parent, and the key in it


class _Part(NamedTuple):
    """A part of the document, where it stands, the URI that its references are relative to, and whether its keys are names."""

    value: JsonValue
    place: _Place
    base: str
    is_map: bool


def resolve_named_references(tree: JsonObject, own_name: str, *, has_ids: bool) -> frozenset[str]:
    """Rewrites the references, in place. `own_name` is the document's file name; `has_ids`: an `$id` has a meaning (from OpenAPI
    3.1 on). Returns those of MARKS that a schema of the document has, which is found out on the way."""
    names = _Names(tree, own_name, has_ids=has_ids)
    return names.resolve()


class _Names:
    """What the schemas of one document call themselves, and the references to be looked up."""

    def __init__(self, tree: JsonObject, own_name: str, *, has_ids: bool) -> None:
        self._tree, self._own_name, self._has_ids = tree, own_name, has_ids
        self._resources: dict[str, tuple[_Place, JsonValue]] = {_ROOT: (None, tree)}
        self._anchors: dict[tuple[str, str], _Place] = {}
        self._references: list[tuple[JsonObject, str]] = []
        self._marks: set[str] = set()

    def resolve(self) -> frozenset[str]:
        waiting = [_Part(self._tree, None, _ROOT, is_map=False)]
        seen: set[int] = set()  # what an alias of YAML shares is met more than once
        while waiting:
            part = waiting.pop()
            if id(part.value) not in seen:
                seen.add(id(part.value))
                waiting.extend(self._read(part))
        known: dict[tuple[str, str], str | None] = {}
        for node, base in self._references:
            asked = base, node["$ref"]
            if asked not in known:
                known[asked] = self._pointer(*asked)
            if found := known[asked]:
                node["$ref"] = found
        return frozenset(self._marks)

    def _read(self, part: _Part) -> Iterator[_Part]:
        value, place, base, is_map = part
        if isinstance(value, list):
            for index, inner in enumerate(value):
                if isinstance(inner, dict | list):
                    yield _Part(inner, (place, index), base, is_map=False)
        elif isinstance(value, dict):
            if not is_map:
                base = self._note(value, place, base)
            for key, inner in value.items():
                if not isinstance(inner, dict | list):
                    continue
                if is_map or key not in _NOT_READ:
                    yield _Part(inner, (place, key), base, is_map=not is_map and key in _MAPS)
                elif key == "examples" and isinstance(inner, dict):
                    for one in inner.values():
                        if isinstance(one, dict):
                            self._note_reference(one, base)

    def _note(self, node: JsonObject, place: _Place, base: str) -> str:
        """Keeps what a part says of itself; returns the URI that the references in it are relative to."""
        self._marks.update(mark for mark in MARKS if node.get(mark) is True)
        if self._has_ids and isinstance(own := node.get("$id"), str):
            if own.startswith("#"):
                self._anchors.setdefault((base, own[1:]), place)
            elif own:
                base = _joined(base, own.rstrip("#"))
                self._resources.setdefault(base, (place, node))
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := node.get(key), str):
                self._anchors.setdefault((base, anchor), place)
        self._note_reference(node, base)
        return base

    def _note_reference(self, node: JsonObject, base: str) -> None:
        ref = node.get("$ref")
        if isinstance(ref, str) and (base != _ROOT or not ref.startswith("#/")):
            self._references.append((node, base))

    def _pointer(self, base: str, ref: str) -> str | None:
        """The reference as a pointer into the whole document; None where nothing in it has that name."""
        file, _, fragment = ref.partition("#")
        uri = base
        if file:
            uri = _joined(base, file)
            if uri not in self._resources and self._is_own_name(file):
                uri = _ROOT
        if uri not in self._resources:
            return None
        place, resource = self._resources[uri]
        if fragment.startswith("/"):
            # Documents with an $id for every schema often mean the whole document by "#/…" all the same.
            is_inside = uri == _ROOT or file or _leads_somewhere(resource, fragment)
            return f"#{_written(place) if is_inside else ''}{fragment}"
        if fragment:
            anchor = uri, unquote(fragment)
            return f"#{_written(self._anchors[anchor])}" if anchor in self._anchors else None
        return f"#{_written(place)}"

    def _is_own_name(self, file: str) -> bool:
        return posixpath.normpath(unquote(file).replace("\\", "/")) == self._own_name


def _joined(base: str, written: str) -> str:
    try:
        return urljoin(base, written)
    except ValueError:
        return written


def _leads_somewhere(value: JsonValue, pointer: str) -> bool:
    steps: list[str] = []
    walk(value, pointer, steps)
    return len(steps) == pointer.count("/")


def _written(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, key = place
        steps.append(str(key).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{step}" for step in reversed(steps))
