"""Case 55: fields that only the server sends are no inputs, and those that only the client sends are in no answer (SYN-1)."""

from __future__ import annotations

import random
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.support.imports.parsing import OK, by_name, case, operation, parsed, places

ID = {"type": "string", "readOnly": True}
SECRET = {"type": "string", "writeOnly": True}
THING = {"type": "object", "required": ["id", "weight", "secret"], "properties": {"id": ID, "weight": {"type": "number"}, "secret": SECRET}}  # fmt: skip


def sent(schema: Any, *, version: str = "3.0.3", **fields: Any) -> Any:
    """The input schema of an operation with this JSON body."""
    body = {"content": {"application/json": {"schema": schema}}}
    return operation({"requestBody": body}, method="post", version=version, **fields).input_schema


def accepts(schema: Any, body: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid({"body": body}))


def test_case_55_a_request_demands_no_field_of_the_server_SYN_1() -> None:
    found = by_name(case("55", "crates.yaml"))
    crate = found["addCrate"].input_schema["$defs"]["Crate"]
    assert crate["required"] == ["weight", "secretCode"]
    assert list(crate["properties"]) == ["weight", "secretCode"]
    answer = found["addCrate"].output_schema
    assert answer is not None
    assert answer["required"] == ["id", "storedAt", "weight"]
    assert list(answer["properties"]) == ["id", "storedAt", "weight"]
    assert places(found["labelCrate"]) == [("id", "path", True), ("picture", "form", True)]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/components/schemas/Thing"},
        {"allOf": [{"$ref": "#/components/schemas/Thing"}]},
        {"allOf": [{"$ref": "#/components/schemas/Bare"}], "required": ["id", "weight"]},
        {"allOf": [{"type": "object", "properties": THING["properties"]}, {"required": ["id", "weight"]}]},
        {"type": "object", "required": ["id"], "properties": {"id": {"$ref": "#/components/schemas/Id"}}},
        {"type": "object", "required": ["id"], "properties": {"id": {"allOf": [{"$ref": "#/components/schemas/Id"}]}}},
        {"type": "object", "properties": {"id": ID}, "dependentRequired": {"weight": ["id"]}},
    ],
    ids=["ref", "allOf", "required beside", "required in another part", "marked behind ref", "marked in allOf", "dependent"],
)  # fmt: skip
def test_case_55_it_holds_below_references_and_parts_SYN_1(schema: Any) -> None:
    schemas = {"Thing": THING, "Id": ID, "Bare": {"type": "object", "properties": THING["properties"]}}
    found = sent(schema, version="3.1.0", components={"schemas": schemas})
    assert accepts(found, {"weight": 1, "secret": "s"})


def test_case_55_it_holds_in_lists_and_in_swagger_2_SYN_1() -> None:
    found = sent({"type": "array", "items": {"$ref": "#/components/schemas/Thing"}}, components={"schemas": {"Thing": THING}})  # fmt: skip
    assert accepts(found, [{"weight": 1, "secret": "s"}])
    body = {"name": "b", "in": "body", "schema": {"$ref": "#/definitions/Thing"}}
    endpoint = operation({"parameters": [body]}, method="post", version="2.0", definitions={"Thing": THING})
    assert accepts(endpoint.input_schema, {"weight": 1, "secret": "s"})


def test_what_the_document_allows_is_not_refused_because_a_field_was_left_out_SYN_1() -> None:
    """The server's field may be sent back: no other properties being allowed, it stays, and is not required. Where only it told
    two alternatives apart, both may hold."""
    closed = {**THING, "additionalProperties": False}
    assert accepts(sent(closed), {"id": "a", "weight": 1, "secret": "s"})
    kinds = [{"type": "object", "required": ["kind"], "properties": {"kind": {"enum": [kind], "readOnly": True}}} for kind in "ab"]  # fmt: skip
    assert accepts(sent({"oneOf": kinds}), {})
    # A request without the field was forbidden by neither; one that `not` forbids is not allowed by what was left out of it.
    assert accepts(sent({"not": {"required": ["id"]}, **THING}), {"weight": 1, "secret": "s"})
    whole = {"allOf": [THING], "unevaluatedProperties": False}
    assert accepts(sent(whole, version="3.1.0"), {"id": "a", "weight": 1, "secret": "s"})


def test_a_property_of_the_name_readonly_marks_nothing_SYN_1() -> None:
    schema = {"type": "object", "required": ["readOnly"], "properties": {"readOnly": {"type": "boolean"}}}
    assert sent(schema)["properties"]["body"] == schema


def test_without_marks_both_directions_share_their_definitions_SYN_1() -> None:
    thing = {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/Part"}}}
    content = {
        "application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}}}
    }
    found = parsed(
        {"/x": {"post": {"requestBody": {"content": content}, "responses": {"200": {**OK["200"], "content": content}}}}},
        components={"schemas": {"Thing": thing, "Part": {"type": "string"}}},
    )  # fmt: skip
    (endpoint,) = found.endpoints
    assert endpoint.output_schema is not None
    assert endpoint.input_schema["$defs"]["Part"] is endpoint.output_schema["$defs"]["Part"]


def generated(chance: random.Random, depth: int = 3) -> Any:
    """A schema in which the properties ro1 and ro2 are the server's wherever they stand."""
    leaf = {"type": chance.choice(["string", "integer", "null", "boolean"])}
    if not depth or chance.random() < 0.2:
        return leaf
    names = chance.sample(["a", "b", "ro1", "ro2"], chance.randint(1, 4))
    schema: dict[str, Any] = {"type": "object", "properties": {
        name: {**generated(chance, depth - 1), **({"readOnly": True} if name.startswith("ro") else {})} for name in names
    }}  # fmt: skip
    if chance.random() < 0.7:
        schema["required"] = chance.sample(names, chance.randint(0, len(names)))
    if chance.random() < 0.3:
        schema["additionalProperties"] = chance.choice([False, leaf])
    if chance.random() < 0.2:
        schema["unevaluatedProperties"] = False
    for keyword in ("allOf", "anyOf", "oneOf"):
        if chance.random() < 0.25:
            schema[keyword] = [generated(chance, depth - 1) for _ in range(chance.randint(1, 3))]
    for keyword in ("not", "if", "then", "else"):
        if chance.random() < 0.15:
            schema[keyword] = generated(chance, depth - 1)
    return schema


def value_of(chance: random.Random, depth: int = 3) -> Any:
    if not depth or chance.random() < 0.3:
        return chance.choice(["x", 1, None, True])
    names = chance.sample(["a", "b", "c", "ro1", "ro2"], chance.randint(0, 4))
    return {name: value_of(chance, depth - 1) for name in names}


def demands_nothing_of_the_server(schema: Any) -> Any:
    """What OpenAPI says of a request: `required` does not hold for the server's fields."""
    if isinstance(schema, list):
        return [demands_nothing_of_the_server(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: demands_nothing_of_the_server(value) for key, value in schema.items()}
    if isinstance(found.get("required"), list):
        found["required"] = [name for name in found["required"] if not name.startswith("ro")]
    return found


def test_no_tool_refuses_what_its_document_allows_SYN_1() -> None:
    chance = random.Random(55)
    allowed = 0
    for _ in range(250):
        schema = generated(chance)
        validator = jsonschema.Draft202012Validator(demands_nothing_of_the_server(schema))
        tool = jsonschema.Draft202012Validator(sent(schema, version="3.1.0"))
        for _ in range(40):
            value = value_of(chance)
            if validator.is_valid(value):
                allowed += 1
                assert tool.is_valid({"body": value}), (schema, value)
    assert allowed > 300
