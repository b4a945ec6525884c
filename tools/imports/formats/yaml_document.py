"""YAML read from libyaml's events, by the core schema of YAML 1.2 and never by YAML 1.1's guesses.

Only `true`, `null` and numbers written as JSON would write them become something other than text: dates,
`12:30`, `0123`, `1_000`, `on` and `no` stay as written, tags like `!!timestamp` change nothing, and keys are
always text. Reading events instead of building PyYAML's node tree is some six times faster, and lets every
limit act while the document is read: nothing is ever built that is then found to be too large. An alias
shares the value of its anchor; its size counts again at every use, so that a small file cannot become a large
one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
)

from tools.imports.formats.specs import DocumentRefused, JsonObject, JsonValue
from tools.imports.formats.texts import MARK, WrittenFloat, truncate, without_controls

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"(?:0|-?[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_A_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
# `openapi: 3.0` and `version: 1.10` are texts that look like numbers; as a number the second would lose its
# zero.
_VERSIONS = frozenset(("openapi", "swagger", "swaggerVersion", "lightapi", "version"))
_VERSIONS_DEPTH = 2


class YamlLimits(NamedTuple):
    """`subject` begins the sentence of a refusal; the rest are upper bounds."""

    subject: str
    depth: int
    values: int
    characters: int
    digits: int


class _Weight(NamedTuple):
    """What a value would cost if it were written out: values, characters, and levels of nesting."""

    values: int
    characters: int
    height: int


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been reached."""

    value: list[JsonValue] | JsonObject
    anchor: str | None
    before: tuple[int, int]
    height: int = 0
    key: str | None = None  # where the next key is expected
    cleaned: set[str] = field(default_factory=set)  # keys of which something was removed
    merges: list[JsonObject] = field(default_factory=list)


