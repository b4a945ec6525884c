"""What a parser of documents is given and hands over: limits, and plain, frozen data that says which endpoints a document
describes.

Every importer (OpenAPI, MCP, LightAPI) returns these, and the plan of a sync compares them with what the
catalogue holds. Nothing here reads a document, touches the database or knows a tenant. The dictionaries
inside a spec may be shared between specs of one document, so they must not be changed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from typing import Any, Self

# As in portal.json_types, which a parser may not import: its package starts Django.
JsonObject = dict[str, Any]
JsonValue = JsonObject | list[Any] | str | int | float | bool | None
"""A value of a document that is not checked yet: ask what it is (`isinstance`) before it is used."""


def as_object(value: JsonValue) -> JsonObject:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


class DocumentRefused(Exception):
    """The document cannot be imported; the message is a sentence for the operator that says what is wrong."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`document_bytes` of one document, unpacked; `operations` (or tools) that it may describe; characters of a `description`, of
    which more is cut. The parent process makes them of its settings (DOCUMENT_MAX_BYTES, DOCUMENT_MAX_OPERATIONS,
    DESCRIPTION_MAX_CHARACTERS) for the child that parses, which reads no settings."""

    document_bytes: int
    operations: int
    description: int


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """One operation of a document, as an agent may come to see it.

    `key` is unique in its document: `<path>@<method>` with the path as written and the method in lower case, of
    LightAPI the endpointId or `<operationId>@<method>`, of a file of tools the id. `name` has at most 200 characters; that of an
    operation of OpenAPI is legal for every agent format (letters, digits, `_` and `-`, at most 64) and unique, an MCP
    tool's is the server's own. `input_schema` is a JSON Schema (2020-12) of an object; of OpenAPI
    `metadata["parameters"]` says where each of its properties goes in a request. `output_schema` is that of a successful
    answer, or None.
    """

    key: str
    method: str
    path: str
    name: str
    title: str
    description: str
    tags: tuple[str, ...]
    input_schema: JsonObject
    output_schema: JsonObject | None
    metadata: JsonObject
    deprecated: bool

    def content_hash(self, layers: JsonObject | None = None) -> str:
        """SHA-256 (hex) of everything in the spec; two equal specs have equal hashes in every process. With `layers` (as JSON, by
        layer), also of what it was merged from, so that a change in one that another covers is kept too."""
        hashed = [self.as_json(), layers] if layers else self.as_json()
        return hashlib.sha256(canonical_json(hashed)).hexdigest()

    def as_json(self) -> JsonObject:
        """The spec as a mapping by SPEC_FIELDS, whose values are the spec's own."""
        return {name: getattr(self, name) for name in SPEC_FIELDS} | {"tags": list(self.tags)}

    @classmethod
    def from_json(cls, data: JsonObject) -> Self:
        """The spec that `as_json` wrote."""
        return cls(**{**data, "tags": tuple(data["tags"])})


SPEC_FIELDS = tuple(field.name for field in fields(EndpointSpec))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An operation (its key), or a whole path, that gives no endpoint, and why."""

    operation: str
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document that was read to its end; `operations` is always `len(endpoints) + len(left_out)`.

    `kind` is the source's (openapi, mcp, lightapi, or manual for a file of tools), `format_version` the format's. A document
    that is not `complete` says itself that it is a part of something: what it does not name is not gone.
    """

    kind: str
    format_version: str
    title: str
    version: str
    description: str
    servers: tuple[str, ...]
    operations: int
    endpoints: tuple[EndpointSpec, ...]
    left_out: tuple[LeftOut, ...]
    warnings: tuple[str, ...]
    complete: bool = True


def canonical_json(value: object) -> bytes:
    """The one JSON text of a value: sorted keys, no white space, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
