"""Documents for the tests of the importers: shared real ones, shared cases, and small ones made in place."""

from __future__ import annotations

import importlib.util
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.imports.documents import INPUTS
from tests.support.imports.limits import parse_document
from tools.imports.formats.specs import EndpointSpec, ParsedDocument

parse_openapi = partial(parse_document, kind="openapi")
parse_lightapi = partial(parse_document, kind="lightapi")
parse_mcp_tools = partial(parse_document, kind="mcp")
OK = {"200": {"description": "ok"}}


def shared(name: str) -> bytes:
    """A file under ../shared/inputs; without that folder the test is skipped."""
    if not INPUTS.is_dir():
        pytest.skip("needs ../shared/inputs")
    return (INPUTS / name).read_bytes()


def case(number: str, name: str) -> ParsedDocument:
    """The parsed file of a shared case, by the case's number."""
    folder = next(iter(INPUTS.glob(f"cases/{number}-*")), Path("missing"))
    return parse_openapi(shared(f"cases/{folder.name}/{name}"), name=name)


def counted_operations(raw: bytes) -> int:
    """The number of operations by tools/oas_stats.py, which knows nothing of our code."""
    path = INPUTS / "tools" / "oas_stats.py"
    spec = importlib.util.spec_from_file_location("oas_stats", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return int(module.stats("document", raw)["ops"])


def document(paths: Any, *, version: str = "3.0.3", **fields: Any) -> bytes:
    """A document with these paths; `version` "2.0" makes it a Swagger one."""
    head = {"swagger": version} if version == "2.0" else {"openapi": version}
    return json.dumps({**head, "info": {"title": "T", "version": "1"}, "paths": paths, **fields}).encode()


def parsed(paths: Any, *, version: str = "3.0.3", **fields: Any) -> ParsedDocument:
    """The same, parsed."""
    return parse_openapi(document(paths, version=version, **fields))


def operation(value: dict[str, Any], *, path: str = "/x", method: str = "get", **fields: Any) -> EndpointSpec:
    """The endpoint of a document with this one operation."""
    (endpoint,) = parsed({path: {method: {"responses": OK, **value}}}, **fields).endpoints
    return endpoint


def by_name(found: ParsedDocument) -> dict[str, EndpointSpec]:
    """The endpoints by their names."""
    return {endpoint.name: endpoint for endpoint in found.endpoints}


def places(endpoint: EndpointSpec) -> list[tuple[str, str, bool]]:
    """Name, place and required of each parameter."""
    return [(each["name"], each["in"], each["required"]) for each in endpoint.metadata["parameters"]]
