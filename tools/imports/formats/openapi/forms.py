"""The fields of a form: the properties of its schema, also where that is put together by `allOf`, `oneOf` or `anyOf`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from tools.imports.formats.json_schema import Piece, Schemas, piece_of
from tools.imports.formats.openapi.parameters import (
    MAX_PARAMETER_NAME,
    MAX_PARAMETERS,
    Input,
    serialization_of,
)
from tools.imports.formats.references import RefResolver, unread
from tools.imports.formats.schema_values import ANNOTATIONS
from tools.imports.formats.specs import JsonObject, JsonValue, as_list, as_object
from tools.imports.formats.texts import truncate

MAX_PARTS = 100
"""How many schemas one form may be put together of."""
_MAX_PROBLEMS = 5
_CHOICES = ("oneOf", "anyOf")
# Keywords of a form's schema that its fields carry, or that say nothing of a value.
_OF_FIELDS = frozenset(
    ("type", "properties", "required", "allOf", "$ref", "readOnly", "writeOnly", "$schema", "$id", "id", "$anchor", "$comment", "$defs",
     "definitions")
)  # fmt: skip
_WITH_FIELDS = ("properties", "patternProperties", "allOf", *_CHOICES)
_REFERENCE = frozenset(("$ref",))
_OF_ENCODING = frozenset(("style", "explode", "allowReserved", "contentType"))
# Where no other fields are allowed, a tool allows them all the same.
_CLOSED = ("additionalProperties", "unevaluatedProperties")
_NO_OTHERS = f"'{_CLOSED[0]}' of forms"
_ANOTHER: JsonObject = {"description": "Another value, where another choice of the form allows it."}


class _Form(NamedTuple):
    """A form's fields, how many properties were counted for them, and what to say of each operation that has it."""

    fields: tuple[Input, ...]
    parameters: int
    problems: tuple[str, ...]
    losses: tuple[str, ...]


class _Parts(NamedTuple):
    """What the schemas of one form say together; `certain`: the properties that hold whatever is chosen."""

    properties: JsonObject
    certain: frozenset[str]
    required: frozenset[str]
    only_answers: frozenset[str]
    parameters: int
    problems: tuple[str, ...]
    losses: tuple[str, ...]


