"""LightAPI descriptions 0.1.0 as endpoint specs. Pure: bytes in, a `ParsedDocument` out.

The format is strict, and so is this reader: what breaks its schema is refused (`format.py`). What the format allows
and the catalogue cannot hold (resources and prompts of MCP) is left out with the reason. Nothing outside the document is
opened, and no secret that is written out in it is kept with an endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tools.imports.formats.json_document import LoadedDocument
from tools.imports.formats.json_schema import Schemas
from tools.imports.formats.lightapi.format import VERSION, validate
from tools.imports.formats.names import NamedOperation, operation_names
from tools.imports.formats.openapi.document import MAX_KEY_BYTES
from tools.imports.formats.openapi.operations import (
    MAX_INPUT_BYTES,
    MAX_OUTPUT_BYTES,
    MAX_TITLE,
    cut_warning,
    join_summary,
)
from tools.imports.formats.references import Losses, RefResolver, Warnings
from tools.imports.formats.schema_budget import SchemaBudget
from tools.imports.formats.specs import (
    DocumentRefused,
    EndpointSpec,
    JsonObject,
    JsonValue,
    LeftOut,
    ParsedDocument,
    as_object,
)
from tools.imports.formats.texts import as_text, one_line, truncate

# What a router needs to know to call the operation.
_CALL = (
    "protocol",
    "method",
    "endpoint",
    "source",
    "server",
    "service",
    "operationId",
    "transport",
    "request",
    "kind",
    "name",
)
# What holds a secret by its name.
_SECRET = re.compile(
    r"(proxy-)?authorization|cookie|.*(password|secret|(api|private)[-_]?key|(access|auth)[-_]?token)",
    re.IGNORECASE,
)
_LIFECYCLE = {"draft": "active", "active": "active", "deprecated": "deprecated", "retired": "retired"}


class _Operation(NamedTuple):
    """An operation of the document, and its name in the map."""

    name: str
    written: JsonObject

    @property
    def key(self) -> str:
        """Its `endpointId`; without one `<operationId>@<method>`, or `<what is called>@call` where there is no HTTP method."""
        if given := self.written.get("endpointId"):
            return str(given)
        if self.protocol == "http":
            return f"{self.written.get('operationId', self.name)}@{self.method}"
        return f"{self.path}@call"

    @property
    def tool_name(self) -> str:
        """What the tool's name is made from: an MCP tool's own name, else what the document calls the operation."""
        return self.path if self.protocol == "mcp" else str(self.written.get("operationId", self.name))

    @property
    def protocol(self) -> str:
        return str(self.written["protocol"])

    @property
    def method(self) -> str:
        """The HTTP method, or `call` for an operation of another protocol."""
        return str(self.written.get("method", "call")).lower() if self.protocol == "http" else "call"

    @property
    def path(self) -> str:
        """What is called: the address, the method's name, or the tool."""
        written = self.written
        if self.protocol == "grpc":
            return f"{written['service']}/{written['method']}"
        if self.protocol == "mcp":
            return str(written["name"])
        if self.protocol == "http":
            return str(written.get("endpoint", written.get("operationId", "")))
        return str(written["method"])


def read_lightapi(loaded: LoadedDocument, subject: str) -> ParsedDocument:
    """The endpoints of a loaded document; `subject` begins the sentence when it is refused: `DocumentRefused`."""
    tree = validate(loaded.value, subject)
    written = tree["operations"]
    if len(written) > loaded.limits.operations:
        raise DocumentRefused(f"{subject} has more than {loaded.limits.operations:,} operations.")
    left_out = [LeftOut(truncate(name, 200), why) for name, one in written.items() if (why := _no_tool(one))]
    found = [_Operation(name, one) for name, one in written.items() if not _no_tool(one)]
    _refuse_same_keys(found, subject)
    warnings = Warnings(loaded.warnings)
    for sentence in _outside(tree):
        warnings.add(sentence)
    reader = _Reader(tree, warnings, loaded.limits.description)
    names = operation_names([NamedOperation(op.key, op.method, op.path, op.tool_name) for op in found])
    endpoints = tuple(reader.endpoint(operation, name) for operation, name in zip(found, names, strict=True))
    info = tree["info"]
    return ParsedDocument(
        kind="lightapi",
        format_version=VERSION,
        title=one_line(info["title"], limit=MAX_TITLE),
        version=truncate(info["version"], 100),
        description=reader.description(info, "info"),
        servers=tuple(
            truncate(server["endpoint"], 2_000)
            for source in tree.get("sources", {}).values()
            for server in source.get("servers", {}).values()
        ),
        operations=len(written),
        endpoints=endpoints,
        left_out=tuple(left_out),
        warnings=(*warnings.all(), *reader.losses.sentences()),
        # Any other profile is a part of the API: what it does not name is not gone.
        complete=_profile(tree) == "catalog",
    )


