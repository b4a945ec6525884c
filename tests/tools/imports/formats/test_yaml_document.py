"""Case 10, the whole kind: what YAML's authors leave without quotes stays what they wrote, wherever it stands (SYN-1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.imports.parsing import OK, document, parse_openapi
from tools.imports.fetching import sandbox
from tools.imports.formats.specs import EndpointSpec

# Dates, times, versions, numbers of other bases, and the words that YAML 1.1 takes for booleans.
WRITTEN = [
    "2022-01-16", "2015-02-22T20:00:45.000Z", "2001-12-14 21:59:43.10 -5", "12:30", "12:30:45", "190:20:30", "1.10", "1.0", "3.10", "1e3", ".5",
    "0123", "0o17", "0x1F", "0b11", "1_000", "+3", "-0", "007", "1.2.3", "yes", "no", "Yes", "NO", "on", "off", "y", "n", "true", "false", "42",
    "-17", ".inf", ".nan", "=", "5e-324", "9999999999999999999999", "0.10000000000000000001",
]  # fmt: skip
PLACES = """
openapi: 3.1.0
info: {{title: {0}, version: {0}, description: {0}}}
servers: [{{url: 'https://{{v}}.example', variables: {{v: {{default: {0}}}}}}}]
paths:
  /x:
    parameters: [{{name: {0}, in: query, schema: {{type: string, enum: [{0}, other]}}}}]
    post:
      operationId: {0}
      summary: {0}
      tags: [{0}]
      parameters:
        - {{name: default, in: query, schema: {{type: string, default: {0}}}}}
        - {{name: const, in: query, schema: {{type: string, const: {0}}}}}
        - {{name: example, in: query, schema: {{type: string}}, example: {0}}}
        - {{name: examples, in: query, schema: {{type: [string, 'null']}}, examples: {{one: {{value: {0}}}}}}}
        - {{name: inner, in: query, schema: {{type: array, items: {{type: string, examples: [{0}]}}}}}}
      requestBody:
        content:
          application/json:
            schema: {{type: object, properties: {{{0}: {{type: integer}}}}, required: [{0}]}}
      responses: {{200: {{description: {0}, content: {{application/json: {{example: {0}}}}}}}}}
"""


def read(text: str) -> EndpointSpec:
    # By way of the child, since what cannot be written as JSON would fail there.
    (endpoint,) = sandbox.parse("openapi", text.encode(), name="a.yaml").endpoints
    return endpoint


@pytest.mark.parametrize("written", WRITTEN)
def test_case_10_a_scalar_without_quotes_stays_as_written_in_every_place_SYN_1(written: str) -> None:
    found = parse_openapi(PLACES.format(written).encode())
    assert (found.title, found.version, found.description) == (written, written, written)
    assert found.servers == (f"https://{written}.example",)
    (endpoint,) = found.endpoints
    assert (endpoint.title, endpoint.description, endpoint.tags) == (written, written, (written,))
    assert endpoint.metadata["operation_id"] == written
    assert endpoint.metadata["parameters"][0]["name"] == written
    given = endpoint.input_schema["properties"]
    assert given[endpoint.metadata["parameters"][0]["property"]]["enum"] == [written, "other"]
    assert given["default"]["default"] == written
    assert given["const"]["const"] == written
    assert given["example"]["examples"] == [written]
    assert given["inner"]["items"]["examples"] == [written]
    assert list(given["body"]["properties"]) == given["body"]["required"] == [written]
    json.dumps(endpoint.input_schema, allow_nan=False)


def test_case_10_numbers_stay_numbers_where_numbers_are_meant_SYN_1() -> None:
    schema = "{type: number, minimum: 0.10, maximum: 1e3, multipleOf: .5, default: 1.10, enum: [1.10, 2], examples: [3.0]}"
    text = f"openapi: 3.1.0\npaths: {{/x: {{get: {{parameters: [{{name: q, in: query, schema: {schema}, example: 2.50}}]}}}}}}"
    assert read(text).input_schema["properties"]["q"] == {
        "type": "number", "minimum": 0.1, "maximum": 1000.0, "multipleOf": 0.5, "default": 1.1, "enum": [1.1, 2], "examples": [3.0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("string", ["1", "true", None, "a"]), (["string", "null"], ["1", "true", None, "a"]), ("integer", [1, True, None, "a"]),
     (["string", "integer"], [1, True, None, "a"]), (None, [1, True, None, "a"])],
)  # fmt: skip
def test_only_what_is_text_by_its_type_becomes_text_SYN_1(kind: Any, expected: list[Any]) -> None:
    schema = {"enum": [1, True, None, "a"], **({"type": kind} if kind else {})}
    raw = document(
        {"/x": {"get": {"responses": OK, "parameters": [{"name": "q", "in": "query", "schema": schema}]}}}
    )
    (endpoint,) = parse_openapi(raw).endpoints
    assert endpoint.input_schema["properties"]["q"]["enum"] == expected