class YamlReader:
    """Reads one document; `removed`, `renamed` and `kept_as_text` count what could not be kept as it was."""

    def __init__(self, limits: YamlLimits) -> None:
        self._limits = limits
        self._values = 0
        self._characters = 0
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[JsonValue, _Weight] | None] = {}
        self._root: JsonValue = None
        self.removed = 0
        self.renamed = 0
        self.kept_as_text = 0

    def read(self, text: str) -> JsonValue:
        """The value of the only document in the text; raises `DocumentRefused` with line and column."""
        documents = 0
        try:
            for event in yaml.parse(text, Loader=yaml.CSafeLoader):
                if isinstance(event, ScalarEvent):
                    self._scalar(event)
                elif isinstance(event, CollectionStartEvent):
                    self._open(event, {} if isinstance(event, MappingStartEvent) else [])
                elif isinstance(event, CollectionEndEvent):
                    self._close(event)
                elif isinstance(event, AliasEvent):
                    self._alias(event)
                elif isinstance(event, DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        raise self._refusal(
                            event, "a second YAML document begins; one file holds one document"
                        )
        except yaml.YAMLError as error:
            raise self._unreadable(text, error) from None
        if documents == 0 or self._root is None:
            raise DocumentRefused(f"{self._limits.subject} is empty.")
        return self._root

    def _scalar(self, event: ScalarEvent) -> None:
        text, removed = without_controls(event.value)
        self.removed += removed
        self._grow(event, 1, len(text))
        value: JsonValue = text
        if event.implicit[0] and not self._text_is_due():
            value = self._resolved(text)
        if event.anchor:
            self._anchors[event.anchor] = (value, _Weight(1, len(text), 0))
        if self.removed and self._key_is_due() and (removed or text in self._stack[-1].cleaned):
            value = self._own_key(text)
        self._add(event, value, text if event.implicit[0] else None)

    def _key_is_due(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None

    def _own_key(self, text: str) -> str:
        """A key that is another one's without its control characters, as none of the mapping's keys before it is written."""
        parent, key = self._stack[-1], text
        while key in parent.value:
            key += MARK
        self.renamed += key != text
        parent.cleaned.add(key)
        return key

    def _text_is_due(self) -> bool:
        """True where a key or a version is read, which stay as written whatever they look like."""
        if not self._stack or not isinstance(self._stack[-1].value, dict):
            return False
        key = self._stack[-1].key
        return key is None or (len(self._stack) <= _VERSIONS_DEPTH and key in _VERSIONS)

    def _resolved(self, text: str) -> JsonValue:
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text[0] not in "+-.0123456789":
            return text
        if _INTEGER.match(text):
            return int(text) if len(text) <= self._limits.digits else self._as_text(text)
        if _FLOAT.match(text):
            number = WrittenFloat(text)
            return number if math.isfinite(number) else self._as_text(text)
        return self._as_text(text) if _NOT_A_NUMBER.match(text) else text

    def _as_text(self, text: str) -> str:
        self.kept_as_text += 1
        return text

    def _open(self, event: CollectionStartEvent, value: list[JsonValue] | JsonObject) -> None:
        if len(self._stack) >= self._limits.depth:
            raise self._refusal(event, f"it is nested deeper than {self._limits.depth} levels")
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            raise self._refusal(event, "a list or a mapping is used as a key; keys are text")
        if event.anchor:
            self._anchors[event.anchor] = None
        self._stack.append(_Open(value, event.anchor, (self._values, self._characters)))
        self._grow(event, 1, 0)

    def _close(self, event: Event) -> None:
        done = self._stack.pop()
        if isinstance(done.value, dict):
            for merged in done.merges:
                for key, value in merged.items():
                    done.value.setdefault(key, value)
        if done.anchor:
            before_values, before_characters = done.before
            weight = _Weight(
                self._values - before_values, self._characters - before_characters, done.height + 1
            )
            self._anchors[done.anchor] = (done.value, weight)
        if self._stack:
            self._stack[-1].height = max(self._stack[-1].height, done.height + 1)
        self._add(event, done.value, None)

    def _alias(self, event: AliasEvent) -> None:
        anchor = event.anchor or ""
        if anchor not in self._anchors:
            raise self._refusal(event, f"the alias '*{truncate(anchor, 50)}' has no anchor before it")
        found = self._anchors[anchor]
        if found is None:
            raise self._refusal(event, f"the alias '*{truncate(anchor, 50)}' stands inside its own anchor")
        value, weight = found
        self._grow(event, weight.values, weight.characters)
        if len(self._stack) + weight.height > self._limits.depth:
            raise self._refusal(
                event, f"with its aliases it is nested deeper than {self._limits.depth} levels"
            )
        if self._stack:
            self._stack[-1].height = max(self._stack[-1].height, weight.height)
        self._add(event, value, None)

    def _add(self, event: Event, value: JsonValue, plain: str | None) -> None:
        """Put a finished value where it belongs; `plain` is its text if it was written without quotes."""
        if not self._stack:
            self._root = value
            return
        parent = self._stack[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:
            if not isinstance(value, str):
                raise self._refusal(event, "a list or a mapping is used as a key; keys are text")
            if value in parent.value:
                raise self._refusal(event, f"the key '{truncate(value, 100)}' stands twice in one mapping")
            parent.key = value
            if plain != "<<":
                # The place is taken now, so that keys keep their order and a second one is seen at once.
                parent.value[value] = None
        elif parent.key == "<<" and "<<" not in parent.value:
            parent.merges.extend(self._merged(event, value))
            parent.key = None
        else:
            parent.value[parent.key] = value
            parent.key = None

    def _merged(self, event: Event, value: JsonValue) -> list[JsonObject]:
        mappings = value if isinstance(value, list) else [value]
        found = [mapping for mapping in mappings if isinstance(mapping, dict)]
        if len(found) < len(mappings):
            raise self._refusal(event, "the merge key '<<' takes a mapping or a list of mappings")
        return found

    def _grow(self, event: Event, values: int, characters: int) -> None:
        self._values += values
        self._characters += characters
        if self._values > self._limits.values:
            raise self._refusal(event, f"with its aliases it holds more than {self._limits.values:,} values")
        if self._characters > self._limits.characters:
            raise self._refusal(
                event, f"with its aliases it holds more than {self._limits.characters:,} characters"
            )

    def _refusal(self, event: Event, problem: str) -> DocumentRefused:
        mark = event.start_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "an unknown line"
        return DocumentRefused(f"{self._limits.subject} cannot be imported: {place}: {problem}.")

    def _unreadable(self, text: str, error: yaml.YAMLError) -> DocumentRefused:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it is not YAML"
        if mark is None:
            return DocumentRefused(f"{self._limits.subject} cannot be read as YAML: {problem}.")
        place = f"line {mark.line + 1}, column {mark.column + 1}"
        if mark.index < len(text) and text[mark.index] == "\t":
            problem = "a tab is used to indent, which YAML does not allow"
        elif "nesting depth" in problem:
            # libyaml reads ahead here, so its own limit may be met before ours.
            problem = f"it is nested deeper than {self._limits.depth} levels"
        elif mark.index >= len(text.rstrip()):
            problem = f"the text ends before the YAML is complete ({problem})"
        return DocumentRefused(f"{self._limits.subject} cannot be read as YAML: {place}: {problem}.")
