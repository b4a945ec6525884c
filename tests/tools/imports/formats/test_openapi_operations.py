"""What becomes of each part of an operation: methods, texts, inputs, answers, metadata (SYN-1, CAT-2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.imports.parsing import OK, operation, parse_openapi, parsed, places
from tools.imports.formats.openapi.inputs import MAX_MORE_PARAMETERS, USUAL_PARAMETERS
from tools.imports.formats.references import MAX_WARNINGS
from tools.imports.formats.specs import DocumentRefused


def left_out(paths: Any, **fields: Any) -> dict[str, str]:
    found = parsed(paths, **fields)
    assert found.operations == len(found.endpoints) + len(found.left_out)
    return {each.operation: each.reason for each in found.left_out}


# --- documents ---


@pytest.mark.parametrize("version", ["2.0", "3.0.0", "3.0", "3.1.1", "3.1.0-rc1", "3.2.0"])
def test_known_versions_are_read_SYN_1(version: str) -> None:
    found = parsed({"/x": {"get": {"responses": OK}}}, version=version)
    assert (found.format_version, found.operations) == (version, 1)
    assert any("3.2 is read as 3.1" in warning for warning in found.warnings) == version.startswith("3.2")


@pytest.mark.parametrize("version", ["4.0.0", "3", "3.10.0", "1.2", "2.1", ""])
def test_unknown_versions_are_refused_with_the_field_named_SYN_1(version: str) -> None:
    with pytest.raises(DocumentRefused, match="its 'openapi' is"):
        parsed({}, version=version)


def test_a_document_without_paths_and_webhooks_is_refused_and_with_webhooks_is_empty_SYN_1() -> None:
    with pytest.raises(DocumentRefused, match="neither 'paths' nor 'webhooks'"):
        parsed_without_paths(components={})
    found = parsed_without_paths(webhooks={"a": {"post": {}}})
    assert (found.operations, len(found.warnings)) == (0, 2)
    with pytest.raises(DocumentRefused, match="'paths' is not a mapping"):
        parsed(["/x"])


def parsed_without_paths(**fields: Any) -> Any:
    return parse_openapi(json.dumps({"openapi": "3.1.0", **fields}).encode())


# --- which operations there are ---


def test_every_method_of_a_version_is_an_endpoint_and_no_other_SYN_1() -> None:
    methods = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
    item = {method: {"responses": OK} for method in methods}
    assert left_out({"/x": item}, version="2.0").keys() == {"/x@trace", "/x@query"}
    assert left_out({"/x": item}, version="3.1.0").keys() == {"/x@query"}
    assert left_out({"/x": item}, version="3.2.0") == {}


def test_extra_methods_of_3_2_are_endpoints_SYN_1() -> None:
    item = {
        "get": {},
        "additionalOperations": {"COPY": {"summary": "Copy"}, "GET": {}, "copy": {}, "A B": {}},
    }
    found = parsed({"/x": item}, version="3.2.0")
    assert [endpoint.key for endpoint in found.endpoints] == ["/x@get", "/x@copy"]
    assert [each.operation for each in found.left_out] == ["/x@GET", "/x@copy", "/x@A B"]
    assert len(left_out({"/x": item}, version="3.1.0")) == 4


def test_odd_paths_and_operations_are_left_out_with_a_reason_SYN_1() -> None:
    paths: dict[str, Any] = {
        "/null": None,
        "/list": [],
        "/empty": {"get": None},
        "/text": {"get": "yes"},
        "/capital": {"GET": {"responses": OK}},
        "/made-up": {"fetch": {"responses": OK}},
        "/nowhere": {"$ref": "#/components/pathItems/Missing"},
        "/circle": {"$ref": "#/paths/~1circle"},
        "/outside": {"$ref": "other.yaml", "get": {"responses": OK}},
        "/" + "x" * 3_000: {"get": {"responses": OK}},
        "/nothing": {},
        "/shared": {"parameters": [], "servers": [], "summary": "S", "x-get": {"responses": OK}},
        "x-paths": {"/y": {"get": {}}},
    }
    found = left_out(paths)
    assert list(found)[:9] == [
        "/null",
        "/list",
        "/empty@get",
        "/text@get",
        "/capital@GET",
        "/made-up@fetch",
        "/nowhere",
        "/circle",
        "/outside",
    ]
    assert found["/null"] == "the path is empty"
    assert "written 'GET', not 'get'" in found["/capital@GET"]
    assert "knows no method 'fetch'" in found["/made-up@fetch"]
    assert "leads to nothing" in found["/nowhere"]
    assert "leads in a circle" in found["/circle"]
    assert "leads outside the document" in found["/outside"]
    assert [endpoint.key for endpoint in parsed(paths).endpoints] == ["/outside@get"]


def test_a_path_item_behind_a_reference_is_read_and_what_stands_beside_wins_SYN_1() -> None:
    shared = {
        "get": {"summary": "Far"},
        "post": {"summary": "Post"},
        "parameters": [{"name": "a", "in": "query"}],
    }
    paths = {
        "/a": {"$ref": "#/components/pathItems/A", "get": {"summary": "Near"}},
        "/b": {"$ref": "#/paths/~1a"},
    }
    found = parsed(paths, version="3.1.0", components={"pathItems": {"A": shared}})
    assert {endpoint.key: endpoint.title for endpoint in found.endpoints} == {
        "/a@get": "Near",
        "/a@post": "Post",
        "/b@get": "Near",
        "/b@post": "Post",
    }
    assert all(places(endpoint) == [("a", "query", False)] for endpoint in found.endpoints)


# --- texts, tags, metadata ---


@pytest.mark.parametrize(
    ("summary", "description", "expected"),
    [
        ("List pets", "All of them.", "List pets\n\nAll of them."),
        ("List pets.", "List pets. All of them.", "List pets. All of them."),
        ("List pets", "list PETS.", "list PETS."),
        ("List pets of one owner", "List pets", "List pets of one owner"),
        ("", "<p>Bold <b>words</b> &amp; <code>&lt;x&gt;</code></p>", "Bold words & `<x>`"),
        ("Only a summary", None, "Only a summary"),
        (None, "  ", ""),
        (2024, True, "2024\n\ntrue"),
    ],
)
def test_description_is_made_of_summary_and_description_CAT_2(
    summary: Any, description: Any, expected: str
) -> None:
    assert operation({"summary": summary, "description": description}).description == expected


def test_an_operation_without_words_gets_none_invented_and_is_counted_SYN_1() -> None:
    found = parsed({"/x": {"get": {}}, "/y": {"get": {"summary": "Y"}}})
    assert (found.endpoints[0].description, found.endpoints[0].title) == ("", "")
    assert found.warnings == ("Operations without summary and description: 1 (/x@get).",)


def test_tags_are_texts_each_once_CAT_2() -> None:
    assert operation({"tags": [2024, "a", "a", None, {}, " b \n c "]}).tags == ("2024", "a", "b c")
    assert operation({"tags": "one"}).tags == ("one",)
    assert operation({"tags": 7}).tags == ()


def test_metadata_says_how_to_call_the_operation_CAT_2() -> None:
    servers = [
        {"url": "https://{region}.example.org/{v}", "variables": {"region": {"default": "eu"}}},
        "odd",
        {},
    ]
    endpoint = operation(
        {"operationId": "get x!", "security": [{"b": [], "a": []}, {}], "x-semantic-keywords": "lamp, light"},
        servers=servers,
        security=[{"z": []}],
    )
    assert endpoint.metadata == {
        "parameters": [],
        "body": None,
        "operation_id": "get x!",
        "servers": ["https://eu.example.org/{v}"],
        "security": [["a", "b"], []],
        "routing": {"semanticKeywords": ["lamp", "light"]},
    }
    other = operation(
        {"servers": [{"url": "/v2"}], "x-routing": {"semanticKeywords": ["a"]}}, servers=servers
    )
    assert (other.metadata["servers"], other.metadata["routing"]) == (["/v2"], {"semanticKeywords": ["a"]})


def test_the_content_hash_sees_every_field_and_no_order_of_keys_CAT_2() -> None:
    first = operation(
        {"summary": "A", "parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}]}
    )
    again = operation(
        {"parameters": [{"schema": {"type": "string"}, "in": "query", "name": "q"}], "summary": "A"}
    )
    assert first.content_hash() == again.content_hash()
    changes: tuple[dict[str, Any], ...] = (
        {"summary": "B"},
        {"deprecated": True},
        {"tags": ["t"]},
        {"operationId": "o"},
        {"parameters": []},
    )
    for change in changes:
        assert operation({"summary": "A", **change}).content_hash() != first.content_hash()


# --- inputs ---


def test_odd_parameters_are_left_out_with_a_warning_and_the_operation_stays_SYN_1() -> None:
    odd = [
        None,
        7,
        {},
        {"name": "a"},
        {"name": "a", "in": "nowhere"},
        {"name": "b" * 300, "in": "query"},
        {"in": "query"},
    ]
    found = parsed({"/x": {"get": {"summary": "X", "parameters": [*odd, {"name": "ok", "in": "query"}]}}})
    assert places(found.endpoints[0]) == [("ok", "query", False)]
    assert len(found.warnings) >= 4
    assert parsed({"/x": {"get": {"summary": "X", "parameters": {"a": 1}}}}).warnings == (
        "/x@get: 'parameters' is not a list; it is left out.",
    )


def test_many_operations_with_many_parameters_each_are_read_SYN_1() -> None:
    """NetBox has eleven for each operation; a large API must not come near a limit on their number in all."""
    parameters = [{"name": f"p{number}", "in": "query"} for number in range(USUAL_PARAMETERS)]
    count = MAX_MORE_PARAMETERS // USUAL_PARAMETERS + 1
    paths = {f"/p{number}": {"get": {"summary": "X", "parameters": parameters}} for number in range(count)}
    found = parsed(paths)
    assert len(found.endpoints) == count
    assert len(found.endpoints[-1].metadata["parameters"]) == USUAL_PARAMETERS


def test_a_variable_of_the_path_without_a_parameter_becomes_one_SYN_1() -> None:
    found = parsed({"/a/{id}": {"get": {"summary": "A"}}})
    assert places(found.endpoints[0]) == [("id", "path", True)]
    assert found.warnings == (
        "/a/{id}@get: the path's {id} is not among the parameters; it is taken as text.",
    )


def test_parameters_keep_style_content_and_examples_CAT_2() -> None:
    parameters = [
        {
            "name": "ids",
            "in": "query",
            "style": "form",
            "explode": False,
            "schema": {"type": "array"},
            "example": [1],
        },
        {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
        {"name": "Accept", "in": "header", "schema": {"type": "string"}},
        {
            "name": "s",
            "in": "cookie",
            "deprecated": True,
            "description": "<b>Old</b>",
            "examples": {"e": {"value": "v"}},
        },
    ]
    endpoint = operation({"parameters": parameters})
    assert endpoint.metadata["parameters"] == [
        {
            "name": "ids",
            "in": "query",
            "property": "ids",
            "required": False,
            "style": "form",
            "explode": False,
        },
        {
            "name": "filter",
            "in": "query",
            "property": "filter",
            "required": False,
            "contentType": "application/json",
        },
        {"name": "s", "in": "cookie", "property": "s", "required": False},
    ]
    assert endpoint.input_schema["properties"] == {
        "ids": {"type": "array", "items": {}, "examples": [[1]]},
        "filter": {"type": "object"},
        "s": {"description": "Old", "deprecated": True, "examples": ["v"]},
    }


def test_one_name_in_path_query_and_body_gives_three_properties_SYN_1() -> None:
    endpoint = operation(
        {
            "parameters": [
                {"name": "id", "in": "query"},
                {"name": "id", "in": "path"},
                {"name": "filter[name]", "in": "query"},
                {"name": "filter_name", "in": "query"},
                {"name": "body", "in": "query"},
            ],
            "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
        },
        path="/{id}",
        method="post",
    )
    assert [(each["in"], each["name"], each["property"]) for each in endpoint.metadata["parameters"]] == [
        ("path", "id", "id"),
        ("query", "id", "id_query"),
        ("query", "filter[name]", "filter_name_query"),
        ("query", "filter_name", "filter_name"),
        ("query", "body", "body"),
    ]
    assert endpoint.metadata["body"]["property"] == "body_body"


def test_json_is_chosen_before_forms_and_forms_before_others_CAT_2() -> None:
    content: dict[str, Any] = {
        "application/xml": {},
        "multipart/form-data": {"schema": {"properties": {"f": {}}}},
        "application/json": {},
    }
    endpoint = operation({"requestBody": {"content": content}}, method="post")
    assert endpoint.metadata["body"]["media_type"] == "application/json"
    assert endpoint.metadata["body"]["media_types"] == list(content)


def test_fields_of_a_form_are_gathered_through_references_and_all_of_SYN_1() -> None:
    schemas = {
        "Base": {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        "Form": {
            "allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"b": {"type": "integer"}}}]
        },
        "Free": {"type": "object", "additionalProperties": {"type": "string"}},
        "Loop": {"allOf": [{"$ref": "#/components/schemas/Loop"}]},
    }

    def form(name: str) -> Any:
        media = {"schema": {"$ref": f"#/components/schemas/{name}"}, "encoding": {"b": {"explode": True}}}
        body = {"content": {"application/x-www-form-urlencoded": media}}
        return operation({"requestBody": body}, method="post", components={"schemas": schemas})

    assert places(form("Form")) == [("a", "form", True), ("b", "form", False)]
    assert form("Form").metadata["parameters"][1]["explode"] is True
    assert form("Free").metadata["body"]["property"] == "body"
    assert form("Loop").metadata["body"]["property"] == "body"


def test_a_body_behind_a_reference_without_content_or_outside_is_kept_as_far_as_possible_SYN_1() -> None:
    found = parsed({"/x": {"post": {"summary": "X", "requestBody": {"$ref": "http://example.org/b"}}}})
    assert found.endpoints[0].metadata["body"] is None
    assert "leads outside the document" in found.warnings[0]
    empty = parsed({"/x": {"post": {"summary": "X", "requestBody": {"description": "Things"}}}})
    assert empty.endpoints[0].input_schema["properties"] == {"body": {"description": "Things"}}
    assert "no media type" in empty.warnings[0]


def test_swagger_bodies_follow_consumes_CAT_2() -> None:
    body = {"name": "pet", "in": "body", "description": "A pet", "schema": {"type": "object"}}
    endpoint = operation(
        {"parameters": [body], "consumes": ["application/xml"]}, method="post", version="2.0"
    )
    assert endpoint.metadata["body"]["media_type"] == "application/xml"
    assert endpoint.input_schema["properties"] == {"body": {"type": "object", "description": "A pet"}}
    field = {"name": "f", "in": "formData", "type": "string", "required": True}
    form = operation({"parameters": [field]}, method="post", version="2.0", consumes=["application/json"])
    assert form.metadata["body"]["media_type"] == "application/x-www-form-urlencoded"
    assert form.input_schema == {"type": "object", "properties": {"f": {"type": "string"}}, "required": ["f"]}


# --- answers ---


def test_the_first_successful_json_answer_is_the_output_CAT_2() -> None:
    def answer(kind: str) -> dict[str, Any]:
        return {"content": {"text/html": {}, "application/vnd.x+json": {"schema": {"type": kind}}}}

    responses = {
        "default": answer("null"),
        "404": answer("string"),
        "201": answer("object"),
        "2XX": answer("array"),
    }
    assert operation({"responses": responses}).output_schema == {"type": "object"}
    assert operation({"responses": {"200": {"content": {"text/csv": {}}}, "204": {}}}).output_schema is None
    assert operation({"responses": {"200": {"schema": {"type": "object"}}}}, version="2.0").output_schema == {
        "type": "object"
    }
    assert operation({"responses": ["odd"]}).output_schema is None


# --- warnings ---


def test_warnings_are_bounded_and_the_rest_is_counted_SYN_1() -> None:
    found = parsed({f"/{number}/{{id}}": {"get": {"summary": "X"}} for number in range(500)})
    assert len(found.warnings) == MAX_WARNINGS + 1
    assert found.warnings[-1] == "… and 300 more."
