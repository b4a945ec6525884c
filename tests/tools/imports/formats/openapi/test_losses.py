"""What of an operation is not carried into its tool is named in a warning (SYN-1, cases 56, 57, 66, 70)."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.support.imports.limits import LIMITS
from tests.support.imports.parsing import OK, by_name, case, operation, parsed, places

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
        ({FORM: {"schema": {**OBJECT, "additionalProperties": False}}}, "'additionalProperties' of forms"),
        ({FORM: {"schema": OBJECT, "example": {"a": "x"}}}, "examples of forms"),
        ({FORM: {"schema": {**OBJECT, "required": ["b"]}}}, "required fields of forms that have no schema"),
        ({FORM: {"schema": OBJECT, "encoding": {"a": {"headers": {"X": {}}}}}}, "'headers' of fields of forms"),
        ({FORM: {"schema": OBJECT, "encoding": {"b": {"style": "form"}}}}, "'encoding' of what is no field"),
        ({FORM: {"schema": {"oneOf": [OBJECT]}, "encoding": {"a": {"style": "form"}}}}, "'encoding' of bodies that are one value"),
        ({JSON: {"schema": OBJECT, "encoding": {"a": {"style": "form"}}}}, "'encoding' of bodies that are one value"),
        ({JSON: {"schema": OBJECT}, **{f"a/{n}": {"schema": OBJECT} for n in range(50)}}, "media types of bodies beyond the first 50"),
        ({JSON: {"schema": OBJECT}, "a/" + "b" * 200: {"schema": OBJECT}}, "media types longer than 200 characters"),
        ({JSON: {"schema": OBJECT}, "text/plain": {"schema": OBJECT, "example": "x"}}, "examples of further media types"),
        ({JSON: {"schema": OBJECT, "itemSchema": OBJECT}}, "'itemSchema' of media types"),
        ({JSON: {"schema": {"type": "string", "title": "d" * 2_001}}}, "'title beyond its bounds'"),
        ({JSON: {"schema": {"type": "string", "example": "x" * 600}}}, "'example'"),
        ({JSON: {"schema": {"type": ["string", "odd"]}}}, "'type'"),
        ({JSON: {"schema": {**OBJECT, "xml": {"name": "a"}}}}, "'xml'"),
        ({JSON: {"schema": {**OBJECT, "externalDocs": {"url": "a"}}}}, "'externalDocs'"),
        ({JSON: {"schema": {"$ref": "#/paths", "default": 1}}}, "'default' beside a $ref"),
        ({JSON: {"schema": OBJECT, "examples": {"x": {"summary": "An x", "value": 1}}}}, "'summary' of examples"),
        ({JSON: {"schema": OBJECT, "examples": [1]}}, "examples that are not named"),
    ],
)  # fmt: skip
def test_what_a_tool_does_not_show_of_a_body_is_named_SYN_1(content: Any, word: str) -> None:
    found = parsed({"/x": {"post": {"summary": "X", "requestBody": {"content": content}, "responses": OK}}})
    assert told(found, "Not carried over", word, "/x@post")


@pytest.mark.parametrize(
    ("parameter", "word"),
    [
        ({"schema": OBJECT, "format": "date"}, "'format' of parameters"),
        ({"schema": OBJECT, "content": {JSON: {"schema": OBJECT}}}, "'content' of parameters"),
        (
            {"content": {JSON: {"schema": OBJECT, "encoding": {"a": {"style": "form"}}}}},
            "'encoding' of parameters",
        ),
        ({"content": {JSON: {"schema": OBJECT}, "text/plain": {}}}, "further media types of parameters"),
        (
            {"schema": OBJECT, "example": {"a": "x"}, "examples": {n: {"value": n} for n in "bcd"}},
            "examples of inputs",
        ),
        ({"schema": {"description": "Of all."}, "description": "Of this."}, "descriptions of schemas beside"),
    ],
)
def test_what_a_tool_does_not_show_of_a_parameter_is_named_SYN_1(parameter: Any, word: str) -> None:
    listed = [{"name": "p", "in": "query", **parameter}]
    found = parsed({"/x": {"get": {"summary": "X", "parameters": listed, "responses": OK}}})
    assert told(found, "Not carried over", word, "/x@get")


def test_examples_of_a_parameters_content_and_its_empty_value_are_shown_SYN_1() -> None:
    content = {JSON: {"schema": {"type": "string"}, "example": "a"}}
    listed = [{"name": "p", "in": "query", "content": content, "allowEmptyValue": True}]
    found = operation({"parameters": listed})
    assert found.input_schema["properties"]["p"]["examples"] == ["a"]
    assert found.metadata["parameters"][0]["allowEmptyValue"] is True


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"callbacks": {"a": {"/b": {}}}}, "'callbacks' of operations: 1 (/x@get)"),
        ({"externalDocs": {"url": "a"}}, "'externalDocs' of operations: 1 (/x@get)"),
        (
            {"tags": [f"t{number}" for number in range(51)]},
            "tags beyond 50, or longer than 200 characters: 1 (/x@get)",
        ),
        ({"tags": ["t" * 201]}, "tags beyond 50, or longer than 200 characters: 1 (/x@get)"),
    ],
)
def test_what_a_tool_does_not_show_of_an_operation_is_named_SYN_1(fields: Any, word: str) -> None:
    found = parsed({"/x": {"get": {"summary": "X", "responses": OK, **fields}}})
    assert found.warnings == (f"Not carried over: {word}.",)


def test_what_a_tool_does_not_show_of_a_path_is_named_SYN_1() -> None:
    item = {"description": "Of the path.", "paramaters": [1], "get": {"description": "X", "responses": OK}}
    assert parsed({"/x": item}).warnings == (
        "Not carried over: 'paramaters' of paths: 1 (/x).",
        "Not carried over: texts of paths beside those of their operations: 1 (/x).",
    )


def test_a_tool_that_may_go_without_its_form_demands_no_field_of_it_SYN_1() -> None:
    media = {FORM: {"schema": {**OBJECT, "required": ["a"]}}}
    found = operation({"requestBody": {"content": media}}, method="post")
    assert "required" not in found.input_schema
    assert places(found) == [("a", "form", True)]
    found = operation({"requestBody": {"content": media, "required": True}}, method="post")
    assert found.input_schema["required"] == ["a"]


def test_a_field_of_one_choice_forbids_nothing_that_another_allows_SYN_1() -> None:
    choices = [{"properties": {"b": {"type": "integer"}}}, {"properties": {"b": {"type": "string"}}}]
    body = {"content": {FORM: {"schema": {**OBJECT, "oneOf": choices}}}}
    found = parsed({"/x": {"post": {"summary": "X", "requestBody": body, "responses": OK}}})
    jsonschema.validate({"a": "a", "b": "text"}, found.endpoints[0].input_schema)
    assert told(found, "further schemas of one field of a form")


def test_alternatives_that_a_discriminator_tells_apart_may_both_hold_SYN_1() -> None:
    kinds = {"oneOf": [OBJECT, {**OBJECT, "title": "B"}], "discriminator": {"propertyName": "a"}}
    found = operation({"requestBody": {"content": {JSON: {"schema": kinds}}}}, method="post")
    jsonschema.validate({"body": {"a": "x"}}, found.input_schema)


LAXER = {"oneOf": [OBJECT, {**OBJECT, "title": "B"}], "discriminator": {"propertyName": "a"}}
"""No object with a text `a`, as the document's `oneOf` says; the tool allows it, since the discriminator is not carried over."""
EITHER = {"oneOf": [{"properties": {"x": LAXER}}, {"properties": {"x": OBJECT}}]}


