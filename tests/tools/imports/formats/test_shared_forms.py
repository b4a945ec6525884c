"""SYN-1: operations that take one form by reference are read as if each had written it."""

from __future__ import annotations

import json

from tests.support.imports.parsing import OK, parse_openapi

FORM = {"schema": {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}}


def body(media_type: str, *, required: bool) -> dict[str, object]:
    return {"required": required, "content": {media_type: FORM}}


def test_operations_that_share_a_form_keep_a_body_of_their_own_SYN_1() -> None:
    shared = {"$ref": "#/components/requestBodies/A"}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "T", "version": "1"},
        "paths": {
            "/a": {"post": {"requestBody": shared, "responses": OK}},
            "/b": {"post": {"requestBody": shared, "responses": OK}},
            "/c/{id}": {"post": {"requestBody": shared, "responses": OK}},
        },
        "components": {"requestBodies": {"A": body("multipart/form-data", required=True)}},
    }
    a, b, c = parse_openapi(json.dumps(document).encode()).endpoints
    assert a.input_schema == b.input_schema
    assert a.input_schema["required"] == ["file"]
    assert [one["name"] for one in a.metadata["parameters"]] == ["file"]
    assert a.metadata["body"] == b.metadata["body"] == c.metadata["body"]
    assert [one["name"] for one in c.metadata["parameters"]] == ["id", "file"]


def test_a_form_with_a_broken_reference_is_warned_of_in_every_operation_SYN_1() -> None:
    broken = {"content": {"multipart/form-data": {"schema": {"allOf": [{"$ref": "#/nowhere"}]}}}}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "T", "version": "1"},
        "paths": {
            f"/{name}": {"post": {"requestBody": {"$ref": "#/components/requestBodies/A"}, "responses": OK}}
            for name in "ab"
        },
        "components": {"requestBodies": {"A": broken}},
    }
    warnings = parse_openapi(json.dumps(document).encode()).warnings
    for name in "ab":
        assert any(one.startswith(f"/{name}@post: body") and "#/nowhere" in one for one in warnings)


def test_what_a_shared_form_loses_is_said_of_every_operation_SYN_1() -> None:
    shared = {"content": {"multipart/form-data": {"schema": {**FORM["schema"], "maxProperties": 1}}}}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "T", "version": "1"},
        "paths": {f"/{name}": {"post": {"requestBody": shared, "responses": OK}} for name in "ab"},
    }
    warnings = parse_openapi(json.dumps(document).encode()).warnings
    assert "Not carried over: 'maxProperties' of forms: 2 (/a@post: body, /b@post: body)." in warnings


def test_keywords_beside_the_reference_of_a_form_count_from_3_1_on_SYN_1() -> None:
    schema = {"$ref": "#/components/schemas/A", "properties": {"more": {"type": "string"}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "paths": {
            "/a": {
                "post": {
                    "requestBody": {"content": {"multipart/form-data": {"schema": schema}}},
                    "responses": OK,
                }
            }
        },
        "components": {"schemas": {"A": FORM["schema"]}},
    }
    (endpoint,) = parse_openapi(json.dumps(document).encode()).endpoints
    assert {one["name"] for one in endpoint.metadata["parameters"]} == {"file", "more"}
