"""OpenAPI 2.0, 3.0 and 3.1 documents (3.2 as 3.1) as endpoint specs.

Every operation under `paths` becomes one endpoint, or is listed as left out with the reason; what is odd but
usable is a warning. Only a document that cannot be read as OpenAPI at all is refused. Nothing here opens a
file, a socket or the database: bytes in, a `ParsedDocument` out, the same for the same bytes. `operations` reads one operation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tools.imports.formats.json_document import MAX_VALUES, LoadedDocument
from tools.imports.formats.names import NamedOperation, operation_names
from tools.imports.formats.openapi.named_references import resolve_named_references
from tools.imports.formats.openapi.operations import (
    MAX_TITLE,
    MAX_TOOLS_BYTES,
    SHARES,
    OperationReader,
    RawOperation,
    cut_warning,
    server_urls,
)
from tools.imports.formats.references import Losses, RefResolver, Warnings, unread
from tools.imports.formats.specs import (
    DocumentRefused,
    EndpointSpec,
    JsonObject,
    JsonValue,
    LeftOut,
    Limits,
    ParsedDocument,
    as_object,
)
from tools.imports.formats.texts import as_text, cut_text, one_line, truncate

# A key is part of a unique index, whose rows PostgreSQL limits to some 2,700 bytes.
MAX_KEY_BYTES = 2_000

VERSION_FIELDS = ("openapi", "swagger", "swaggerVersion")
"""The fields of which a document has one, which says its version."""

_METHODS_2 = frozenset(("get", "put", "post", "delete", "options", "head", "patch"))
_METHODS_3 = _METHODS_2 | {"trace"}
_METHODS_32 = _METHODS_3 | {"query"}
_ALL_METHODS = _METHODS_32 | {"connect"}
_OF_PATHS = frozenset(("$ref", "summary", "description", "servers", "parameters", "additionalOperations"))
_METHOD = re.compile(r"[A-Za-z][A-Za-z-]{0,19}")
_VERSION_3 = re.compile(r"3\.[012](\.[0-9A-Za-z.+-]{1,50})?")
_KNOWN = "the versions read are 2.0, 3.0, 3.1 and 3.2"


class _Version(NamedTuple):
    written: str
    methods: frozenset[str]

    @property
    def is_2(self) -> bool:
        return self.written == "2.0"

    @property
    def is_32(self) -> bool:
        return self.written.startswith("3.2")


def read_openapi(loaded: LoadedDocument, subject: str) -> ParsedDocument:
    """The endpoints of a loaded document; `subject` begins the sentence when it is refused: `DocumentRefused`."""
    tree = loaded.value
    if not isinstance(tree, dict):
        kind = "a list" if isinstance(tree, list) else "a single value"
        raise DocumentRefused(
            f"{subject} is not an OpenAPI document: its top level is {kind}, not a mapping."
        )
    version = _version(tree, subject)
    siblings_count = not version.written.startswith(("2", "3.0"))
    resolver = RefResolver(tree, siblings_count=siblings_count, warnings=Warnings(loaded.warnings))
    resolver.marks = resolve_named_references(tree, loaded.name, has_ids=siblings_count)
    if len(said := [field for field in VERSION_FIELDS if field in tree]) > 1:
        resolver.warnings.add(
            f"The document has '{said[0]}' and '{said[1]}'; it is read as '{said[0]}' says."
        )
    if version.is_32:
        resolver.warnings.add("OpenAPI 3.2 is read as 3.1: what is new in it may be missing.")
    paths = _paths(tree, subject, resolver)

    left_out: list[LeftOut] = []
    found: list[RawOperation] = []
    for operation in _operations(paths, version, resolver, subject):
        if isinstance(operation, LeftOut):
            left_out.append(operation)
        else:
            found.append(operation)
        if len(found) + len(left_out) > loaded.limits.operations:
            raise DocumentRefused(f"{subject} has more than {loaded.limits.operations:,} operations.")
    endpoints = _endpoints(found, version, resolver, loaded.limits, subject)
    if not found:
        resolver.warnings.add("The document has no operations, so it gives no tools.")
    info = as_object(tree.get("info"))
    description, is_cut = cut_text(info.get("description"), limit=loaded.limits.description)
    if is_cut:
        resolver.warnings.add(cut_warning("The document", info.get("description"), loaded.limits.description))
    return ParsedDocument(
        kind="openapi",
        format_version=version.written,
        title=one_line(info.get("title"), limit=MAX_TITLE),
        version=truncate(as_text(info.get("version")), 100),
        description=description,
        servers=tuple(server_urls(tree, swagger=version.is_2)),
        operations=len(endpoints) + len(left_out),
        endpoints=endpoints,
        left_out=tuple(left_out),
        warnings=(*resolver.warnings.all(), *resolver.losses.sentences()),
    )


def _version(tree: JsonObject, subject: str) -> _Version:
    for field in VERSION_FIELDS:
        if field not in tree:
            continue
        written = as_text(tree[field]).strip()
        if field == "openapi" and _VERSION_3.fullmatch(written):
            return _Version(written, _METHODS_32 if written.startswith("3.2") else _METHODS_3)
        if field == "swagger" and written in ("2.0", "2"):
            return _Version("2.0", _METHODS_2)
        shown = truncate(written, 50) if written else "no text"
        raise DocumentRefused(f"{subject} cannot be imported: its '{field}' is '{shown}', and {_KNOWN}.")
    raise DocumentRefused(f"{subject} is not an OpenAPI document: it has neither 'openapi' nor 'swagger'.")


def _paths(tree: JsonObject, subject: str, resolver: RefResolver) -> JsonObject:
    webhooks = tree.get("webhooks")
    if isinstance(webhooks, dict) and webhooks:
        resolver.warnings.add(
            f"{len(webhooks):,} webhooks give no tools: they are calls that the API makes, not calls to it."
        )
    if "paths" not in tree:
        if "webhooks" not in tree:
            raise DocumentRefused(f"{subject} cannot be imported: it has neither 'paths' nor 'webhooks'.")
        return {}
    paths = tree["paths"]
    if paths is not None and not isinstance(paths, dict):
        raise DocumentRefused(f"{subject} cannot be imported: its 'paths' is not a mapping of paths.")
    return paths or {}


def _operations(
    paths: JsonObject, version: _Version, resolver: RefResolver, subject: str
) -> Iterator[RawOperation | LeftOut]:
    values = 0
    for path, written in paths.items():
        if path.startswith("x-"):
            continue
        if not path.startswith("/"):
            resolver.warnings.add(f"{truncate(path, 200)}: a path begins with '/', and this one does not.")
        nodes, problem = resolver.chain(written)
        # As with aliases of YAML, the values behind a reference count at every use.
        values += resolver.values(nodes[1:])
        if values > MAX_VALUES:
            raise DocumentRefused(f"{subject} holds, with its references, more than {MAX_VALUES:,} values.")
        item, problem = _path_item(nodes, problem)
        if problem:
            yield LeftOut(truncate(path, MAX_KEY_BYTES), problem)
        not_read = unread(_not_methods(item), _OF_PATHS, "of paths")
        for method, operation, problem in _methods(item, version):
            key = f"{path}@{method}"
            if len(key.encode()) > MAX_KEY_BYTES:
                yield LeftOut(truncate(key, 200), f"its path is longer than {MAX_KEY_BYTES:,} bytes")
            elif problem or not isinstance(operation, dict):
                yield LeftOut(key, problem)
            else:
                yield RawOperation(key, method, path, item, operation, not_read)


def _path_item(nodes: list[JsonValue], problem: str) -> tuple[JsonObject, str]:
    """A path item and what its `$ref` leads to as one, where what stands beside a `$ref` wins; and the reason why a part of it is
    missing, or ""."""
    item: JsonObject = {}
    for node in nodes:
        item = {**as_object(node), **item}
    if problem:
        return item, f"the path's {problem}"
    if isinstance(nodes[-1], dict):
        return item, ""
    return item, "the path is empty" if nodes[-1] is None else "the path is not a mapping of methods"


def _methods(item: JsonObject, version: _Version) -> Iterator[tuple[str, JsonValue, str]]:
    """Each method of a path item in lower case, its operation, and why it gives no endpoint (or nothing)."""
    for method, operation in item.items():
        if method in version.methods:
            yield method, operation, _problem(operation)
        elif method.lower() in version.methods:
            yield truncate(method, 50), operation, f"the method is written '{method}', not '{method.lower()}'"
        elif method in _ALL_METHODS or (not method.startswith("x-") and _looks_like_an_operation(operation)):
            name = truncate(method, 50)
            yield name, operation, f"OpenAPI {version.written} knows no method '{name}'"
        elif _looks_like_an_operation(operation):
            # Such as x-amazon-apigateway-any-method.
            yield (
                truncate(method, 50),
                operation,
                "an extension holds it, which names no method to call it with",
            )
    # From 3.2 on: methods that have no key, written as they are sent.
    extra = as_object(item.get("additionalOperations"))
    taken = item.keys() & version.methods
    for method, operation in extra.items():
        if not version.is_32 or not _METHOD.fullmatch(method) or method.lower() in taken:
            yield truncate(method, 50), operation, "'additionalOperations' holds it, where it may not stand"
        else:
            taken.add(method.lower())
            yield method.lower(), operation, _problem(operation)


def _not_methods(item: JsonObject) -> JsonObject:
    return {
        key: value
        for key, value in item.items()
        if key.lower() not in _ALL_METHODS and not _looks_like_an_operation(value)
    }


def _problem(operation: JsonValue) -> str:
    if isinstance(operation, dict):
        return ""
    return "the operation is empty" if operation is None else "the operation is not a mapping"


def _looks_like_an_operation(value: JsonValue) -> bool:
    """A wrong method shows itself by what it holds: `parameters`, `servers` and the like hold no answers."""
    return isinstance(value, dict) and not value.keys().isdisjoint(("responses", "operationId"))


def _endpoints(
    found: list[RawOperation], version: _Version, resolver: RefResolver, limits: Limits, subject: str
) -> tuple[EndpointSpec, ...]:
    names = operation_names([NamedOperation(op.key, op.method, op.path, op.operation_id) for op in found])
    for share in SHARES:
        resolver.losses = Losses()
        reader = OperationReader(
            resolver, swagger=version.is_2, share=share, max_description=limits.description
        )
        endpoints = reader.endpoints(found, names)
        if endpoints is not None:
            return endpoints
    raise DocumentRefused(
        f"{subject} describes tools of more than {MAX_TOOLS_BYTES // 1_048_576} MB in all; its references may be built to grow."
    )
