"""LightAPI descriptions 0.1.0 as endpoint specs. Pure: bytes in, a `ParsedDocument` out.

The format is strict, and so is this reader: a document that breaks its schema (lightapi-0.1.0.yaml, the format's own) is
refused with the place of each fault, for example `operations.ping.method`. Values are never repeated, since a wrong
document may hold a secret where only its name may stand. What the format allows and the catalogue cannot hold (resources
and prompts of MCP) is left out with the reason. Nothing outside the document is opened.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]

from tools.imports.bundle import Bundler
from tools.imports.document import LoadedDocument
from tools.imports.names import NamedOperation, operation_names
from tools.imports.openapi import MAX_KEY_BYTES, MAX_OPERATIONS
from tools.imports.operations import (
    MAX_INPUT_BYTES,
    MAX_OUTPUT_BYTES,
    MAX_TITLE,
    said_together,
)
from tools.imports.reading import Reading
from tools.imports.schema import Schemas
from tools.imports.specs import DocumentRefused, EndpointSpec, JsonObject, LeftOut, ParsedDocument
from tools.imports.texts import as_text, cut, one_line

VERSION = "0.1.0"
_SCHEMA = Path(__file__).with_name("lightapi-0.1.0.yaml")
_PROTOCOLS = {"http": "http", "jsonrpc": "jsonRpc", "openrpc": "openRpc", "grpc": "grpc", "mcp": "mcp"}
_MAX_FAULTS = 5
_NAME = re.compile(r"[A-Za-z0-9_.$-]{1,100}")
_TYPES = {
    "string": "a text", "object": "a mapping", "array": "a list", "integer": "a whole number", "number": "a number",
    "boolean": "true or false", "null": "null",
}  # fmt: skip
# How open an operation is says who may see its tool.
_SENSITIVITY = {"public": "public", "internal": "internal", "restricted": "restricted"}
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
_LIFECYCLE = {"draft": "active", "active": "active", "deprecated": "deprecated", "retired": "retired"}


class _Operation(NamedTuple):
    """An operation of the document, its name in the map, and the key of its endpoint."""

    name: str
    key: str
    written: JsonObject

    @property
    def protocol(self) -> str:
        return str(self.written["protocol"])

    @property
    def method(self) -> str:
        """The verb of HTTP, `call` for everything that is called by its name."""
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
    tree = _checked(loaded.value, subject)
    reading = Reading(tree, siblings_count=True)
    for warning in loaded.warnings:
        reading.warnings.add(warning)
    written = tree["operations"]
    if len(written) > MAX_OPERATIONS:
        raise DocumentRefused(f"{subject} has more than {MAX_OPERATIONS:,} operations.")
    left_out = [LeftOut(cut(name, 200), why) for name, one in written.items() if (why := _no_tool(one))]
    found = [_Operation(name, _key(name, one), one) for name, one in written.items() if not _no_tool(one)]
    _refuse_same_keys(found, subject)
    reader = _Reader(tree, reading)
    names = operation_names([NamedOperation(op.key, op.method, op.path, _tool_name(op)) for op in found])
    endpoints = tuple(reader.endpoint(operation, name) for operation, name in zip(found, names, strict=True))
    info = tree["info"]
    return ParsedDocument(
        kind="lightapi",
        format_version=VERSION,
        title=one_line(info["title"], limit=MAX_TITLE),
        version=cut(info["version"], 100),
        description=said_together(info.get("summary"), info.get("description")),
        servers=tuple(_servers(tree)),
        operations=len(written),
        endpoints=endpoints,
        left_out=tuple(left_out),
        warnings=reading.warnings.all(),
    )


def _checked(tree: Any, subject: str) -> JsonObject:
    """The document, if it is one of this version and keeps to the format's schema."""
    if not isinstance(tree, dict) or "lightapi" not in tree:
        raise DocumentRefused(f"{subject} is not a LightAPI description: it has no field 'lightapi'.")
    if tree["lightapi"] != VERSION:
        shown = cut(as_text(tree["lightapi"]), 50) or "no text"
        raise DocumentRefused(
            f"{subject} cannot be imported: its 'lightapi' is '{shown}', and the version read is {VERSION}."
        )
    faults = sorted(dict.fromkeys(_faults(_validator().iter_errors(tree))))
    if faults:
        more = f" … and {len(faults) - _MAX_FAULTS:,} more" if len(faults) > _MAX_FAULTS else ""
        raise DocumentRefused(
            f"{subject} is not a valid LightAPI description: {'; '.join(faults[:_MAX_FAULTS])}{more}."
        )
    return tree