@pytest.mark.parametrize(
    ("schema", "schemas"),
    [
        (EITHER, {}),
        ({"not": {"properties": {"x": LAXER}, "required": ["x"]}}, {}),
        ({"$ref": "#/components/schemas/E"}, {"E": EITHER}),
        ({"oneOf": [{"$ref": "#/components/schemas/A"}, {"properties": {"x": OBJECT}}]}, {"A": {"properties": {"x": LAXER}}}),
        ({"oneOf": [{"$ref": "#/components/schemas/A"}, {"properties": {"x": OBJECT}}]}, {"A": {"properties": {"x": {"$ref": "#/components/schemas/B"}}}, "B": LAXER}),
        ({"contains": {"properties": {"x": LAXER}, "required": ["x"]}, "minContains": 0, "maxContains": 0}, {}),
    ],
)  # fmt: skip
def test_a_part_that_allows_more_makes_no_choice_around_it_stricter_SYN_1(
    schema: Any, schemas: dict[str, Any]
) -> None:
    body = {"content": {JSON: {"schema": schema}}}
    found = parsed(
        {"/x": {"post": {"summary": "X", "requestBody": body, "responses": OK}}},
        version="3.1.0",
        components={"schemas": schemas},
    )
    value: Any = {"x": {"a": "text"}}
    jsonschema.validate({"body": [value] if "contains" in schema else value}, found.endpoints[0].input_schema)
    assert told(found, "oneOf, not and if are loosened", "/x@post")


