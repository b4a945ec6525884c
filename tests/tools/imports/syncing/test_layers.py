"""SYN-3: a source's documents in layers. Words are the highest layer's, the contract is the lowest's, and what differs is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support.imports.layers import BACKED, SHOP, described, shop
from tests.support.imports.parsing import OK, document, parse_mcp_tools, parse_openapi
from tools.imports.formats.specs import DocumentRefused, EndpointSpec
from tools.imports.syncing import layers
from tools.imports.syncing.layers import EndpointIndex, merge_layers
from tools.models import Layer


def overlay(operation: dict[str, Any], **fields: Any) -> EndpointSpec:
    (spec,) = described(operation, **fields).endpoints
    return spec


def key_of(operation: EndpointSpec, base: Mapping[str, EndpointSpec]) -> str | None:
    return EndpointIndex(base).key_of(operation)


def over_get_pet(**fields: Any) -> tuple[EndpointSpec, tuple[str, ...]]:
    return merge_layers(
        {Layer.EXTRACTION: shop()["/pets/{petId}@get"], Layer.API: overlay({**BACKED, **fields})}
    )


def test_the_layer_of_a_document_is_its_kind_and_profile_syn_3() -> None:
    assert layers.layer_of(parse_openapi(SHOP), "openapi") == Layer.EXTRACTION
    for kind in ("openapi", "mcp", "lightapi"):
        assert layers.layer_of(described(BACKED), kind) == Layer.API
        assert layers.layer_of(described(BACKED, profile="bundle"), kind) == Layer.API
        assert layers.layer_of(described(BACKED, profile="endpoint"), kind) == Layer.ENDPOINT


@pytest.mark.parametrize("kind", ["mcp", "lightapi", "manual"])
def test_a_document_that_is_no_layer_of_the_source_is_refused_syn_3(kind: str) -> None:
    with pytest.raises(DocumentRefused, match="import it under another name"):
        layers.layer_of(parse_openapi(SHOP), kind)


def test_a_document_of_one_endpoint_or_of_a_choice_of_them_removes_no_others_syn_3() -> None:
    assert described(BACKED).complete
    assert not described(BACKED, profile="endpoint").complete
    assert not described(BACKED, profile="bundle").complete


@pytest.mark.parametrize(
    "operation",
    [
        BACKED,
        {"protocol": "http", "method": "GET", "endpoint": "/pets/{petId}"},
        {"protocol": "http", "method": "GET", "endpoint": "${env.base}/pets/${input.id}"},
        {"protocol": "http", "method": "GET", "endpoint": "https://shop.example/api/v3/pets/{id}"},
        {"protocol": "http", "method": "GET", "endpoint": "${env.base}/elsewhere", "operationId": "getPet"},
        {**BACKED, "endpointId": "shop/pet.get"},
    ],
)
def test_an_operation_is_about_the_endpoint_of_its_operation_id_or_method_and_path_syn_3(
    operation: dict[str, Any],
) -> None:
    assert key_of(overlay(operation), shop()) == "/pets/{petId}@get"


@pytest.mark.parametrize(
    "operation",
    [
        {"protocol": "http", "method": "PUT", "endpoint": "/pets/{petId}"},
        {"protocol": "http", "source": "shop", "operationId": "getPets"},
        {"protocol": "jsonrpc", "endpoint": "/rpc", "method": "getPet"},
        {"protocol": "mcp", "kind": "tool", "name": "getPet"},
    ],
)
def test_an_operation_that_the_source_does_not_have_is_about_none_syn_3(operation: dict[str, Any]) -> None:
    assert key_of(overlay(operation), shop()) is None


def test_what_could_be_two_endpoints_is_not_guessed_syn_3() -> None:
    same_id = {"operationId": "getPet", "responses": OK}
    base = {
        spec.key: spec
        for spec in parse_openapi(
            document({"/a/{x}": {"get": same_id}, "/a/{y}": {"get": same_id}})
        ).endpoints
    }
    assert key_of(overlay(BACKED), base) is None
    assert key_of(overlay({"protocol": "http", "method": "GET", "endpoint": "/a/{z}"}), base) is None
    assert key_of(overlay({"protocol": "http", "method": "GET", "endpoint": "/a/{y}"}), base) == "/a/{y}@get"


def test_a_tool_of_an_mcp_server_is_known_by_its_name_syn_3() -> None:
    listed = parse_mcp_tools(b'{"tools": [{"name": "get_pet", "inputSchema": {"type": "object"}}]}')
    base = {spec.key: spec for spec in listed.endpoints}
    tool = {"protocol": "mcp", "kind": "tool", "name": "get_pet"}
    assert key_of(overlay(tool), base) == "get_pet@call"
    assert key_of(overlay({**tool, "endpointId": "shop/pet"}), base) == "get_pet@call"
    # The same key, and yet nothing that the server offers.
    assert key_of(overlay({"protocol": "jsonrpc", "endpoint": "/rpc", "method": "get_pet"}), base) is None


def test_a_document_of_an_endpoint_finds_the_one_of_its_api_by_endpoint_id_or_method_syn_3() -> None:
    remote = {"protocol": "jsonrpc", "endpoint": "/rpc", "method": "pet.get"}
    by_id = overlay({**remote, "endpointId": "shop/pet"})
    assert key_of(by_id, {"shop/pet": by_id}) == "shop/pet"
    assert key_of(by_id, {"pet.get@call": overlay(remote)}) == "pet.get@call"
    assert key_of(overlay(remote), {"shop/pet": by_id}) == "shop/pet"


def test_many_questions_are_answered_as_one_syn_3() -> None:
    base = shop()
    index = EndpointIndex(base)
    assert [index.key_of(overlay(BACKED)) for _ in range(2)] == [key_of(overlay(BACKED), base)] * 2


def test_words_are_those_of_the_highest_layer_that_says_something_syn_3() -> None:
    spec, warnings = over_get_pet(
        summary="Finds a pet",
        tags=["pets"],
        visibility="restricted",
        lifecycle="active",
        capability={"group": "pet-management", "action": "read"},
        safety={"destructive": False},
        input={"schema": {"type": "object", "required": ["petId"], "properties": {
            "petId": {"type": "integer", "description": "Number on its collar."}}}},
    )  # fmt: skip
    assert warnings == ()
    assert (spec.key, spec.name, spec.method, spec.path) == (
        "/pets/{petId}@get",
        "getPet",
        "get",
        "/pets/{petId}",
    )
    assert (spec.title, spec.description, spec.tags) == ("Finds a pet", "Finds a pet", ("pets",))
    assert spec.deprecated is False
    assert spec.metadata["tool"] == {
        "sensitivity": "restricted",
        "lifecycle": "active",
        "semantic_namespace": "shop",
        "category": "pet-management",
    }
    assert spec.metadata["routing"] == {"semanticKeywords": ["pet-management", "read"]}
    assert spec.metadata["annotations"] == {"destructiveHint": False}
    assert spec.input_schema["properties"]["petId"] == {
        "type": "integer",
        "description": "Number on its collar.",
    }
    assert spec.input_schema["properties"]["limit"] == {"type": "integer"}


def test_what_the_higher_layer_leaves_unsaid_stays_as_extracted_syn_3() -> None:
    base = shop()["/pets/{petId}@get"]
    spec, warnings = over_get_pet()
    assert warnings == ()
    assert (spec.title, spec.description, spec.tags) == ("Pet", base.description, ("extracted",))
    assert spec.deprecated
    assert (spec.input_schema, spec.output_schema) == (base.input_schema, base.output_schema)
    assert {"sensitivity", "lifecycle", "visibility", "tool_type"}.isdisjoint(spec.metadata["tool"])


def test_three_layers_are_put_together_in_their_order_syn_3() -> None:
    said = {
        Layer.ENDPOINT: overlay({**BACKED, "tags": ["endpoint"]}, profile="endpoint"),
        Layer.EXTRACTION: shop()["/pets/{petId}@get"],
        Layer.API: overlay({**BACKED, "tags": ["api"], "summary": "Of the API"}),
    }
    spec, _ = merge_layers(said)
    assert (spec.tags, spec.description) == (("endpoint",), "Of the API")
    del said[Layer.ENDPOINT]
    assert merge_layers(said)[0].tags == ("api",)
    del said[Layer.API]
    assert merge_layers(said) == (said[Layer.EXTRACTION], ())


def test_an_operation_that_is_a_draft_no_longer_is_listed_again_syn_3() -> None:
    draft, active = overlay({**BACKED, "lifecycle": "draft"}), overlay({**BACKED, "lifecycle": "active"})
    assert draft.metadata["tool"]["visibility"] == "unlisted"
    assert "visibility" not in merge_layers({Layer.API: draft, Layer.ENDPOINT: active})[0].metadata["tool"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"method": "PUT"}, "of its method, the LightAPI document of the API says PUT and the source GET"),
        ({"endpoint": "/animals/{id}"}, "of its path, the LightAPI document of the API says '/animals/{id}' and the source"),
        ({"input": {"schema": {"properties": {"petId": {"type": "string"}}, "required": ["petId"]}}},
         "of its input 'petId', the LightAPI document of the API says string and the source integer"),
        ({"input": {"schema": {"properties": {"petId": {}, "page": {}}, "required": ["petId"]}}},
         "of its input 'page', the LightAPI document of the API says that it exists and the source that it does not"),
        ({"input": {"schema": {"properties": {"petId": {}}}}},
         "of its input 'petId', the LightAPI document of the API says that it is optional and the source that it is required"),
        ({"input": {"schema": {"properties": {"petId": {}, "limit": {}}, "required": ["petId", "limit"]}}},
         "of its input 'limit', the LightAPI document of the API says that it is required and the source that it is optional"),
        ({"input": {"schema": {"properties": {"limit": {}}}}},
         "of its input 'petId', the LightAPI document of the API says nothing and the source that it is required"),
        ({"result": {"schema": {"type": "array"}}}, "of its output, the LightAPI document of the API says array and the source object"),
        ({"result": {"schema": {"properties": {"age": {"type": "string"}}}}},
         "of its output 'age', the LightAPI document of the API says string and the source integer"),
        ({"result": {"schema": {"properties": {"colour": {}}}}},
         "of its output 'colour', the LightAPI document of the API says that it exists and the source that it does not"),
    ],
)  # fmt: skip
def test_where_a_higher_layer_says_otherwise_of_the_contract_it_is_told_and_the_lowest_counts_syn_3(
    fields: dict[str, Any], told: str
) -> None:
    base = shop()["/pets/{petId}@get"]
    spec, warnings = over_get_pet(**fields)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"/pets/{{petId}}@get: {told}")
    assert warnings[0].endswith("; the latter is kept.")
    assert (spec.method, spec.path, spec.output_schema) == (base.method, base.path, base.output_schema)
    assert spec.input_schema == base.input_schema


def test_inputs_are_found_by_the_request_mapping_and_in_the_body_syn_3() -> None:
    request = {"path": {"petId": "${input.number}"}, "query": {"limit": 1}}
    schema = {"type": "object", "required": ["number"], "properties": {
        "number": {"type": "integer", "description": "Its number."}}}  # fmt: skip
    spec, warnings = over_get_pet(input={"schema": schema}, request=request)
    assert warnings == ()
    assert spec.input_schema["properties"]["petId"]["description"] == "Its number."
    flat: dict[str, Any] = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "description": "What it hears to."}}}  # fmt: skip
    add = {"protocol": "http", "source": "shop", "operationId": "addPet", "input": {"schema": flat}}
    base = shop()["/pets@post"]
    spec, warnings = merge_layers({Layer.EXTRACTION: base, Layer.API: overlay(add)})
    assert warnings == ()
    assert spec.input_schema["$defs"]["Pet"]["properties"]["name"]["description"] == "What it hears to."
    assert base.input_schema["$defs"]["Pet"]["properties"]["name"] == {"type": "string"}
    renamed = {**add, "input": {"schema": {"type": "object", "required": ["called"], "properties": {"called": flat["properties"]["name"]}}},
               "request": {"body": {"name": "${input.called}"}}}  # fmt: skip
    again, warnings = merge_layers({Layer.EXTRACTION: base, Layer.API: overlay(renamed)})
    assert warnings == ()
    assert again.input_schema == spec.input_schema
    whole = {
        **add,
        "input": {"schema": {"properties": {"pet": {}}, "required": ["pet"]}},
        "request": {"body": "${input.pet}"},
    }
    assert merge_layers({Layer.EXTRACTION: base, Layer.API: overlay(whole)})[1] == ()


def test_a_schema_as_odd_as_a_server_may_send_it_is_borne_syn_3() -> None:
    odd = {"type": "object", "properties": {"a": {"type": {"x": 1}}, "b": {"$ref": 7}, "body.c": True, "d": {"$ref": "#/$defs/d"}},
           "$defs": {"d": {"$ref": "#/$defs/d"}}, "required": ["a", "body.c", 3]}  # fmt: skip
    listed = parse_mcp_tools(json.dumps({"tools": [{"name": "t", "inputSchema": odd}]}).encode())
    tool = {"protocol": "mcp", "kind": "tool", "name": "t", "input": {"schema": {"properties": {
        name: {"type": "string", "description": f"Text of {name}."} for name in ("a", "b", "body.c", "d")}}}}  # fmt: skip
    spec, warnings = merge_layers({Layer.EXTRACTION: listed.endpoints[0], Layer.API: overlay(tool)})
    assert spec.input_schema["properties"]["b"]["description"] == "Text of b."
    assert {warning.split("'")[1] for warning in warnings} == {"a", "body.c"}


def test_a_spec_is_the_same_after_it_was_stored_syn_3() -> None:
    for spec in (*shop().values(), overlay(BACKED)):
        stored = json.loads(json.dumps(spec.as_json()))
        assert EndpointSpec.from_json(stored) == spec
        assert EndpointSpec.from_json(stored).content_hash() == spec.content_hash()


def test_a_change_in_a_layer_that_another_covers_changes_the_hash_syn_3() -> None:
    base, top = shop()["/pets/{petId}@get"], overlay({**BACKED, "summary": "Of the API"})
    hashes = set()
    for text in ("Extracted words.", "Other words."):
        said = {Layer.EXTRACTION: replace(base, description=text), Layer.API: top}
        stored = {layer.value: spec.as_json() for layer, spec in said.items()}
        hashes.add(merge_layers(said)[0].content_hash(stored))
    assert len(hashes) == 2
