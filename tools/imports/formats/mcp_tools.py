"""Lists of MCP tools as endpoint specs. Pure: bytes in, a `ParsedDocument` out.

A list is what `tools/list` answers, in any form in which people have it: the JSON-RPC answer, its `result`, the bare list
of tools, an event stream as curl prints it, or all pages together, as a live sync keeps them. Whichever it was, a tool's key
is `<name>@call`, so that a pasted list and a later live sync describe the same tools. A tool that is odd is taken with a
warning or left out with a reason; it never hides the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.imports.formats.json_document import MAX_DEPTH, LoadedDocument, Pruned
from tools.imports.formats.json_schema import LIST_KEYS, MAP_KEYS, SCHEMA_KEYS, Schemas
from tools.imports.formats.openapi.operations import (
    MAX_INPUT_BYTES,
    MAX_OUTPUT_BYTES,
    MAX_TITLE,
    cut_warning,
)
from tools.imports.formats.references import Losses, RefResolver, Warnings
from tools.imports.formats.schema_budget import SchemaBudget, loosened
from tools.imports.formats.schema_values import TYPES, json_size
from tools.imports.formats.specs import (
    DocumentRefused,
    EndpointSpec,
    JsonObject,
    JsonValue,
    LeftOut,
    ParsedDocument,
    as_list,
    as_object,
)
from tools.imports.formats.texts import as_text, has_visible, one_line, truncate

MAX_NAME = 200
_MAPS = MAP_KEYS | {"$defs", "definitions"}
_NUMBERS = frozenset(
    (
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    )
)
_KINDS: dict[str, type] = {
    **dict.fromkeys(("title", "description", "format", "pattern", "$ref", "$id", "$schema", "$comment"), str),
    **dict.fromkeys(("enum", "examples"), list),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), bool),
}
_MAX_META_BYTES = 4 * 1024


def read_mcp_tools(loaded: LoadedDocument, subject: str) -> ParsedDocument:
    """The endpoints of a loaded list; `subject` begins the sentence when it is refused: `DocumentRefused`."""
    pages, server = _pages(loaded.value, subject)
    reader = _Reader(loaded)
    entries = [entry for page in pages for entry in page["tools"]]
    if len(entries) > loaded.limits.operations:
        raise DocumentRefused(f"{subject} has more than {loaded.limits.operations:,} tools.")
    for number, entry in enumerate(entries, 1):
        reader.read(number, entry)
    cursor = pages[-1].get("nextCursor")
    if cursor:
        reader.warnings.add(
            "The list goes on (it ends with a nextCursor): tools that are not on it are kept as they are."
        )
    if not entries:
        reader.warnings.add("The server has no tools.")
    return ParsedDocument(
        kind="mcp",
        format_version="",
        title=one_line(server.get("title") or server.get("name"), limit=MAX_TITLE),
        version=truncate(as_text(server.get("version")), 100),
        description="",
        servers=(),
        operations=len(entries),
        endpoints=tuple(reader.endpoints.values()),
        left_out=tuple(reader.left_out),
        warnings=(*reader.warnings.all(), *reader.losses.sentences()),
        complete=not cursor,
    )


def _pages(value: JsonValue, subject: str) -> tuple[list[JsonObject], JsonObject]:
    """The pages of a list, each with `tools`, and the server's information about itself."""
    if isinstance(value, dict) and isinstance(error := value.get("error"), dict):
        message = one_line(error.get("message"), limit=300) or "no message"
        raise DocumentRefused(
            f"{subject} is no list of tools but an error of the server: {message} ({as_text(error.get('code'))})."
        )
    server: JsonObject = {}
    if isinstance(value, dict):
        server = as_object(value.get("serverInfo"))
        value = value.get("result", value)
    pages = value.get("pages", [value]) if isinstance(value, dict) else [{"tools": value}]
    are_pages = isinstance(pages, list) and all(
        isinstance(as_object(page).get("tools"), list) for page in pages
    )
    if not are_pages or not pages:
        raise DocumentRefused(
            f"{subject} is no list of MCP tools: it has no 'tools' with a list, as tools/list answers."
        )
    if not server:
        # Servers of 2026-07-28 send it with every answer.
        server = as_object(as_object(pages[0].get("_meta")).get("io.modelcontextprotocol/serverInfo"))
    return pages, server