@pytest.mark.parametrize("elsewhere", [{"$ref": "#/none"}, LAXER, {"type": "string", "nullable": True}])
def test_a_part_that_allows_more_leaves_the_choices_beside_it_as_they_are_SYN_1(elsewhere: Any) -> None:
    choice = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
    schema = {"properties": {"choice": choice, "elsewhere": elsewhere}}
    body = {"content": {JSON: {"schema": schema}}}
    found = parsed({"/x": {"post": {"summary": "X", "requestBody": body, "responses": OK}}}, version="3.1.0")
    assert found.endpoints[0].input_schema["properties"]["body"]["properties"]["choice"] == choice
    assert not told(found, "oneOf, not and if are loosened")


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"$ref": "other.yaml#/A"}, {"type": "string"}]},
        {"not": {"properties": {"a": {"$ref": "#/none"}}, "type": "string"}},
        {"oneOf": [{"type": "string", "nullable": True}, {"type": "null"}]},
    ],
)
def test_what_allows_more_than_in_the_document_makes_no_choice_stricter_SYN_1(schema: Any) -> None:
    body = {"content": {JSON: {"schema": schema}}}
    found = parsed({"/x": {"post": {"summary": "X", "requestBody": body, "responses": OK}}}, version="3.1.0")
    for value in ("text", None):
        jsonschema.validate({"body": value}, found.endpoints[0].input_schema)
    assert told(found, "oneOf, not and if are loosened", "/x@post")


def test_a_field_of_a_forms_choice_is_an_input_that_may_be_missing_SYN_1() -> None:
    schema = {**OBJECT, "anyOf": [{"required": ["b"], "properties": {"b": {"type": "integer"}}}, {"properties": {"c": {}}}]}  # fmt: skip
    found = operation({"requestBody": {"content": {FORM: {"schema": schema}}}}, method="post")
    assert places(found) == [("a", "form", False), ("b", "form", False), ("c", "form", False)]


def test_a_field_that_no_operation_has_and_a_parameter_without_a_place_are_named_SYN_1() -> None:
    lost = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    found = parsed(
        {"/x": {"get": {"summary": "X", "paramaters": [lost], "responses": OK, "parameters": [lost]}}}
    )
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


@pytest.mark.parametrize(
    ("responses", "words"),
    [
        ({"201": {"content": {JSON: {"schema": {"type": "string"}}}}}, ["the schemas of further answers"]),
        ({"400": {"content": {JSON: {"schema": {"type": "string"}}}}}, ["the schemas of further answers"]),
        ({"200": {"content": {JSON: {"schema": OBJECT}, "text/csv": {"schema": {"type": "string"}}}}}, ["the schemas of further answers"]),
        ({"201": {"content": {JSON: {"schema": OBJECT}}}, "204": {}}, []),
        ({"200": {"content": {JSON: {"schema": OBJECT}}, "headers": {"X": {}}, "links": {"a": {}}}}, ["'headers' of answers", "'links' of answers"]),
    ],
)  # fmt: skip
def test_what_a_tool_does_not_show_of_the_answers_is_named_SYN_1(responses: Any, words: list[str]) -> None:
    shown = {"200": {"description": "ok", "content": {JSON: {"schema": OBJECT}}}, **responses}
    found = parsed({"/x": {"get": {"summary": "X", "responses": shown}}})
    assert found.endpoints[0].output_schema == OBJECT
    assert list(found.warnings) == [f"Not carried over: {word}: 1 (/x@get)." for word in words]


def test_a_discriminator_of_an_answer_is_named_SYN_1() -> None:
    schema = {
        "oneOf": [OBJECT, {"type": "string"}],
        "discriminator": {"propertyName": "a", "mapping": {"x": "#/x"}},
    }
    responses = {"200": {"description": "ok", "content": {JSON: {"schema": schema}}}}
    found = parsed({"/x": {"get": {"summary": "X", "responses": responses}}})
    assert told(found, "Not carried over", "'discriminator'", "/x@get")
