"""Reads documents of every kind: loads one, recognises its kind by its content, and calls the reader of that kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tools.imports.formats.archive import is_archive, load_archive
from tools.imports.formats.json_document import LoadedDocument, load_document, too_deep
from tools.imports.formats.lightapi.document import read_lightapi
from tools.imports.formats.mcp_tools import read_mcp_tools
from tools.imports.formats.openapi.document import VERSION_FIELDS, read_openapi
from tools.imports.formats.specs import DocumentRefused, JsonObject, JsonValue, Limits, ParsedDocument
from tools.imports.formats.texts import one_line, without_controls

Check = Callable[[JsonObject], tuple[str, ...]]


class Format(NamedTuple):
    """A kind of document: its reader, its name in sentences, and the fields that only it has at its top."""

    read: Callable[[LoadedDocument, str], ParsedDocument]
    label: str
    marks: tuple[str, ...]


FORMATS = {
    "openapi": Format(read_openapi, "OpenAPI", VERSION_FIELDS),
    "lightapi": Format(read_lightapi, "LightAPI", ("lightapi",)),
    "mcp": Format(read_mcp_tools, "a list of MCP tools", ("tools", "pages", "jsonrpc", "result", "error")),
}


def parse_document(
    raw: bytes, *, limits: Limits, name: str = "", kind: str = "", check: Check | None = None
) -> ParsedDocument:
    """Read a document of `kind` (openapi, mcp, lightapi), or of the kind that it shows itself to be.

    `name` (of its file) begins the sentence when it is refused: `DocumentRefused`, also where it could be of two kinds.
    What `check` says of an OpenAPI document that can be read is added to the warnings.
    """
    subject = one_line(without_controls(name)[0], limit=100) or "The document"
    loaded = (
        load_archive(raw, limits=limits, subject=subject)
        if is_archive(raw)
        else load_document(_of_event_stream(raw), limits=limits, subject=subject, prunes=True)
    )
    loaded = replace(loaded, name=name.partition("?")[0])  # of a URL
    kind = kind or _kind(loaded.value, subject)
    if loaded.is_pruned and kind != "mcp":
        raise DocumentRefused(too_deep(subject))
    document = FORMATS[kind].read(loaded, subject)
    if check is None or kind != "openapi" or not isinstance(loaded.value, dict):
        return document
    return replace(document, warnings=(*document.warnings, *check(loaded.value)))


def _kind(value: JsonValue, subject: str) -> str:
    if isinstance(value, list) and any(isinstance(entry, dict) and "name" in entry for entry in value):
        return "mcp"
    if not isinstance(value, dict):
        kind = "a list without tools" if isinstance(value, list) else "a single value"
        raise DocumentRefused(
            f"{subject} is not an OpenAPI document, a list of MCP tools or a LightAPI description: its top level is {kind}."
        )
    found = {kind: mark for kind, one in FORMATS.items() for mark in one.marks if mark in value}
    if "openapi" in found or "lightapi" in found:
        # Both may have a field of their own by one of these common names.
        found.pop("mcp", None)
    if len(found) > 1:
        shown = " or ".join(f"{FORMATS[kind].label} (it has '{mark}')" for kind, mark in found.items())
        raise DocumentRefused(f"{subject} could be {shown}. Say which it is.")
    if not found:
        raise DocumentRefused(
            f"{subject} is not an OpenAPI document, a list of MCP tools or a LightAPI description: it has neither "
            "'openapi' nor 'swagger', nor 'tools', nor 'lightapi'."
        )
    return next(iter(found))


def _of_event_stream(raw: bytes) -> bytes:
    """The last message of an event stream, which is the answer; anything else as it is."""
    if not raw.lstrip().startswith((b"event:", b"data:")):
        return raw
    messages = [b""]
    for line in raw.splitlines():
        if not line.strip():
            messages.append(b"")
        elif line.startswith(b"data:"):
            messages[-1] += line.removeprefix(b"data:").removeprefix(b" ") + b"\n"
    return next((message for message in reversed(messages) if message.strip()), b"")