def _profile(tree: JsonObject) -> str:
    return str(tree.get("profile", "catalog"))


def _outside(tree: JsonObject) -> Iterator[str]:
    """What the document refers to and does not hold, a sentence each. Nothing of it is opened."""
    if catalog := as_object(tree.get("context")).get("catalog"):
        yield (
            f"The document inherits from the catalog '{truncate(as_text(catalog), 200)}', which is not opened: what it alone says "
            "(authentication, environments, sources) is missing here."
        )
    sources = tree.get("sources", {})
    for name in dict.fromkeys(one["source"] for one in tree["operations"].values() if "source" in one):
        if isinstance(sources.get(name, {}).get("document"), str):
            yield f"sources.{name}: its document is not opened; its operations have what this description says of them."
        elif name not in sources and "context" not in tree:
            yield f"sources.{name} is referred to by an operation, and the document does not have it."


def _no_tool(written: JsonObject) -> str:
    """Why an operation gives no endpoint; empty if it does."""
    if written["protocol"] == "mcp" and written["kind"] != "tool":
        return f"an MCP {written['kind']} is no tool"
    return ""


def _refuse_same_keys(found: list[_Operation], subject: str) -> None:
    first: dict[str, str] = {}
    for operation in found:
        if len(operation.key.encode()) > MAX_KEY_BYTES:
            raise DocumentRefused(
                f"{subject} cannot be imported: the key of operations.{truncate(operation.name, 100)} is longer than "
                f"{MAX_KEY_BYTES:,} bytes."
            )
        other = first.setdefault(operation.key, operation.name)
        if other != operation.name:
            field = "endpointId" if "endpointId" in operation.written else "key"
            raise DocumentRefused(
                f"{subject} cannot be imported: operations.{truncate(other, 100)} and operations.{truncate(operation.name, 100)} "
                f"have the same {field} '{truncate(operation.key, 200)}'."
            )


