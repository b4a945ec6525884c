"""From the bytes of a document to plain JSON values: text, numbers, booleans, None, lists and dicts.

JSON and YAML give the same values by the same rules: keys are text and unique, characters follow
the rule of `texts`, and a document beyond a limit is refused before it can grow. The YAML half is in
`yaml_document`. What the values mean is not known here, so every importer of documents can start from this
module.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from tools.imports.formats.specs import DocumentRefused, JsonObject, JsonValue, Limits
from tools.imports.formats.texts import MARK, WrittenFloat, truncate, without_controls
from tools.imports.formats.yaml_document import YamlLimits, YamlReader

MAX_DEPTH = 64
MAX_VALUES = 2_000_000
# Beyond 300 digits a number no longer fits a double, and beyond 4,300 Python refuses to read it at all.
MAX_DIGITS = 300
# The types of values that hold texts; a million numbers are passed over in one step.
_WITH_TEXT = frozenset((str, dict, list))
_LONG_NUMBER = re.compile(rf"[0-9]{{{MAX_DIGITS}}}")

_STRING = r'"(?:[^"\\]|\\.)*+'
_STRINGS = re.compile(_STRING + r'(?:"|\Z)', re.DOTALL)
_TOKENS = re.compile(r"(?P<key>" + _STRING + r'")\s*+(?P<colon>:?)|[{}\[\]]', re.DOTALL)


class Pruned(JsonObject):
    """Stands, empty, for what was nested too deep."""


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """The values of a document, the changes that they needed, as sentences for the operator, the limits for its reader, and the
    name of its file, by which it may refer to itself. `is_pruned`: what was nested too deep is `Pruned`."""

    value: JsonValue
    warnings: tuple[str, ...]
    limits: Limits
    name: str = ""
    is_pruned: bool = False


def load_document(
    raw: bytes, *, limits: Limits, subject: str = "The document", prunes: bool = False
) -> LoadedDocument:
    """Read JSON or YAML; `subject` begins the sentence of a `DocumentRefused`. `prunes`: JSON that is nested too deep is not
    refused as a whole, since it may be one of many things in a list."""
    if len(raw) > limits.document_bytes:
        raise DocumentRefused(f"{subject} has {len(raw):,} bytes; the limit is {limits.document_bytes:,}.")
    of_yaml = YamlLimits(subject, MAX_DEPTH, MAX_VALUES, 2 * limits.document_bytes, MAX_DIGITS)
    text, removed = without_controls(_decoded(raw, subject))
    start = text.lstrip()
    if not start:
        raise DocumentRefused(f"{subject} is empty.")
    if start.startswith("<"):
        raise DocumentRefused(f"{subject} is an HTML or XML page, not JSON or YAML.")
    reader: _JsonReader | YamlReader
    warnings = []
    if start.startswith(("{", "[")):
        reader = _JsonReader(subject)
        try:
            value = reader.read(text)
        except json.JSONDecodeError as error:
            value, reader = _read_as_yaml(text, error, of_yaml)
            warnings.append(
                f"The document is not strict JSON ({_place(error)}: {error.msg}); it was read as YAML."
            )
    else:
        reader = YamlReader(of_yaml)
        value = reader.read(text)
    removed += reader.removed
    if removed:
        warnings.append(f"Control characters and lone surrogates removed from the texts: {removed:,}.")
    if reader.kept_as_text:
        warnings.append(f"Numbers kept as text (NaN, infinite, too long for JSON): {reader.kept_as_text:,}.")
    if reader.renamed:
        warnings.append(
            f"Keys that differed in control characters only, and now end in '{MARK}': {reader.renamed:,}."
        )
    is_pruned = isinstance(reader, _JsonReader) and reader.pruned
    if is_pruned and not prunes:
        raise DocumentRefused(too_deep(subject))
    return LoadedDocument(value, tuple(warnings), limits, is_pruned=is_pruned)


def too_deep(subject: str) -> str:
    return f"{subject} is nested deeper than {MAX_DEPTH} levels."


def _decoded(raw: bytes, subject: str) -> str:
    # Without a mark at its start as well: then every other byte of what begins in ASCII is zero.
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0\0" in (raw[:4:2], raw[1:4:2]):
        raise DocumentRefused(f"{subject} is UTF-16 or UTF-32 text; save it as UTF-8.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        raise DocumentRefused(
            f"{subject} is not UTF-8 text: byte 0x{raw[error.start]:02X} at line {line}, column {column}."
            " Save it as UTF-8."
        ) from None


def _read_as_yaml(text: str, error: json.JSONDecodeError, limits: YamlLimits) -> tuple[JsonValue, YamlReader]:
    """Text that begins like JSON may be a YAML flow mapping, which allows a trailing comma and comments."""
    reader = YamlReader(limits)
    subject = limits.subject
    try:
        return reader.read(text), reader
    except DocumentRefused:
        if not re.match(r'\s*[{\[]\s*["\[{]', text):
            raise
    if error.pos >= len(text.rstrip()):
        raise DocumentRefused(
            f"{subject} is cut off: the JSON ends at {_place(error)} before it is complete."
        ) from None
    raise DocumentRefused(f"{subject} cannot be read as JSON: {_place(error)}: {error.msg}.") from None


def _place(error: json.JSONDecodeError) -> str:
    return f"line {error.lineno}, column {error.colno}"


class _JsonReader:
    """The standard library's decoder, with the limits and refusals that it lacks."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self.removed = 0
        self.renamed = 0
        self.kept_as_text = 0
        self.pruned = False

    def read(self, text: str) -> Any:
        """Raises `json.JSONDecodeError` for what is not JSON, `DocumentRefused` for JSON beyond a limit."""
        self._check_size(text)
        try:
            value = json.loads(
                text,
                object_pairs_hook=self._object,
                # The decoder is much quicker with `int` itself than with a hook, which most documents do not need.
                parse_int=self._integer if _LONG_NUMBER.search(text) else int,
                parse_float=self._float,
                parse_constant=self._constant,
            )
            whole = [value]
            self._clean(whole, 0)
            return whole[0]
        except _KeyTwice as twice:
            raise DocumentRefused(self._where_twice(text, str(twice))) from None
        except RecursionError:
            raise DocumentRefused(too_deep(self._subject)) from None

    def _check_size(self, text: str) -> None:
        # Every value but the first follows a comma or an opening bracket. Only when those inside texts could
        # make the difference are the texts taken out first, so that 20 MB of "[[],[],…" never become objects.
        if _openings(text) > MAX_VALUES and _openings(_STRINGS.sub("", text)) > MAX_VALUES:
            raise DocumentRefused(f"{self._subject} holds more than {MAX_VALUES:,} values.")

    def _clean(self, value: Any, depth: int) -> None:
        """Applies the rule for characters in place, as a copy would need the memory twice."""
        items = value.values() if isinstance(value, dict) else value
        if not _WITH_TEXT.isdisjoint(map(type, items)):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(item, str):
                    value[key] = self._text(item)
                elif isinstance(item, dict | list):
                    if depth < MAX_DEPTH:
                        self._clean(item, depth + 1)
                    else:
                        self.pruned = True
                        value[key] = Pruned()
        if isinstance(value, dict) and not all(map(str.isprintable, value)):
            cleaned = self._with_clean_keys(value)
            value.clear()
            value |= cleaned

    def _with_clean_keys(self, value: JsonObject) -> JsonObject:
        named = [(self._text(key), key) for key in value]
        kept = {key for name, key in named if name == key}
        cleaned: JsonObject = {}
        for name, key in named:
            new = name
            while new != key and (new in kept or new in cleaned):
                new += MARK
            self.renamed += new != name
            cleaned[new] = value[key]
        return cleaned

    def _text(self, text: str) -> str:
        text, removed = without_controls(text)
        self.removed += removed
        return text

    @staticmethod
    def _object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
        value = dict(pairs)
        if len(value) < len(pairs):
            for key, _ in pairs:
                if key not in value:
                    raise _KeyTwice(key)
                del value[key]
        return value

    def _integer(self, written: str) -> int | str:
        return self._constant(written) if len(written) > MAX_DIGITS else int(written)

    def _float(self, written: str) -> float | str:
        number = WrittenFloat(written)
        return number if math.isfinite(number) else self._constant(written)

    def _constant(self, written: str) -> str:
        self.kept_as_text += 1
        return written

    def _where_twice(self, text: str, key: str) -> str:
        """The decoder's hooks know no positions, so the line is looked for in the text, in this case only."""
        open_objects: list[set[str] | None] = []
        for token in _TOKENS.finditer(text):
            mark = token.group()
            if mark == "{":
                open_objects.append(set())
            elif mark == "[":
                open_objects.append(None)
            elif mark in ("}", "]"):
                open_objects.pop()
            elif token["colon"] and (keys := open_objects[-1]) is not None:
                found = json.loads(token["key"])
                if found in keys:
                    line = text.count("\n", 0, token.start()) + 1
                    return self._twice(found, f", again at line {line}")
                keys.add(found)
        return self._twice(key, "")

    def _twice(self, key: str, where: str) -> str:
        return f"{self._subject} has the key '{truncate(without_controls(key)[0], 100)}' twice in one object{where}."


class _KeyTwice(Exception):
    """Its text is the key."""


def _openings(text: str) -> int:
    return text.count(",") + text.count("{") + text.count("[")
