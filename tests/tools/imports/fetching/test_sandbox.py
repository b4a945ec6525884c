"""The way of a document from the child that reads it to the process that asked (S10)."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.imports.limits import parse_document
from tests.support.imports.parsing import document, shared
from tools.imports.fetching import sandbox
from tools.imports.formats.specs import EndpointSpec, ParsedDocument


def handed_over(written: ParsedDocument) -> tuple[ParsedDocument, list[bytes]]:
    """What arrives, and the lines that it arrived in."""
    out = io.StringIO()
    sandbox._write(written, out)
    lines = out.getvalue().encode().splitlines(keepends=True)
    return sandbox._read(lines), lines


@pytest.mark.parametrize(
    "name",
    ["openapi/petstore-2.0.json", "openapi/stripe-2020-3.0.yaml", "openapi/schema-circular-3.0.yaml", "openapi/external-refs/main.yaml",
     "openapi/webhooks-only-3.1.json", "mcp/notion.json", "lightapi/raw-http-health.lightapi.yaml", "cases/42-nul-and-control-characters/doc.json"],
)  # fmt: skip
def test_what_arrives_is_what_was_read_S10(name: str) -> None:
    raw = shared(name)
    written = parse_document(raw, name=name)
    arrived = sandbox.parse(sandbox.ANY, raw, name=name)
    # The check of the child adds its findings, which have tests of their own.
    read = [one for one in arrived.warnings if not one.startswith("openapi-spec-validator")]
    assert replace(arrived, warnings=tuple(read)) == written
    assert [each.content_hash() for each in arrived.endpoints] == [
        each.content_hash() for each in written.endpoints
    ]


SCHEMAS = {
    "A": {"type": "object", "properties": {"b": {"$ref": "#/components/schemas/B"}}},
    "B": {"enum": ["one", "two"]},
}


def many(count: int) -> ParsedDocument:
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
    paths = {f"/p{number}": {"post": {"requestBody": body, "responses": {}}} for number in range(count)}
    return parse_document(document(paths, components={"schemas": SCHEMAS}))


def test_what_operations_share_is_written_once_and_shared_again_S10() -> None:
    """A document of 6 MB became 3 GB in the worker when each of its 20,000 operations brought its own copy."""
    arrived, lines = handed_over(many(100))
    text = b"".join(lines)
    assert text.count(b'"enum": ["one", "two"]') == 1
    first, *others = arrived.endpoints
    assert all(each.input_schema["$defs"]["A"] is first.input_schema["$defs"]["A"] for each in others)
    assert arrived == many(100)


def test_the_mark_of_what_is_shared_cannot_come_from_a_document_S10() -> None:
    schema = {"type": "object", "properties": {"\0": {"type": "string"}}, "example": {"\0": 0}}
    body = {"content": {"application/json": {"schema": schema, "example": {"\0": 7}}}}
    read = parse_document(document({"/x": {"post": {"requestBody": body}}}))
    assert "\0" not in json.dumps([each.input_schema for each in read.endpoints]).replace("\\u0000", "\0")
    arrived, _ = handed_over(read)
    assert arrived == read


def spec(**fields: Any) -> EndpointSpec:
    plain: dict[str, Any] = {
        "key": "k", "method": "get", "path": "/", "name": "n", "title": "", "description": "", "tags": (), "input_schema": {},
        "output_schema": None, "metadata": {}, "deprecated": False,
    }  # fmt: skip
    return EndpointSpec(**{**plain, **fields})


def test_values_of_every_kind_arrive_as_they_were() -> None:
    twice: list[Any] = [1, 1.5, True, None, "ü\u2028", [], {}, [[]], {"a": {}}]
    held = {"one": twice, "two": twice, "deeper": [{"three": twice}]}
    written = ParsedDocument(
        "openapi", "3.0.0", "T", "1", "", ("http://a",), 2, (spec(metadata=held, tags=("a",)), spec(key="l", metadata=held)), (), ("w",)
    )  # fmt: skip
    arrived, lines = handed_over(written)
    assert arrived == written
    assert arrived.endpoints[0].metadata is arrived.endpoints[1].metadata
    assert arrived.endpoints[0].metadata["one"] is arrived.endpoints[0].metadata["deeper"][0]["three"]
    assert len(lines) == 5  # two things shared, two endpoints, the document


@pytest.mark.parametrize(
    "name", ["a\0b.json", "a\ud800.json", "-c", "--help", "", "x" * 300_000, "a\nb.json"]
)
def test_a_name_that_is_no_argument_of_a_program_is_no_trouble(name: str) -> None:
    assert len(sandbox.parse("openapi", document({"/x": {"get": {}}}), name=name).endpoints) == 1
