"""Reads a file of tools, one JSON object a line: `{id, name, description, server, domain, parameters, tags}` and any other
field of a tool. Pure: bytes to specs.
"""

from __future__ import annotations

import json
from typing import Any

from tools.imports.specs import DocumentRefused, EndpointSpec, LeftOut, ParsedDocument
from tools.imports.texts import clean_value

MAX_LINES = 200_000
ID_LENGTH = 200

_TEXTS = ("category", "subcategory", "routing_domain", "semantic_namespace", "sensitivity", "lifecycle", "owner", "server",
          "tool_type", "source_protocol", "visibility")  # fmt: skip
_LISTS = ("use_cases", "tech_stack", "target_personas")


def parse_tools(raw: bytes, *, name: str = "") -> ParsedDocument:
    """Specs of all lines; a line that is no tool is left out with its number and the reason.

    Raises DocumentRefused when the file is not UTF-8 or holds no JSON line at all. The key of a tool is its `id`.
    """
    where = name or "The file"
    try:
        lines = raw.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DocumentRefused(f"{where} is not UTF-8 text (byte {error.start}).") from None
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise DocumentRefused(f"{where} is empty.")
    if len(numbered) > MAX_LINES:
        raise DocumentRefused(f"{where} has {len(numbered):,} lines; at most {MAX_LINES:,} are read at once.")
    endpoints: dict[str, EndpointSpec] = {}
    left_out: list[LeftOut] = []
    for number, line in numbered:
        try:
            spec = _spec(clean_value(_read(line)))
        except ValueError as error:
            left_out.append(LeftOut(f"line {number}", str(error)))
            continue
        if spec.key in endpoints:
            left_out.append(
                LeftOut(f"line {number}", f"the id {spec.key!r} stands on an earlier line already")
            )
        else:
            endpoints[spec.key] = spec
    if not endpoints:
        raise DocumentRefused(f"{where} holds no tool: {left_out[0].operation}: {left_out[0].reason}.")
    return ParsedDocument(
        kind="manual", format_version="", title=name, version="", description="", servers=(), operations=len(numbered),
        endpoints=tuple(endpoints.values()), left_out=tuple(left_out), warnings=(),
    )  # fmt: skip


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _spec(line: Any) -> EndpointSpec:
    if not isinstance(line, dict):
        raise ValueError("is not a JSON object")
    key = line.get("id") or line.get("name")
    if not isinstance(key, str) or not key.strip():
        raise ValueError("has neither an id nor a name")
    if len(key) > ID_LENGTH:
        raise ValueError(f"has an id of {len(key)} characters; at most {ID_LENGTH} are kept")
    tool: dict[str, Any] = {}
    for field in _TEXTS:
        if text := _text(line, field):
            tool[field] = text
    if domain := _text(line, "domain"):
        tool.setdefault("routing_domain", domain)
    for field in _LISTS:
        if line.get(field):
            tool[field] = _texts(line[field], field)
    if line.get("core") is True:
        tool["core"] = True
    parameters = line.get("parameters") or line.get("input_schema") or {}
    if not isinstance(parameters, dict):
        raise ValueError("has parameters that are not a JSON Schema object")
    output = line.get("output")
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
        metadata={"tool": tool, "annotations": line["annotations"]}
        if isinstance(line.get("annotations"), dict)
        else {"tool": tool},
        deprecated=line.get("deprecated") is True,
    )


def _text(line: dict[str, Any], field: str) -> str:
    value = line.get(field)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"has a {field} that is not a text")
    return value or ""


def _texts(value: Any, field: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"has {field} that are not a list of texts")
    return [one for one in value if one.strip()]
