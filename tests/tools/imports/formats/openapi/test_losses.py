"""What of an operation is not carried into its tool is named in a warning (SYN-1, cases 56, 57, 66, 70)."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.support.imports.documents import OPENAPI, needs_inputs
from tests.support.imports.limits import LIMITS, load_document
from tests.support.imports.parsing import OK, by_name, case, operation, parse_openapi, parsed, places
from tools.imports.formats.json_schema import LIST_KEYS, MAP_KEYS, SCHEMA_KEYS
from tools.imports.formats.schema_values import VALUES

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


def told(found: Any, *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in found.warnings)


def test_case_56_null_without_quotes_is_a_type_SYN_1() -> None:
    (guest,) = case("56", "guests.yaml").endpoints
    assert guest.input_schema["properties"]["table"]["type"] == ["integer", "null"]
    body = guest.input_schema["properties"]["body"]["properties"]
    assert (body["diet"]["type"], body["nothing"]["type"]) == (["string", "null"], "null")
    jsonschema.validate({"body": {"name": "A", "diet": None, "nothing": None}}, guest.input_schema)


def test_case_56_a_type_that_a_generator_left_empty_is_none_SYN_1() -> None:
    for version, schema in (("3.0.3", {"type": None}), ("3.1.0", {"type": None, "properties": {"a": {}}})):
        body = {"content": {"application/json": {"schema": schema}}}
        found = operation({"requestBody": body}, method="post", version=version)
        jsonschema.validate({"body": {"a": 1}}, found.input_schema)


def test_case_57_a_variable_in_other_dress_is_the_declared_parameter_SYN_1() -> None:
    found = case("57", "files.json")
    assert found.warnings == ()
    assert {one.path: places(one) for one in found.endpoints} == {
        "/files/{key+}": [("key", "path", True)],
        "/tree/{*path}": [("path", "path", True)],
        "/v1/{+name}": [("name", "path", True)],
        "/users/{id:int}": [("id", "path", True)],
    }
    (left_out,) = found.left_out
    assert left_out.operation == "/files/{key+}@x-amazon-apigateway-any-method"
    assert "names no method" in left_out.reason


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/a/{key+}", ["key"]),
        ("/a/{id:[0-9]{3}}", ["id"]),
        ("/a/{x,y}", ["x", "y"]),
        ("/a/{list*}", ["list"]),
        ("/a/{id=5}", ["id"]),
        ("/a/{id}.{format}", ["id", "format"]),
        ("/a/{*}", ["*"]),
    ],
)
def test_an_undeclared_variable_is_one_input_without_its_dress_SYN_1(path: str, names: list[str]) -> None:
    found = operation({"summary": "A"}, path=path)
    assert [name for name, _, _ in places(found)] == names


def test_case_66_what_is_no_html_stays_and_examples_by_reference_are_found_SYN_1() -> None:
    (part,) = case("66", "angles.yaml").endpoints
    assert "Use <q> as the text, <s> for the size, <a> and <b> for the range" in part.description
    assert "List<I>, Map<String,B> and <id>" in part.description
    assert "1<a and b>3. Mail <info@parts.example>. Entity: q=1<2 &copy;" in part.description
    examples = {name: one["examples"] for name, one in part.input_schema["properties"].items()}
    assert examples == {"filter": ["colour eq 'red'"], "sort": ["name:asc"]}


@pytest.mark.parametrize(
    ("place", "first", "second", "named"),
    [("query", "limit", "limit", "limit"), ("header", "X-Trace", "x-trace", "x-trace"), ("path", "id", "id", "id")],
)  # fmt: skip
def test_case_70_a_parameter_that_stands_twice_is_one_input_and_is_told_SYN_1(
    place: str, first: str, second: str, named: str
) -> None:
    listed = [
        {"name": first, "in": place, "required": True, "schema": {"type": "string"}},
        {"name": second, "in": place, "required": True, "schema": {"type": "integer"}},
    ]
    found = parsed({"/x/{id}": {"get": {"summary": "X", "parameters": listed, "responses": OK}}})
    (endpoint,) = found.endpoints
    assert endpoint.input_schema["properties"][second]["type"] == "integer"
    assert told(found, "/x/{id}@get", f"'{named}'", f"in {place}", "twice", "last one counts")


def test_case_70_an_operation_that_overrides_its_paths_parameter_is_no_fault_SYN_1() -> None:
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer"}}
    get = {"summary": "X", "parameters": [limit], "responses": OK}
    assert not parsed({"/x": {"parameters": [limit], "get": get}}).warnings


@pytest.mark.parametrize("length", [8_001, 300_000])
def test_case_68_a_description_that_is_cut_is_told_with_length_and_limit_SYN_1(length: int) -> None:
    found = parsed({"/x": {"get": {"description": "d" * length, "responses": OK}}})
    assert len(found.endpoints[0].description) == LIMITS.description == 8_000
    assert told(found, "/x@get", f"{length:,} characters", "8,000", "DESCRIPTION_MAX_CHARACTERS")
    assert not parsed({"/x": {"get": {"description": "d" * 8_000, "responses": OK}}}).warnings


JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({JSON: {"schema": {"oneOf": [OBJECT, {"type": "string"}], "discriminator": {"propertyName": "a", "mapping": {"x": "#/x"}}}}}, "'discriminator'"),
        ({JSON: {"schema": {"type": "string", "contentSchema": {"type": "object"}}}}, "'contentSchema'"),
        ({JSON: {"schema": {"type": "string", "pattern": 5}}}, "'pattern'"),
        ({JSON: {"schema": {"type": "string", "default": "x" * 600}}}, "'default'"),
        ({JSON: {"schema": {"type": "string", "examples": ["a", "b", "c", "d"]}}}, "'examples beyond its bounds'"),
        ({JSON: {"schema": {"type": "string", "description": "d" * 2_001}}}, "'description beyond its bounds'"),
        ({JSON: {"schema": OBJECT, "examples": {"x": {"value": "x" * 600}}}}, "examples of inputs"),
        ({JSON: {"schema": OBJECT, "examples": {"x": {"externalValue": "https://a.example/x"}}}}, "stand outside"),
        ({JSON: {"schema": OBJECT}, FORM: {"schema": {"type": "object"}}}, "further media types"),
        ({FORM: {"schema": {**OBJECT, "oneOf": [{"required": ["a"]}, {"properties": {"b": {}}}]}}}, "'oneOf' of forms"),
        ({FORM: {"schema": {**OBJECT, "additionalProperties": {"type": "string"}}}}, "'additionalProperties' of forms"),
        ({FORM: {"schema": {"properties": {"a" * 201: {}, "b": {}}}}}, "fields of forms"),
    ],
)  # fmt: skip
def test_what_a_tool_does_not_show_of_a_body_is_named_SYN_1(content: Any, word: str) -> None:
    found = parsed({"/x": {"post": {"summary": "X", "requestBody": {"content": content}, "responses": OK}}})
    assert told(found, "Not carried over", word, "/x@post")


def test_a_field_of_a_forms_choice_is_an_input_that_may_be_missing_SYN_1() -> None:
    schema = {**OBJECT, "anyOf": [{"required": ["b"], "properties": {"b": {"type": "integer"}}}, {"properties": {"c": {}}}]}  # fmt: skip
    found = operation({"requestBody": {"content": {FORM: {"schema": schema}}}}, method="post")
    assert places(found) == [("a", "form", False), ("b", "form", False), ("c", "form", False)]


def test_a_field_that_no_operation_has_and_a_parameter_without_a_place_are_named_SYN_1() -> None:
    lost = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    found = parsed({"/x": {"get": {"summary": "X", "paramaters": [], "responses": OK, "parameters": [lost]}}})
    assert told(found, "Not carried over", "'paramaters' of operations", "/x@get")
    assert told(found, "/x@get", "'id' has no place in the path")


def test_a_form_that_is_a_choice_as_a_whole_shows_it_SYN_1() -> None:
    schema = {"oneOf": [OBJECT, {"type": "object", "properties": {"b": {"type": "integer"}}}]}
    found = operation({"requestBody": {"content": {FORM: {"schema": schema}}}}, method="post")
    assert found.input_schema["properties"]["body"] == schema


def test_a_document_that_says_both_versions_is_read_by_the_newer_ones_word_SYN_1() -> None:
    found = parsed({"/x": {"get": {"summary": "X", "responses": OK}}}, swagger="2.0")
    assert found.format_version == "3.0.3"
    assert told(found, "'openapi' and 'swagger'", "read as 'openapi' says")


CARRIED = {
    *SCHEMA_KEYS, *LIST_KEYS, *MAP_KEYS, *VALUES, "$ref", "xml", "externalDocs", "example", "nullable", "$schema", "$id", "id", "$anchor",
    "$comment", "$defs", "definitions",
}  # fmt: skip


def keywords(tree: Any, node: Any, seen: set[str]) -> set[str]:
    """All keywords of a schema and of what it refers to."""
    if not isinstance(node, dict):
        return set()
    ref = node.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/"):
        if ref in seen:
            return set()
        seen.add(ref)
        target = tree
        for step in ref[2:].split("/"):
            target = target[step.replace("~1", "/").replace("~0", "~")]
        return keywords(tree, target, seen)
    found = {key for key in node if node[key] not in (None, False, "", [], {})}
    for key in SCHEMA_KEYS & node.keys():
        found |= keywords(tree, node[key], seen)
    for key in (LIST_KEYS | {"items"}) & node.keys():
        for one in node[key] if isinstance(node[key], list) else ():
            found |= keywords(tree, one, seen)
    for key in MAP_KEYS & node.keys():
        for one in node[key].values():
            found |= keywords(tree, one, seen)
    return found


@needs_inputs
@pytest.mark.parametrize(
    "name", sorted(path.name for path in OPENAPI.glob("*.*") if path.stat().st_size < 1_500_000)
)
def test_every_keyword_of_a_real_document_is_carried_over_or_named_SYN_1(name: str) -> None:
    raw = (OPENAPI / name).read_bytes()
    tree: Any = load_document(raw).value
    told_of = " ".join(parse_openapi(raw, name=name).warnings)
    found: set[str] = set()
    seen: set[str] = set()
    for item in (tree.get("paths") or {}).values():
        for one in item.values() if isinstance(item, dict) else ():
            body = one.get("requestBody") if isinstance(one, dict) else None
            for media in (body or {}).get("content", {}).values():
                found |= keywords(tree, media.get("schema"), seen)
    lost = {key for key in found - CARRIED if not key.startswith("x-")}
    # What lies deeper than a tool has room for is not even read; the operation is told to be shortened then.
    assert {
        key for key in lost if f"'{key}' of schemas" not in told_of and "shortened" not in told_of
    } == set()


def test_nothing_is_told_of_a_document_that_is_carried_over_whole_SYN_1() -> None:
    assert not case("55", "crates.yaml").warnings
    assert by_name(case("55", "crates.yaml"))


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("2.0", {"schema": OBJECT, "examples": {JSON: {"a": "x"}}}),
        ("3.0.3", {"content": {JSON: {"schema": OBJECT, "example": {"a": "x"}}}}),
        ("3.1.0", {"content": {JSON: {"schema": OBJECT, "examples": {"one": {"value": {"a": "x"}}}}}}),
    ],
)
def test_examples_of_answers_are_named_since_a_tool_does_not_show_them_SYN_1(
    version: str, answer: Any
) -> None:
    responses = {"200": {"description": "ok", **answer}}
    found = parsed({"/x": {"get": {"summary": "X", "responses": responses}}}, version=version)
    assert "Not carried over: examples of answers: 1 (/x@get)." in found.warnings
    responses["200"] = {"description": "ok"}
    assert not parsed({"/x": {"get": {"summary": "X", "responses": responses}}}, version=version).warnings


def test_a_discriminator_of_an_answer_is_named_SYN_1() -> None:
    schema = {
        "oneOf": [OBJECT, {"type": "string"}],
        "discriminator": {"propertyName": "a", "mapping": {"x": "#/x"}},
    }
    responses = {"200": {"description": "ok", "content": {JSON: {"schema": schema}}}}
    found = parsed({"/x": {"get": {"summary": "X", "responses": responses}}})
    assert told(found, "Not carried over", "'discriminator'", "/x@get")
