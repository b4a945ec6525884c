"""SYN-2: lists of MCP tools, in every form in which people have them (cases 21, 31, 53)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.support.imports.parsing import INPUTS, parse_mcp_tools, shared
from tools.imports.formats.openapi.operations import MAX_INPUT_BYTES
from tools.imports.formats.schema_values import json_size
from tools.imports.formats.specs import DocumentRefused, ParsedDocument

NOTHING = {"type": "object", "properties": {}}
LISTS = sorted(path.name for path in INPUTS.glob("mcp/*.json"))


def read(*tools: Any, **fields: Any) -> ParsedDocument:
    return parse_mcp_tools(json.dumps({"tools": tools, **fields}).encode())


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": NOTHING, **fields}


@pytest.mark.parametrize("name", LISTS)
def test_every_list_of_a_real_server_is_read_whole_SYN_2(name: str) -> None:
    raw = shared(f"mcp/{name}")
    found = parse_mcp_tools(raw, name=name)
    expected = [one for page in json.loads(raw)["pages"] for one in page["tools"]]
    assert [endpoint.name for endpoint in found.endpoints] == [one["name"] for one in expected]
    assert found.complete
    assert found.left_out == ()
    for endpoint, one in zip(found.endpoints, expected, strict=True):
        assert endpoint.key == f"{one['name']}@call"
        assert endpoint.input_schema.items() >= one["inputSchema"].items()
        assert endpoint.output_schema == one.get("outputSchema")


def test_pages_are_one_list_and_an_empty_cursor_ends_it_SYN_2() -> None:
    pages = [{"tools": [tool("a")], "nextCursor": "2"}, {"tools": [tool("b")], "nextCursor": ""}]
    found = parse_mcp_tools(json.dumps({"pages": pages, "serverInfo": {"name": "s", "version": ""}}).encode())
    assert [endpoint.name for endpoint in found.endpoints] == ["a", "b"]
    assert (found.title, found.complete) == ("s", True)


def test_case_53_every_form_of_an_answer_is_the_same_list_SYN_2() -> None:
    forms = [parse_mcp_tools(shared(f"cases/53-pasted-tools-list/{name}"))
             for name in ("rpc.json", "result.json", "bare.json", "sse.txt")]  # fmt: skip
    assert [endpoint.key for endpoint in forms[0].endpoints] == ["lamp_on@call", "lamp_off@call"]
    for form in forms[1:]:
        assert form.endpoints == forms[0].endpoints


def test_case_53_a_list_that_goes_on_is_taken_with_a_warning_and_is_not_complete_SYN_2() -> None:
    found = parse_mcp_tools(shared("cases/53-pasted-tools-list/cut.json"))
    assert (len(found.endpoints), found.complete) == (1, False)
    assert found.warnings[0].startswith("The list goes on")


def test_case_53_an_error_is_refused_with_its_own_words_SYN_2() -> None:
    with pytest.raises(DocumentRefused, match=r"an error of the server: Method not found \(-32601\)"):
        parse_mcp_tools(shared("cases/53-pasted-tools-list/error.json"))


def test_case_31_of_two_tools_with_one_name_the_first_is_kept_SYN_2() -> None:
    found = read(
        tool("search", title="Wiki"), tool("search", title="Shop"), tool("item-get"), tool("item_get")
    )
    assert [(endpoint.name, endpoint.title) for endpoint in found.endpoints] == [
        ("search", "Wiki"),
        ("item-get", ""),
        ("item_get", ""),
    ]
    assert [entry.operation for entry in found.left_out] == ["search"]
    assert found.operations == 4


def test_an_odd_tool_never_hides_the_others_SYN_2() -> None:
    found = read(
        {"name": "no_schema"},
        {"name": "odd_schema", "inputSchema": []},
        {"name": "odd_text", "description": 7, "inputSchema": NOTHING},
        {"name": ""},
        {"description": "nameless"},
        "text",
        tool("x" * 201),
        tool("half \ud83d of a pair"),
        tool("good"),
    )
    assert [endpoint.name for endpoint in found.endpoints] == [
        "no_schema", "odd_schema", "odd_text", "half  of a pair", "good",
    ]  # fmt: skip
    assert [endpoint.input_schema for endpoint in found.endpoints[:2]] == [NOTHING, NOTHING]
    assert [entry.reason.split(";")[0] for entry in found.left_out] == [
        "it has no name that can be seen", "it has no name that can be seen", "it is not a mapping", "its name has 201 characters",
    ]  # fmt: skip
    assert found.operations == len(found.endpoints) + len(found.left_out)
    assert "no_schema: it has no inputSchema, so it is taken to have no parameters." in found.warnings


def test_hints_title_and_tags_are_kept_SYN_2() -> None:
    (found,) = read(
        tool("a", annotations={"title": "An A", "readOnlyHint": True}, _meta={"_fastmcp": {"tags": ["x"]}})
    ).endpoints
    assert (found.title, found.tags) == ("An A", ("x",))
    assert found.metadata["annotations"] == {"title": "An A", "readOnlyHint": True}
    assert found.metadata["meta"] == {"_fastmcp": {"tags": ["x"]}}


def test_a_schema_that_is_too_large_is_shortened_and_still_says_its_parameters_SYN_2() -> None:
    properties = {f"p{n}": {"type": "string", "description": "word " * 200} for n in range(100)}
    found = read(tool("big", inputSchema={"type": "object", "properties": properties, "required": ["p1"]}))
    schema = found.endpoints[0].input_schema
    assert json_size(schema) <= MAX_INPUT_BYTES
    assert schema["properties"].keys() == properties.keys()
    assert any("too large" in warning for warning in found.warnings)


def test_a_server_without_tools_is_no_error_SYN_2() -> None:
    found = read()
    assert (found.operations, found.warnings) == (0, ("The server has no tools.",))


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b'{"tools": {}}',
        b'"text"',
        b'{"pages": []}',
        b'{"pages": [{}]}',
        b'{"result": 1}',
        b"data:\n\n",
    ],
)
def test_what_is_no_list_is_refused_SYN_2(raw: bytes) -> None:
    with pytest.raises(DocumentRefused):
        parse_mcp_tools(raw)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels // 2):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def test_case_71_one_deep_schema_does_not_hide_the_other_tools_SYN_2() -> None:
    found = read(tool("a"), tool("deep", inputSchema=nested(70)), tool("b"))
    assert [endpoint.name for endpoint in found.endpoints] == ["a", "deep", "b"]
    assert found.left_out == ()
    (warning,) = found.warnings
    assert warning == "deep: it is nested deeper than 64 levels; what lies deeper is left out."
    schema = found.endpoints[1].input_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    value: Any = "x"
    for _ in range(35):
        value = {"a": value}
    jsonschema.validate(value, schema)


def test_case_71_what_is_cut_off_forbids_nothing_SYN_2() -> None:
    deep = {"type": "object", "properties": {"a": {"not": nested(70)}}}
    (found,) = read(tool("deep", inputSchema=deep)).endpoints
    jsonschema.validate({"a": 1}, found.input_schema)


def test_case_68_a_long_description_is_cut_with_a_warning_SYN_2() -> None:
    found = read(tool("long", description="d" * 300_000), tool("short"))
    assert len(found.endpoints[0].description) == 8_000
    (warning,) = found.warnings
    assert warning == (
        "long: its description has 300,000 characters; the first 8,000 are kept (DESCRIPTION_MAX_CHARACTERS)."
    )


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"type": "object", "properties": None}, "properties"),
        ({"type": "object", "properties": {"a": {"type": "string", "title": None, "enum": None}}}, "title, enum"),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "any"}, {"items": None}]}}}, "type, items"),
        ({"type": "object", "properties": {}, "required": None, "$defs": {"A": {"pattern": 5}}}, "required, pattern"),
    ],
)  # fmt: skip
def test_case_68_what_goes_to_agents_is_valid_json_schema_SYN_2(schema: Any, named: str) -> None:
    found = read(tool("odd", inputSchema=schema, outputSchema=schema))
    (endpoint,) = found.endpoints
    for one in (endpoint.input_schema, endpoint.output_schema):
        jsonschema.Draft202012Validator.check_schema(one)
        assert "null" not in json.dumps(one)
    assert (
        f"odd: values in its inputSchema that JSON Schema does not allow are left out ({named})."
        in found.warnings
    )


def test_a_valid_schema_stays_to_the_letter_SYN_2() -> None:
    schema = {"type": "object", "properties": {"a": {"const": None, "default": None, "x-own": None, "enum": [None]}}, "$schema": "http://json-schema.org/draft-07/schema#"}  # fmt: skip
    (endpoint,) = read(tool("a", inputSchema=schema)).endpoints
    assert endpoint.input_schema == schema


@pytest.mark.parametrize("name", ["\u200b", " \u2060\u00ad", "\u3164", "\u2800\ufe0f"])
def test_a_name_that_shows_nothing_is_none_SYN_2(name: str) -> None:
    found = read(tool(name), tool("good"))
    assert [endpoint.name for endpoint in found.endpoints] == ["good"]
    assert found.left_out[0].reason == "it has no name that can be seen"
