"""Reads a file of tools: JSON Lines (one object a line), or YAML (a list, or documents after `---`). Pure: bytes to specs.

An entry is hand-written, `{id, name, description, server, domain, parameters, tags}` and any other field of a
tool, or one that tools/imports/files/export.py wrote, which begins at its `tool_id` and holds everything about the tool. A file is of
the one form or the other.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from yaml.events import Event, ScalarEvent

from tools import fields
from tools.imports.formats.json_document import MAX_VALUES
from tools.imports.formats.specs import (
    DocumentRefused,
    EndpointSpec,
    JsonObject,
    JsonValue,
    LeftOut,
    ParsedDocument,
)
from tools.imports.formats.texts import clean_value
from tools.imports.formats.yaml_document import YamlLimits, YamlReader

MAX_LINES = 200_000
ID_LENGTH = 200
EXPORTED = "export"  # the kind of a document whose specs are whole entries of an export, as `metadata`

# As deep, and with numbers as long, as the catalogue may hold them.
_MAX_DEPTH, _MAX_DIGITS = 120, 4_000
_MAX_CHARACTERS = 20_000_000  # of one tool in YAML, its aliases written out
_SLICE = 1_000
_SLICE_BYTES = 8 * 1024 * 1024
_ITEM = re.compile(rb"^(?:-(?=[ \t\r\n])|---(?=[ \t\r\n]|\Z))", re.MULTILINE)

TOOL_METADATA = frozenset(name for form in ("text", "list", "flag") for name in fields.in_files(form))
"""What a source may say of a tool beyond what an endpoint has columns for: a LightAPI description says a part of it."""


class _Entry(NamedTuple):
    """The text of one entry and the line that it begins at."""

    line: int
    text: bytes


def parse_tools(raw: bytes, *, name: str = "") -> ParsedDocument:
    """Specs of all entries; one that is no tool is left out with its line and the reason.

    Raises DocumentRefused when the file is not UTF-8 or holds no tool at all. The key of a tool is its `id`; an entry of an
    export travels whole, as the metadata of a spec whose key is its place.
    """
    where = name or "The file"
    try:
        raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentRefused(f"{where} is not UTF-8 text (byte {error.start}).") from None
    is_json = _is_json(raw)
    read = [one for entry in _entries(raw) for one in _read(entry, is_json=is_json)]
    if not read:
        raise DocumentRefused(f"{where} is empty.")
    if len(read) > MAX_LINES:
        raise DocumentRefused(f"{where} has {len(read):,} tools; at most {MAX_LINES:,} are read at once.")
    is_export = any(isinstance(value, dict) and "tool_id" in value for _, value in read)
    specs: dict[str, EndpointSpec] = {}
    left_out: list[LeftOut] = []
    for place, value in read:
        try:
            if isinstance(value, ValueError):
                raise value
            spec = _exported(place, value) if is_export else _spec(clean_value(value))
            if spec.key in specs:
                raise ValueError(f"the id {spec.key!r} stands on an earlier line already")  # noqa: TRY301 - as all that is wrong
            specs[spec.key] = spec
        except ValueError as error:
            left_out.append(LeftOut(place, str(error)))
    if not specs:
        raise DocumentRefused(f"{where} holds no tool: {left_out[0].operation}: {left_out[0].reason}.")
    return ParsedDocument(
        kind=EXPORTED if is_export else "manual", format_version="", title=name, version="", description="", servers=(),
        operations=len(read), endpoints=tuple(specs.values()), left_out=tuple(left_out), warnings=(),
    )  # fmt: skip


def split_file(raw: bytes) -> Iterator[bytes]:
    """The file in parts of some entries each, so that a large one is never in memory as values. Each part begins with as
    many empty lines as stand before it, so that lines keep their numbers."""
    part: list[_Entry] = []
    size = 0
    for entry in _entries(raw):
        if part and (len(part) >= _SLICE or size + len(entry.text) > _SLICE_BYTES):
            yield _joined(part)
            part, size = [], 0
        part.append(entry)
        size += len(entry.text)
    yield _joined(part)


def _joined(part: list[_Entry]) -> bytes:
    text = bytearray()
    line = 1
    for entry in part:
        text += b"\n" * (entry.line - line) + entry.text
        line = entry.line + entry.text.count(b"\n")
    return bytes(text)


def _entries(raw: bytes) -> Iterator[_Entry]:
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if raw.lstrip().startswith(b"["):
        yield _Entry(1, raw)  # a list of tools in JSON
    elif _is_json(raw):
        for number, line in enumerate(raw.split(b"\n"), 1):
            if line.strip():
                yield _Entry(number, line + b"\n")
    else:
        number = 1
        for start, end in itertools.pairwise([0, *(item.start() for item in _ITEM.finditer(raw)), len(raw)]):
            text = raw[start:end]
            if _has_content(text):
                yield _Entry(number, text)
            number += text.count(b"\n")


def _is_json(raw: bytes) -> bool:
    """Content decides: in YAML of tools no line begins with a brace."""
    return raw.lstrip()[:1] in (b"{", b"[") or raw.startswith(b"{") or b"\n{" in raw


def _has_content(text: bytes) -> bool:
    lines = (line.strip() for line in text.split(b"\n"))
    return any(line and not line.startswith((b"#", b"%")) and line not in (b"---", b"...") for line in lines)


def _read(entry: _Entry, *, is_json: bool) -> Iterator[tuple[str, JsonValue | ValueError]]:
    """The place and the value of each tool in an entry, texts to the letter; instead of a value that cannot be read the
    ValueError that says why, in half a sentence."""
    place = f"line {entry.line}"
    text = entry.text.decode()
    try:
        value = _json(text) if is_json else _yaml(text)
    except ValueError as error:
        yield place, error
        return
    # A list of tools is as good as one after the other; a list of one is how YAML has each of them.
    tools = value if isinstance(value, list) and any(isinstance(one, dict) for one in value) else [value]
    for number, tool in enumerate(tools, 1):
        yield place if len(tools) == 1 else f"{place}, tool {number}", tool


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _yaml(text: str) -> JsonValue:
    reader = _VerbatimYamlReader(YamlLimits("It", _MAX_DEPTH, MAX_VALUES, _MAX_CHARACTERS, _MAX_DIGITS))
    try:
        return reader.read(text)
    except DocumentRefused as refused:
        raise ValueError(str(refused).removeprefix("It ").removesuffix(".")) from None


class _VerbatimYamlReader(YamlReader):
    """Keeps all characters, also those that other documents lose, so that an export is read back unchanged."""

    def _add(self, event: Event, value: JsonValue, plain: str | None) -> None:
        verbatim = event.value if isinstance(event, ScalarEvent) and isinstance(value, str) else value
        super()._add(event, verbatim, plain)


def _exported(place: str, value: JsonValue) -> EndpointSpec:
    if not isinstance(value, dict) or not isinstance(value.get("tool_id"), str):
        raise ValueError("has no tool_id, as the other tools of this file have")
    return EndpointSpec(place, "", "", "", "", "", (), {}, None, metadata=value, deprecated=False)


def _spec(line: object) -> EndpointSpec:
    if not isinstance(line, dict):
        raise ValueError("is not a JSON object")
    key = line.get("id") or line.get("name")
    if not isinstance(key, str) or not key.strip():
        raise ValueError("has neither an id nor a name")
    if len(key) > ID_LENGTH:
        raise ValueError(f"has an id of {len(key)} characters; at most {ID_LENGTH} are kept")
    tool: JsonObject = {field: text for field in fields.in_files("text") if (text := _text(line, field))}
    if domain := _text(line, "domain"):
        tool.setdefault("routing_domain", domain)
    tool |= {field: _texts(line[field], field) for field in fields.in_files("list") if line.get(field)}
    tool |= {field: True for field in fields.in_files("flag") if line.get(field) is True}
    parameters = line.get("parameters") or line.get("input_schema") or {}
    if not isinstance(parameters, dict):
        raise ValueError("has parameters that are not a JSON Schema object")
    output, annotations = line.get("output"), line.get("annotations")
    return EndpointSpec(
        key=key,
        method="",
        path="",
        name=(_text(line, "name") or key)[:200],
        title=_text(line, "title"),
        description=_text(line, "description"),
        tags=tuple(_texts(line.get("tags") or [], "tags")),
        input_schema=parameters,
        output_schema=output if isinstance(output, dict) else None,
        metadata={"tool": tool} | ({"annotations": annotations} if isinstance(annotations, dict) else {}),
        deprecated=line.get("deprecated") is True,
    )


def _text(line: JsonObject, field: str) -> str:
    value = line.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"has a {field} that is not a text")
    return value or ""


def _texts(value: JsonValue, field: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"has {field} that are not a list of texts")
    return [one for one in value if one.strip()]
