"""Schemas of every version as JSON Schema 2020-12, carried once and bounded in size (SYN-1, CAT-2)."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.imports.parsing import operation, parsed
from tools.imports.formats.json_schema import Schemas
from tools.imports.formats.openapi.operations import MAX_INPUT_BYTES
from tools.imports.formats.references import RefResolver
from tools.imports.formats.schema_budget import Part, SchemaBudget
from tools.imports.formats.schema_values import json_size


def converted(schema: Any, *, version: str = "3.0.3", **schemas: Any) -> Any:
    parameter = {"name": "p", "in": "query", "schema": schema}
    endpoint = operation({"parameters": [parameter]}, version=version, components={"schemas": schemas})
    return endpoint.input_schema["properties"]["p"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"nullable": True, "allOf": [{"type": "object"}]},
            {"anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]},
        ),
        (
            {"nullable": True, "anyOf": [{"type": "object"}]},
            {"anyOf": [{"type": "object"}, {"type": "null"}]},
        ),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            {"type": "integer", "exclusiveMinimum": 1},
        ),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": False}, {"type": "integer", "maximum": 9}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        (
            {"type": "array", "items": [{"type": "string"}]},
            {"type": "array", "prefixItems": [{"type": "string"}]},
        ),
        ({"type": "file"}, {"type": "string", "format": "binary"}),
        ({"type": "string", "example": "a"}, {"type": "string", "examples": ["a"]}),
        ({"type": ["string", "odd", "string"]}, {"type": "string"}),
        ({"const": None}, {"const": None}),
        (True, {}),
        (False, {"not": {}}),
        ({"not": {"$ref": "other.yaml"}}, {}),
        ({"properties": {"$ref": {"type": "string"}}}, {"properties": {"$ref": {"type": "string"}}}),
        (
            {"type": "object", "additionalProperties": False, "x-y": 1, "xml": {}, "discriminator": {}},
            {"type": "object", "additionalProperties": False},
        ),
    ],
)
def test_older_ways_of_writing_become_json_schema_CAT_2(written: Any, expected: Any) -> None:
    assert converted(written) == expected


@pytest.mark.parametrize(
    "odd",
    [
        {"type": 7},
        {"type": {}},
        {"enum": "a"},
        {"enum": []},
        {"required": True},
        {"minimum": "1"},
        {"minLength": -1},
        {"maxItems": 1.5},
        {"pattern": 5},
        {"items": "a"},
        {"properties": []},
        {"allOf": {}},
        {"allOf": []},
        {"multipleOf": 0},
        {"uniqueItems": "yes"},
        {"$ref": 5},
        {"description": []},
        {"additionalProperties": "yes"},
        "text",
        [],
        None,
        7,
    ],
)
def test_invalid_bits_are_dropped_and_cost_no_tool_SYN_1(odd: Any) -> None:
    assert converted(odd) == {}


def test_what_stands_beside_a_reference_counts_from_3_1_on_and_its_text_always_SYN_1() -> None:
    written = {"$ref": "#/components/schemas/S", "description": "Here", "minLength": 2}
    assert converted(written, S={"type": "string"}) == {"$ref": "#/$defs/S", "description": "Here"}
    newer = converted(written, version="3.1.0", S={"type": "string"})
    assert newer == {"$ref": "#/$defs/S", "description": "Here", "minLength": 2}


def test_definitions_are_carried_once_and_only_where_reached_SYN_1() -> None:
    schemas = {
        "A": {
            "properties": {
                "b": {"$ref": "#/components/schemas/B"},
                "again": {"$ref": "#/components/schemas/B"},
            }
        },
        "B": {"properties": {"a": {"$ref": "#/components/schemas/A"}}},
        "Alias": {"$ref": "#/components/schemas/A"},
        "Unused": {"type": "string"},
        "A«B»": {"type": "integer"},
    }
    parameters = [
        {"name": "one", "in": "query", "schema": {"$ref": "#/components/schemas/Alias"}},
        {"name": "two", "in": "query", "schema": {"$ref": "#/components/schemas/A%C2%ABB%C2%BB"}},
        {"name": "three", "in": "query", "schema": {"$ref": "#/components/schemas/A/properties/b"}},
    ]
    schema = operation({"parameters": parameters}, components={"schemas": schemas}).input_schema
    names = list(schema["$defs"])
    assert schema["properties"]["one"] == {"$ref": "#/$defs/A"}
    assert names[0] == "A"
    assert names[1].startswith("A_B_")
    assert names[2] == "B"
    assert len(names) == 3
    assert schema["$defs"]["B"] == {"properties": {"a": {"$ref": "#/$defs/A"}}}


def test_references_that_lead_nowhere_allow_anything_and_are_named_SYN_1() -> None:
    schema = {
        "properties": {
            "a": {"$ref": "#/components/schemas/No"},
            "b": {"$ref": "x.yaml"},
            "c": {"$ref": "#/info/title"},
        }
    }
    found = parsed(
        {"/x": {"get": {"summary": "X", "parameters": [{"name": "p", "in": "query", "schema": schema}]}}}
    )
    assert found.endpoints[0].input_schema["properties"]["p"] == {"properties": {"a": {}, "b": {}, "c": {}}}
    assert [warning.split("' ")[1].split(";")[0] for warning in found.warnings] == [
        "leads to nothing",
        "leads outside the document and is not opened",
        "leads to something that is no schema",
    ]


def test_the_output_shows_the_schema_behind_a_mere_reference_CAT_2() -> None:
    response = {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}}}
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
    found = operation({"responses": response}, components={"schemas": {"Node": node}}).output_schema
    assert found == {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
    }


def test_no_tool_is_larger_than_its_limit_and_nearer_parts_are_kept_SYN_1() -> None:
    wide = {f"field{number}": {"type": "string", "description": "words " * 50} for number in range(200)}
    schemas = {
        f"S{number}": {
            "type": "object",
            "properties": {**wide, "n": {"$ref": f"#/components/schemas/S{number + 1}"}},
        }
        for number in range(9)
    }
    schemas["S9"] = {"type": "string"}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    found = parsed({"/x": {"post": {"summary": "X", "requestBody": body}}}, components={"schemas": schemas})
    schema = found.endpoints[0].input_schema
    assert json_size(schema) <= MAX_INPUT_BYTES
    assert set(schema["$defs"]["S0"]["properties"]) == {*wide, "n"}
    assert found.warnings == (
        "Operations with schemas too large to be shown whole, so that deeper parts are shortened: 1 (/x@post).",
    )


def test_a_thousand_parameters_fit_by_being_shortened_and_required_ones_come_first_SYN_1() -> None:
    parameters = [
        {
            "name": f"a_rather_long_parameter_name_{number}",
            "in": "query",
            "required": number % 2 == 0,
            "schema": {"type": "string"},
        }
        for number in range(1_000)
    ]
    found = parsed({"/x": {"get": {"summary": "X", "parameters": parameters}}})
    (endpoint,) = found.endpoints
    assert json_size(endpoint.input_schema) <= MAX_INPUT_BYTES
    assert "no room for" in found.warnings[0]
    kept = [each["required"] for each in endpoint.metadata["parameters"]]
    assert len(kept) == len(endpoint.input_schema["properties"]) > 300
    assert sum(kept) >= 300


SCALARS = st.one_of(st.text(max_size=3), st.integers(-3, 3), st.booleans(), st.none())
INSTANCES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    listed = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["object", "array", "string", "integer"]),
                "description": st.text(min_size=20, max_size=60),
                "properties": st.dictionaries(st.sampled_from("abc"), inner),
                "required": st.just(["a"]),
                "additionalProperties": inner | st.booleans(),
                "items": inner,
            },
        ),
        st.builds(lambda key, value: {key: value}, st.sampled_from(["allOf", "anyOf", "oneOf"]), listed),
        st.builds(lambda value: {"not": value}, inner),
        st.builds(lambda test, then: {"if": test, "then": then}, inner, inner),
        st.builds(lambda values: {"enum": values * 40}, st.lists(SCALARS, min_size=1, max_size=5)),
        st.sampled_from([{"$ref": f"#/components/schemas/{name}"} for name in "ABC"]),
    )


SCHEMAS: st.SearchStrategy[Any] = st.recursive(st.just({}), _schemas, max_leaves=12)


@given(SCHEMAS, st.lists(SCHEMAS, min_size=3, max_size=3), INSTANCES, st.sampled_from([150, 400, 1_000]))
@settings(max_examples=300, deadline=None)
def test_a_shortened_schema_never_refuses_what_the_full_one_allows_SYN_1(
    root: Any, components: list[Any], instance: Any, limit: int
) -> None:
    tree = {"components": {"schemas": dict(zip("ABC", components, strict=True))}}

    def bundle(size: int) -> Any:
        schemas = Schemas(RefResolver(tree, siblings_count=True))
        return SchemaBudget(schemas, size).fit_parameters(
            [Part("p", schemas.piece(root, "root"), {}, required=True)]
        )

    full, small = bundle(1_000_000), bundle(limit)
    assert not full.shortened
    assert json_size(small.schema) <= limit
    jsonschema.Draft202012Validator.check_schema(small.schema)
    value = {"p": instance}
    if jsonschema.Draft202012Validator(full.schema).is_valid(value):
        assert jsonschema.Draft202012Validator(small.schema).is_valid(value)
