"""What an operation answers: the schema of its first successful JSON answer, which a tool shows, and a note of what else there is."""

from __future__ import annotations

import re
from typing import NamedTuple

from tools.imports.formats.openapi.inputs import is_json
from tools.imports.formats.references import RefResolver
from tools.imports.formats.specs import JsonObject, JsonValue, as_object

_SUCCESS = re.compile(r"2(?:[0-9][0-9]|XX)", re.IGNORECASE)
_FURTHER = "the schemas of further answers"
# The description says what the status means, and every answer has one.
_OF_ANSWERS_2 = frozenset(("$ref", "description", "schema", "examples"))
_OF_ANSWERS_3 = frozenset(("$ref", "description", "summary", "content"))


class ShownAnswer(NamedTuple):
    """The schema of the answer that a tool shows, and where it stands, for warnings."""

    schema: JsonValue
    where: str


class _Answer(NamedTuple):
    """One answer: the schema of its first JSON media type, or None; those of its other media types; whether it has examples."""

    schema: JsonValue
    others: tuple[JsonValue, ...]
    has_examples: bool


class AnswerReader:
    """Reads the answers of one document, each once, however many operations give it by reference."""

    def __init__(self, resolver: RefResolver, *, swagger: bool) -> None:
        """`swagger`: the document is of version 2.0."""
        self._resolver, self._swagger = resolver, swagger
        # Keyed by the identity of nodes of the document, which outlive this object.
        self._answers: dict[int, _Answer] = {}
        self._same: dict[tuple[int, int], bool] = {}

    def shown(self, operation: JsonObject, where: str) -> ShownAnswer | None:
        """The answer that a tool of the operation shows; what the others say is noted as a loss."""
        responses = as_object(operation.get("responses"))
        shown: ShownAnswer | None = None
        further: list[JsonValue] = []
        for status in sorted(responses):
            if status.startswith("x-"):
                continue
            answer = self._answer(responses[status], f"{where}: answer {status}", where)
            if answer is None:
                continue
            further += answer.others
            if answer.schema is None:
                continue
            if shown is None and _SUCCESS.fullmatch(status):
                shown = ShownAnswer(answer.schema, f"{where}: answer {status}")
            else:
                further.append(answer.schema)
        if any(shown is None or not self._is_same(schema, shown.schema) for schema in further):
            self._resolver.losses.note(_FURTHER, where)
        return shown

    def _answer(self, written: JsonValue, place: str, where: str) -> _Answer | None:
        resolved = self._resolver.resolved(written, place)
        if resolved is None:
            return None
        node = resolved.value
        found = self._answers.get(id(node))
        if found is None:
            found = self._answers[id(node)] = self._of_swagger(node) if self._swagger else _of_content(node)
        if found.has_examples:
            self._resolver.losses.note("examples of answers", where)
        known = _OF_ANSWERS_2 if self._swagger else _OF_ANSWERS_3
        self._resolver.note_unread(node, known, "of answers", where)
        return found

    @staticmethod
    def _of_swagger(node: JsonObject) -> _Answer:
        return _Answer(node.get("schema"), (), bool(node.get("examples")))

    def _is_same(self, one: JsonValue, other: JsonValue) -> bool:
        """Whether two schemas say the same. Each two are compared once: by references, all operations may have them."""
        key = id(one), id(other)
        if key not in self._same:
            self._same[key] = one == other
        return self._same[key]


def _of_content(node: JsonObject) -> _Answer:
    schema: JsonValue = None
    others: list[JsonValue] = []
    has_examples = False
    for media_type, written in as_object(node.get("content")).items():
        media = as_object(written)
        has_examples = has_examples or media.get("example") is not None or bool(media.get("examples"))
        found = media.get("schema")
        if schema is None and (is_json(media_type) or media_type == "*/*"):
            schema = found
        elif found is not None:
            others.append(found)
    return _Answer(schema, tuple(others), has_examples)
