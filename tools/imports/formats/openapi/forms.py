"""The fields of a form: the properties of its schema, also where that is put together by `allOf`, `oneOf` or `anyOf`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from tools.imports.formats.json_schema import Schemas
from tools.imports.formats.openapi.parameters import (
    MAX_PARAMETER_NAME,
    MAX_PARAMETERS,
    Input,
    serialization_of,
)
from tools.imports.formats.references import RefResolver
from tools.imports.formats.specs import JsonObject, JsonValue, as_list, as_object
from tools.imports.formats.texts import truncate

MAX_PARTS = 100
"""How many schemas one form may be put together of."""
_MAX_PROBLEMS = 5
_CHOICES = ("oneOf", "anyOf")
# Keywords of a form's schema that its fields do not carry.
_NOT_OF_FIELDS = (
    *_CHOICES, "additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties", "minProperties",
    "maxProperties", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "discriminator", "example", "examples",
    "default", "const", "enum",
)  # fmt: skip
_EMPTY: tuple[JsonValue, ...] = (None, False, [], {})


class _Form(NamedTuple):
    """A form's fields, how many properties were counted for them, and what to say of each operation that has it."""

    fields: tuple[Input, ...]
    parameters: int
    problems: tuple[str, ...]
    losses: tuple[str, ...]


class _Parts(NamedTuple):
    """What the schemas of one form say together; `has_own`: it has properties beside those of a choice."""

    properties: JsonObject
    required: frozenset[str]
    only_answers: frozenset[str]
    has_own: bool
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
        if not parts.has_own:
            return _Form((), parts.parameters, parts.problems, ())
        fields = tuple(
            Input(
                "form",
                name,
                self._schemas.piece(schema, f"{where}: field '{name}'"),
                {},
                name in parts.required,
                serialization_of(encodings.get(name)),
            )
            for name, schema in islice(parts.properties.items(), MAX_PARAMETERS)
            if name and len(name) <= MAX_PARAMETER_NAME and name not in parts.only_answers
        )
        losses = list(parts.losses)
        if len(fields) < len(parts.properties.keys() - parts.only_answers):
            losses.append("fields of forms, of which there are too many or whose names are too long")
        if any(as_object(as_object(one).get("headers")) for one in encodings.values()):
            losses.append("'headers' of fields of forms")
        return _Form(fields, parts.parameters, parts.problems, tuple(losses))

    def _parts(self, node: JsonValue) -> _Parts:
        properties: JsonObject = {}
        required: set[str] = set()
        only_answers: set[str] = set()
        problems: dict[str, None] = {}
        lost: dict[str, None] = {}
        has_own, is_whole = False, True
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
                    schema = target.value
            if not isinstance(schema, dict):
                continue
            more = as_object(schema.get("properties"))
            has_own = has_own or (is_certain and bool(more))
            parameters += len(more)
            for name, field in more.items():
                properties.setdefault(name, field)
            if self._schemas.one_way is not None:
                only_answers |= self._schemas.one_way.names(schema)
            if is_certain:
                required.update(name for name in as_list(schema.get("required")) if isinstance(name, str))
            for word in (*_CHOICES, "allOf"):
                parts = as_list(schema.get(word))
                is_whole = is_whole and len(parts) <= MAX_PARTS
                holds = is_certain and word == "allOf"
                waiting.extend((one, holds) for one in reversed(parts[:MAX_PARTS]))
            lost |= dict.fromkeys(
                f"'{word}' of forms" for word in _NOT_OF_FIELDS if schema.get(word) not in _EMPTY
            )
        if waiting or not is_whole:
            lost[f"parts of forms beyond the first {MAX_PARTS}"] = None
        return _Parts(
            properties,
            frozenset(required),
            frozenset(only_answers),
            has_own,
            parameters,
            tuple(problems),
            tuple(lost),
        )


def takes_nothing(schema: JsonValue) -> bool:
    """Whether a form has no fields and says so, as generators write it for operations without a body."""
    written = as_object(schema)
    return written.get("additionalProperties") is False and not written.get("properties")