@functools.cache
def _validator() -> Draft202012Validator:
    """The format's schema, but with an operation's kind chosen by its protocol: of a `oneOf` nobody can say what is wrong."""
    schema = yaml.load(_SCHEMA.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - ours
    schema["$defs"]["operation"] = {
        "type": "object",
        "required": ["protocol"],
        "properties": {"protocol": {"enum": list(_PROTOCOLS)}},
        "allOf": [
            {
                "if": {"properties": {"protocol": {"const": protocol}}, "required": ["protocol"]},
                "then": {"$ref": f"#/$defs/{kind}Operation"},
            }
            for protocol, kind in _PROTOCOLS.items()
        ],
    }
    return Draft202012Validator(schema)


def _faults(errors: Iterable[ValidationError]) -> Iterator[str]:
    """Sentences without values. A field that a failed part would have known is no fault of its own."""
    found = list(errors)
    certain = [error for error in found if error.validator != "unevaluatedProperties"]
    for error in found:
        if error in certain or not any(_within(error, other) for other in certain):
            yield from _sentences(error)


def _within(error: ValidationError, other: ValidationError) -> bool:
    path = list(error.absolute_path)
    return list(other.absolute_path)[: len(path)] == path


def _sentences(error: ValidationError) -> Iterator[str]:
    path, rule, wanted = _dotted(error.absolute_path), error.validator, error.validator_value
    instance: Any = error.instance
    if rule == "required":
        yield from (
            f"{_dotted([*error.absolute_path, one])} is missing" for one in wanted if one not in instance
        )
    elif rule == "anyOf" and isinstance(instance, dict) and instance.get("protocol") == "http":
        needed = ("source", "operationId") if "source" in instance else ("method", "endpoint")
        missing = next(one for one in needed if one not in instance)
        yield (
            f"{path}.{missing} is missing (an http operation has method and endpoint, or source and operationId)"
        )
    elif rule in {"unevaluatedProperties", "additionalProperties"}:
        yield f"{path or 'the document'} has a field that the format does not know ({_unknown(error)})"
    elif rule == "maxProperties" and path == "operations":
        yield "operations has more than one entry, and the profile 'endpoint' allows one"
    elif rule in {"minProperties", "minItems", "minLength"}:
        yield f"{path} is empty"
    elif rule in {"enum", "const"}:
        yield f"{path} is none of {', '.join(map(str, wanted if rule == 'enum' else [wanted]))}"
    elif rule == "type":
        kinds: list[str] = wanted if isinstance(wanted, list) else [wanted]
        yield f"{path} is not {' or '.join(_TYPES.get(kind, kind) for kind in kinds)}"
    elif rule == "pattern":
        yield f"{path} is not written as the format wants it ({wanted})"
    elif rule in {"oneOf", "anyOf"} and error.context:
        # Of the alternatives the one that came furthest is what was meant.
        deepest = max(len(inner.absolute_path) for inner in error.context)
        meant = [inner for inner in error.context if len(inner.absolute_path) == deepest]
        if deepest > len(error.absolute_path):
            yield from _faults(meant)
        else:
            yield f"{path} has a form that the format does not allow"
    else:
        yield f"{path} breaks the format's rule '{rule}'"


def _unknown(error: ValidationError) -> str:
    """Names of fields, which are no secrets; those that are not shaped like names are counted."""
    known = error.schema.get("properties", {})
    extra = [str(one) for one in error.instance if one not in known]
    shown = [one for one in extra if _NAME.fullmatch(one)][:3]
    return ", ".join(shown) if shown else f"{len(extra)} fields"


def _dotted(path: Iterable[Any]) -> str:
    return ".".join(cut(str(part), 100) for part in path)


def _no_tool(written: JsonObject) -> str:
    """Why an operation gives no endpoint; empty if it does."""
    if written["protocol"] == "mcp" and written["kind"] != "tool":
        return f"an MCP {written['kind']} is no tool"
    return ""


def _key(name: str, written: JsonObject) -> str:
    """Its `endpointId`; without one `<operationId>@<method>`, or `<what is called>@call` where there is no HTTP method."""
    operation = _Operation(name, "", written)
    if given := written.get("endpointId"):
        return str(given)
    if operation.protocol == "http":
        return f"{written.get('operationId', name)}@{operation.method}"
    return f"{operation.path}@call"


def _refuse_same_keys(found: list[_Operation], subject: str) -> None:
    first: dict[str, str] = {}
    for operation in found:
        if len(operation.key.encode()) > MAX_KEY_BYTES:
            raise DocumentRefused(
                f"{subject} cannot be imported: the key of operations.{cut(operation.name, 100)} is longer than "
                f"{MAX_KEY_BYTES:,} bytes."
            )
        other = first.setdefault(operation.key, operation.name)
        if other != operation.name:
            field = "endpointId" if "endpointId" in operation.written else "key"
            raise DocumentRefused(
                f"{subject} cannot be imported: operations.{cut(other, 100)} and operations.{cut(operation.name, 100)} "
                f"have the same {field} '{cut(operation.key, 200)}'."
            )


def _tool_name(operation: _Operation) -> str:
    """What the tool's name is made from: an MCP tool's own name, else what the document calls the operation."""
    if operation.protocol == "mcp":
        return operation.path
    return str(operation.written.get("operationId", operation.name))


def _servers(tree: JsonObject) -> Iterator[str]:
    for source in tree.get("sources", {}).values():
        for server in source.get("servers", {}).values():
            yield cut(server["endpoint"], 2_000)


class _Reader:
    """Reads one document's operations."""

    def __init__(self, tree: JsonObject, reading: Reading) -> None:
        self._tree, self._reading = tree, reading

    def endpoint(self, operation: _Operation, name: str) -> EndpointSpec:
        written = operation.written
        description = said_together(written.get("summary"), written.get("description"))
        if not description:
            self._reading.warnings.add(
                f"operations.{operation.name} has neither a summary nor a description."
            )
        lifecycle = written.get("lifecycle", "active")
        return EndpointSpec(
            key=operation.key,
            method=operation.method,
            path=cut(operation.path, MAX_KEY_BYTES),
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
            deprecated=lifecycle == "deprecated",
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

    def _schema(self, node: Any, where: str, limit: int) -> JsonObject | None:
        if isinstance(node, str):
            self._reading.warnings.add(f"{where} stands outside the document and is not opened.")
        if not isinstance(node, dict):
            return None
        # References lead into the document, or to the schema's own definitions as JSON Schema has it.
        own = {key: node[key] for key in ("$defs", "definitions") if isinstance(node.get(key), dict)}
        reading = Reading({**self._tree, **own}, siblings_count=True)
        schemas = Schemas(reading)
        bundle = Bundler(schemas, limit).answer(schemas.piece(node, where))
        for warning in reading.warnings.all():
            self._reading.warnings.add(warning)
        if bundle.shortened:
            self._reading.warnings.add(
                f"{where} is too large to be shown whole, so that deeper parts are shortened."
            )
        return bundle.schema or None

    def _metadata(self, operation: _Operation) -> JsonObject:
        """How it is called, as the document says it, for routing; and what the tool is besides its texts."""
        written = operation.written
        call = {key: written[key] for key in _CALL if key in written}
        if isinstance(authentication := written.get("authentication"), str | dict):
            # Its name or kind; an inline one may hold a password.
            call["authentication"] = (
                authentication if isinstance(authentication, str) else authentication["type"]
            )
        capability = written.get("capability", {})
        tool: JsonObject = {
            "sensitivity": _SENSITIVITY[written.get("visibility", "internal")],
            "lifecycle": _LIFECYCLE[written.get("lifecycle", "active")],
            "tool_type": "mcp" if operation.protocol == "mcp" else "api",
            "semantic_namespace": cut(self._tree["info"]["namespace"], 100),
        }
        if written.get("lifecycle") == "draft":
            # What is not finished is found by those who know its id, and offered to nobody.
            tool["visibility"] = "unlisted"
        if "group" in capability:
            tool["category"] = cut(one_line(capability["group"], limit=100), 100)
        metadata: JsonObject = {"call": call, "operation_id": cut(operation.name, MAX_TITLE), "tool": tool}
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