class FormReader:
    """Reads the forms of one document, each once, however many operations take it by reference."""

    def __init__(self, resolver: RefResolver, schemas: Schemas, count: Callable[[int], None]) -> None:
        """`count` is told how many more properties an operation has, and may raise `DocumentRefused`."""
        self._resolver, self._schemas, self._count = resolver, schemas, count
        # Keyed by the identity of nodes of the document, which outlive this object: schema and encoding.
        self._forms: dict[tuple[int, int], _Form] = {}

    def fields(self, schema: JsonValue, encoding: JsonValue, where: str) -> tuple[Input, ...]:
        """The fields of a form; none where it has only choices, since as one value it shows them."""
        node = self._behind(schema)
        key = id(node), id(encoding)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = self._read(node, as_object(encoding), where)
        self._count(form.parameters)
        for problem in form.problems:
            self._resolver.warnings.add(f"{where}: {problem}.")
        for loss in form.losses:
            self._resolver.losses.note(loss, where)
        return form.fields

    def _behind(self, node: JsonValue) -> JsonValue:
        """What a mere reference leads to, which all that refer to it share; anything else as it is."""
        ref = node.get("$ref") if isinstance(node, dict) else None
        is_mere = isinstance(ref, str) and (len(as_object(node)) == 1 or not self._resolver.siblings_count)
        target = self._resolver.target(ref) if isinstance(ref, str) and is_mere else None
        return target.value if target and not target.problem else node

    def _read(self, node: JsonValue, encodings: JsonObject, where: str) -> _Form:
        parts = self._parts(node)
        if not parts.certain and not takes_nothing(node):
            return _Form((), parts.parameters, parts.problems, ())
        fields = tuple(
            Input(
                "form",
                name,
                self._piece(schema, f"{where}: field '{name}'", is_certain=name in parts.certain),
                {},
                name in parts.required,
                serialization_of(encodings.get(name)),
            )
            for name, schema in islice(parts.properties.items(), MAX_PARAMETERS)
            if name and len(name) <= MAX_PARAMETER_NAME and name not in parts.only_answers
        )
        losses = list(parts.losses)
        if not parts.properties:
            losses.remove(_NO_OTHERS)
        if len(fields) < len(parts.properties.keys() - parts.only_answers):
            losses.append("fields of forms, of which there are too many or whose names are too long")
        if parts.required - parts.properties.keys():
            losses.append("required fields of forms that have no schema")
        losses += _of_encodings(encodings, {field.name for field in fields})
        return _Form(fields, parts.parameters, parts.problems, tuple(losses))

    def _piece(self, schema: JsonValue, where: str, *, is_certain: bool) -> Piece:
        """The schema of a field. One of a choice forbids nothing, since another choice may allow any value of that name."""
        piece = self._schemas.piece(schema, where)
        if is_certain or not piece.schema.keys() - ANNOTATIONS:
            return piece
        said = {key: value for key, value in piece.schema.items() if key in ANNOTATIONS}
        rest = {key: value for key, value in piece.schema.items() if key not in ANNOTATIONS}
        return piece_of(
            {**said, "anyOf": [rest, _ANOTHER]},
            is_open=piece.is_open,
            has_open_choice=piece.has_open_choice,
        )

    def _parts(self, node: JsonValue) -> _Parts:
        properties: JsonObject = {}
        certain: set[str] = set()
        required: set[str] = set()
        only_answers: set[str] = set()
        problems: dict[str, None] = {}
        lost: dict[str, None] = {}
        is_whole = True
        # Schemas, and whether they hold for sure.
        waiting: list[tuple[JsonValue, bool]] = [(node, True)]
        seen = parameters = 0
        while waiting and seen < MAX_PARTS:
            seen += 1
            schema, is_certain = waiting.pop()
            if isinstance(schema, dict) and isinstance(ref := schema.get("$ref"), str):
                target = self._resolver.target(ref)
                if target.problem and len(problems) < _MAX_PROBLEMS:
                    problems[f"the reference '{truncate(ref, 200)}' {target.problem}"] = None
                if self._resolver.siblings_count and len(schema) > 1:
                    waiting.append((target.value, is_certain))
                else:
                    if len(lost) < MAX_PARTS:
                        lost |= dict.fromkeys(unread(schema, _REFERENCE, "beside a $ref"))
                    schema = target.value
            if not isinstance(schema, dict):
                continue
            more = as_object(schema.get("properties"))
            parameters += len(more)
            for name, field in more.items():
                if properties.setdefault(name, field) != field:
                    lost["further schemas of one field of a form"] = None
                if is_certain and name not in certain:
                    certain.add(name)
                    properties[name] = field
            if self._schemas.one_way is not None:
                only_answers |= self._schemas.one_way.names(schema)
            if is_certain:
                required.update(name for name in as_list(schema.get("required")) if isinstance(name, str))
            for word in (*_CHOICES, "allOf"):
                parts = as_list(schema.get(word))
                is_whole = is_whole and len(parts) <= MAX_PARTS
                holds = is_certain and word == "allOf"
                waiting.extend((one, holds) for one in reversed(parts[:MAX_PARTS]))
            lost |= dict.fromkeys(f"'{word}' of forms" for word in _CLOSED if schema.get(word) is False)
            if len(lost) < MAX_PARTS:
                lost |= dict.fromkeys(unread(schema, _OF_FIELDS, "of forms"))
        if waiting or not is_whole:
            lost[f"parts of forms beyond the first {MAX_PARTS}"] = None
        return _Parts(
            properties,
            frozenset(certain),
            frozenset(required),
            frozenset(only_answers),
            parameters,
            tuple(problems),
            tuple(lost),
        )


def _of_encodings(encodings: JsonObject, fields: set[str]) -> Iterator[str]:
    """What of a form's `encoding` its fields do not carry."""
    if encodings.keys() - fields:
        yield "'encoding' of what is no field of a form"
    found = (unread(as_object(one), _OF_ENCODING, "of fields of forms") for one in encodings.values())
    yield from islice(dict.fromkeys(what for some in found for what in some), MAX_PARTS)


def takes_nothing(schema: JsonValue) -> bool:
    """Whether a form has no fields and says so, as generators write it for operations without a body."""
    written = as_object(schema)
    return written.get("additionalProperties") is False and not any(written.get(key) for key in _WITH_FIELDS)