class _Reader:
    """Reads one list's tools."""

    def __init__(self, loaded: LoadedDocument) -> None:
        self.endpoints: dict[str, EndpointSpec] = {}
        self.left_out: list[LeftOut] = []
        self.warnings = Warnings(loaded.warnings)
        self.losses = Losses()
        self._max_description, self._is_pruned = loaded.limits.description, loaded.is_pruned

    def read(self, number: int, entry: JsonValue) -> None:
        fields = as_object(entry)
        name = fields.get("name")
        if not isinstance(name, str) or not has_visible(name):
            reason = "it has no name that can be seen" if isinstance(entry, dict) else "it is not a mapping"
            self.left_out.append(LeftOut(f"tool {number}", reason))
        elif len(name) > MAX_NAME:
            reason = f"its name has {len(name):,} characters; at most {MAX_NAME} are kept"
            self.left_out.append(LeftOut(truncate(name, 100), reason))
        elif name in self.endpoints:
            # Only one of them can be called, and it is unknown which; the first one is the same at every sync.
            self.left_out.append(LeftOut(name, "an earlier tool of the list has the same name"))
        else:
            self.endpoints[name] = self._endpoint(name, fields)

    def _endpoint(self, name: str, entry: JsonObject) -> EndpointSpec:
        annotations = as_object(entry.get("annotations"))
        description = entry.get("description")
        if not isinstance(description, str | None):
            self.warnings.add(f"{truncate(name, 100)}: its description is not a text; it is left out.")
            description = None
        text = (description or "").strip()
        if len(text) > self._max_description:
            self.warnings.add(cut_warning(name, text, self._max_description))
        if self._is_pruned and _has_pruned(entry):
            self.warnings.add(
                f"{truncate(name, 100)}: it is nested deeper than {MAX_DEPTH} levels; what lies deeper is left out."
            )
        metadata: JsonObject = {"call": {"protocol": "mcp", "name": name}, "annotations": annotations}
        meta = as_object(entry.get("_meta"))
        if meta and json_size(meta) <= _MAX_META_BYTES:
            metadata["meta"] = meta
        return EndpointSpec(
            key=f"{name}@call",
            method="call",
            path=name,
            name=name,
            title=one_line(entry.get("title") or annotations.get("title"), limit=MAX_TITLE),
            description=truncate(text, self._max_description),
            tags=tuple(_tags(meta)),
            input_schema=self._input(name, entry),
            output_schema=self._schema(name, "outputSchema", entry.get("outputSchema"), MAX_OUTPUT_BYTES),
            metadata=metadata,
            deprecated=False,
        )

    def _input(self, name: str, entry: JsonObject) -> JsonObject:
        schema = self._schema(name, "inputSchema", entry.get("inputSchema"), MAX_INPUT_BYTES)
        if schema is None:
            self.warnings.add(
                f"{truncate(name, 100)}: it has no inputSchema, so it is taken to have no parameters."
            )
            schema = {}
        return {**schema, "type": "object", "properties": schema.get("properties", {})}

    def _schema(self, name: str, field: str, schema: JsonValue, limit: int) -> JsonObject | None:
        """The schema to the letter, as the model of another client would see it; too large a one is shortened."""
        if not isinstance(schema, dict):
            if schema is not None:
                self.warnings.add(f"{truncate(name, 100)}: its {field} is not a mapping; it is left out.")
            return None
        wrong: dict[str, None] = {}
        schema = _valid(schema, wrong)
        if wrong:
            named = ", ".join(list(wrong)[:5])
            self.warnings.add(
                f"{truncate(name, 100)}: values in its {field} that JSON Schema does not allow are left out ({named})."
            )
        if self._is_pruned and _has_pruned(schema):
            schema = loosened(schema)
        if json_size(schema) <= limit:
            return schema
        resolver = RefResolver(schema, siblings_count=True)
        resolver.losses = self.losses
        schemas = Schemas(resolver)
        self.warnings.add(
            f"{truncate(name, 100)}: its {field} is too large to be shown whole; deeper parts are shortened."
        )
        return SchemaBudget(schemas, limit).fit_schema(schemas.piece(schema, truncate(name, 100))).schema


def _tags(meta: JsonObject) -> Iterator[str]:
    """Tags as FastMCP servers send them."""
    own = as_object(meta.get("_fastmcp", meta.get("fastmcp")))
    for tag in as_list(own.get("tags"))[:50]:
        if word := one_line(tag, limit=200):
            yield word


def _has_pruned(value: JsonValue) -> bool:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Pruned):
            return True
        if isinstance(one, dict | list):
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return False


def _valid(schema: JsonObject, wrong: dict[str, None]) -> JsonObject:
    """The schema without keywords whose values JSON Schema does not allow, such as null."""
    valid: JsonObject = {}
    for key, value in schema.items():
        if key == "required" and isinstance(value, list):
            valid[key] = [name for name in value if isinstance(name, str)]
            if len(valid[key]) < len(value):
                wrong[key] = None
        elif not _may_hold(key, value):
            if not isinstance(value, Pruned):  # which is told already
                wrong[truncate(key, 50)] = None
        elif key in SCHEMA_KEYS and isinstance(value, dict):
            valid[key] = _valid(value, wrong)
        elif key in LIST_KEYS or (key == "items" and isinstance(value, list)):
            valid[key] = [_valid(one, wrong) if isinstance(one, dict) else one for one in value]
        elif key in _MAPS:
            valid[key] = {
                name: _valid(one, wrong) if isinstance(one, dict) else one for name, one in value.items()
            }
        else:
            valid[key] = value
    return valid


def _may_hold(key: str, value: JsonValue) -> bool:
    if key in SCHEMA_KEYS:
        return isinstance(value, dict | bool) or (key == "items" and _are_schemas(value))
    if key in LIST_KEYS:
        return isinstance(value, list) and bool(value) and _are_schemas(value)
    if key in _MAPS:
        return isinstance(value, dict) and _are_schemas(list(value.values()))
    if key == "type":
        types = value if isinstance(value, list) and value else [value]
        return all(isinstance(one, str) and one in TYPES for one in types)
    if key == "required":
        return isinstance(value, list)
    if key in _NUMBERS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, _KINDS.get(key, object))


def _are_schemas(value: JsonValue) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict | bool) for one in value)