class _Reader:
    """Reads one document's operations."""

    def __init__(self, tree: JsonObject, warnings: Warnings, max_description: int) -> None:
        self._tree, self._warnings, self._max_description = tree, warnings, max_description
        self.losses = Losses()

    def description(self, written: JsonObject, where: str) -> str:
        """Summary and description of a part of the document."""
        limit = self._max_description
        text, is_cut = join_summary(written.get("summary"), written.get("description"), limit=limit)
        if is_cut:
            self._warnings.add(cut_warning(where, written.get("description"), limit))
        return text

    def endpoint(self, operation: _Operation, name: str) -> EndpointSpec:
        written = operation.written
        description = self.description(written, f"operations.{operation.name}")
        if not description:
            self._warnings.add(f"operations.{operation.name} has neither a summary nor a description.")
        return EndpointSpec(
            key=operation.key,
            method=operation.method,
            path=truncate(operation.path, MAX_KEY_BYTES),
            name=name,
            title=one_line(written.get("summary"), limit=MAX_TITLE),
            description=description,
            tags=tuple(dict.fromkeys(one_line(tag, limit=200) for tag in written.get("tags", []))),
            input_schema=self._input(operation),
            output_schema=self._schema(
                written.get("result", {}).get("schema"),
                f"operations.{operation.name}.result.schema",
                MAX_OUTPUT_BYTES,
            ),
            metadata=self._metadata(operation),
            deprecated=written.get("lifecycle") == "deprecated",
        )

    def _input(self, operation: _Operation) -> JsonObject:
        given = operation.written.get("input", {})
        where = f"operations.{operation.name}.input.schema"
        schema = self._schema(given.get("schema"), where, MAX_INPUT_BYTES) or {}
        if schema.get("type", "object") != "object":
            # A tool's input has names; a bare value gets one.
            schema = {"properties": {"input": schema}, "required": ["input"]}
        required = [*schema.get("required", []), *given.get("required", [])]
        schema = {**schema, "type": "object", "properties": schema.get("properties", {})}
        return {**schema, "required": list(dict.fromkeys(required))} if required else schema

    def _schema(self, node: JsonValue, where: str, limit: int) -> JsonObject | None:
        if isinstance(node, str):
            self._warnings.add(f"{where} stands outside the document and is not opened.")
        if not isinstance(node, dict):
            return None
        # References lead into the document, or to the schema's own definitions as JSON Schema has it.
        own = {key: node[key] for key in ("$defs", "definitions") if isinstance(node.get(key), dict)}
        resolver = RefResolver({**self._tree, **own}, siblings_count=True, warnings=self._warnings)
        resolver.losses = self.losses
        schemas = Schemas(resolver)
        fitted = SchemaBudget(schemas, limit).fit_schema(schemas.piece(node, where))
        if fitted.shortened:
            self._warnings.add(f"{where} is too large to be shown whole, so that deeper parts are shortened.")
        return fitted.schema or None

    def _without_secrets(self, value: JsonValue, where: str) -> JsonValue:
        """The value without secrets that are written out instead of referenced as `${secrets…}`, and without TLS keys."""
        if isinstance(value, list):
            return [self._without_secrets(one, f"{where}.{number}") for number, one in enumerate(value)]
        if not isinstance(value, dict):
            return value
        kept = {}
        for key, inner in value.items():
            if key == "tls" or (_SECRET.fullmatch(key) and "${" not in as_text(inner)):
                self._warnings.add(f"{where}.{truncate(key, 100)} may hold a secret; it is not kept.")
            else:
                kept[key] = self._without_secrets(inner, f"{where}.{truncate(key, 100)}")
        return kept

    def _metadata(self, operation: _Operation) -> JsonObject:
        """How it is called, as the document says it, for routing; and what the tool is besides its texts."""
        written = operation.written
        call = {
            key: self._without_secrets(written[key], f"operations.{operation.name}.{key}")
            for key in _CALL
            if key in written
        }
        if isinstance(authentication := written.get("authentication"), str | dict):
            # Its name or kind; an inline one may hold a password.
            call["authentication"] = (
                authentication if isinstance(authentication, str) else authentication["type"]
            )
        capability = written.get("capability", {})
        tool: JsonObject = {
            "tool_type": "mcp" if operation.protocol == "mcp" else "api",
            "semantic_namespace": truncate(self._tree["info"]["namespace"], 100),
        }
        # Fields that the document leaves out stay out, so that a lower layer's value counts; the defaults are the catalogue's.
        if "visibility" in written:
            tool["sensitivity"] = written["visibility"]
        if "lifecycle" in written:
            tool["lifecycle"] = _LIFECYCLE[written["lifecycle"]]
        if written.get("lifecycle") == "draft":
            # A draft is found by its id only, and is not offered in searches.
            tool["visibility"] = "unlisted"
        if "group" in capability:
            tool["category"] = truncate(one_line(capability["group"], limit=100), 100)
        metadata: JsonObject = {
            "call": call,
            "operation_id": truncate(operation.name, MAX_TITLE),
            "tool": tool,
        }
        if "endpointId" in written:
            metadata["endpoint_id"] = written["endpointId"]
        if (profile := _profile(self._tree)) != "catalog":
            metadata["profile"] = profile
        if words := [
            one_line(capability[key], limit=200)
            for key in ("group", "action", "resource")
            if key in capability
        ]:
            metadata["routing"] = {"semanticKeywords": words}
        hints = {
            "destructiveHint": written.get("safety", {}).get("destructive"),
            "idempotentHint": written.get("idempotency", {}).get("safeToRetry"),
        }
        if annotations := {name: value for name, value in hints.items() if isinstance(value, bool)}:
            metadata["annotations"] = annotations
        return metadata
