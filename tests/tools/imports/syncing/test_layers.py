"""SYN-3: a source's documents in layers. Words are the highest layer's, the contract is the lowest's, and what differs is told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.tenancy.models import Tenant
from tests.support.imports.documents import import_document
from tests.support.imports.parsing import OK, document, parse_lightapi, parse_mcp_tools, parse_openapi
from tools.catalogue import overrides
from tools.catalogue.tools import update_tool
from tools.imports.formats.references import MAX_WARNINGS
from tools.imports.formats.specs import DocumentRefused, EndpointSpec, ParsedDocument
from tools.imports.syncing import layers, plan
from tools.imports.syncing import service as syncs
from tools.imports.syncing.changes import ImportReport
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.layers import EndpointIndex, match_endpoint, merge_layers
from tools.imports.syncing.plan import NOT_IN_SOURCE
from tools.models import Endpoint, Layer, Source, Sync, Tool

PET = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "description": "in years"}},
}
SHOP = document(
    {
        "/pets/{petId}": {
            "get": {
                "operationId": "getPet",
                "summary": "Pet",
                "description": "Extracted words.",
                "tags": ["extracted"],
                "deprecated": True,
                "parameters": [
                    {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}},
                    {"name": "limit", "in": "query", "schema": {"type": "integer"}},
                ],
                "responses": {
                    "200": {
                        "description": "ok",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                    }
                },
            }
        },
        "/pets": {
            "post": {
                "operationId": "addPet",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
                "responses": OK,
            }
        },
    },
    components={"schemas": {"Pet": PET}},
    servers=[{"url": "https://shop.example/api/v3"}],
)


def shop() -> dict[str, EndpointSpec]:
    return {spec.key: spec for spec in parse_openapi(SHOP).endpoints}


def described(operation: dict[str, Any], **fields: Any) -> ParsedDocument:
    written = {
        "lightapi": "0.1.0",
        "info": {"title": "A", "namespace": "shop", "version": "1.0.0"},
        "operations": {"op": operation},
    }
    return parse_lightapi(json.dumps(written | fields).encode())


def overlay(operation: dict[str, Any], **fields: Any) -> EndpointSpec:
    (spec,) = described(operation, **fields).endpoints
    return spec


BACKED = {"protocol": "http", "source": "shop", "operationId": "getPet"}


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
    assert match_endpoint(overlay(operation), shop()) == "/pets/{petId}@get"


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
    assert match_endpoint(overlay(operation), shop()) is None


def test_what_could_be_two_endpoints_is_not_guessed_syn_3() -> None:
    same_id = {"operationId": "getPet", "responses": OK}
    base = {
        spec.key: spec
        for spec in parse_openapi(
            document({"/a/{x}": {"get": same_id}, "/a/{y}": {"get": same_id}})
        ).endpoints
    }
    assert match_endpoint(overlay(BACKED), base) is None
    assert match_endpoint(overlay({"protocol": "http", "method": "GET", "endpoint": "/a/{z}"}), base) is None
    assert (
        match_endpoint(overlay({"protocol": "http", "method": "GET", "endpoint": "/a/{y}"}), base)
        == "/a/{y}@get"
    )


def test_a_tool_of_an_mcp_server_is_known_by_its_name_syn_3() -> None:
    listed = parse_mcp_tools(b'{"tools": [{"name": "get_pet", "inputSchema": {"type": "object"}}]}')
    base = {spec.key: spec for spec in listed.endpoints}
    tool = {"protocol": "mcp", "kind": "tool", "name": "get_pet"}
    assert match_endpoint(overlay(tool), base) == "get_pet@call"
    assert match_endpoint(overlay({**tool, "endpointId": "shop/pet"}), base) == "get_pet@call"
    # The same key, and yet nothing that the server offers.
    assert (
        match_endpoint(overlay({"protocol": "jsonrpc", "endpoint": "/rpc", "method": "get_pet"}), base)
        is None
    )


def test_a_document_of_an_endpoint_finds_the_one_of_its_api_by_endpoint_id_or_method_syn_3() -> None:
    remote = {"protocol": "jsonrpc", "endpoint": "/rpc", "method": "pet.get"}
    by_id = overlay({**remote, "endpointId": "shop/pet"})
    assert match_endpoint(by_id, {"shop/pet": by_id}) == "shop/pet"
    assert match_endpoint(by_id, {"pet.get@call": overlay(remote)}) == "pet.get@call"
    assert match_endpoint(overlay(remote), {"shop/pet": by_id}) == "shop/pet"


def test_many_questions_are_answered_as_one_syn_3() -> None:
    base = shop()
    assert match_endpoint(overlay(BACKED), EndpointIndex(base)) == match_endpoint(overlay(BACKED), base)


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
        stored = json.loads(json.dumps(layers.as_json(spec)))
        assert layers.from_json(stored) == spec
        assert layers.from_json(stored).content_hash() == spec.content_hash()


def test_a_change_in_a_layer_that_another_covers_changes_the_hash_syn_3() -> None:
    base, top = shop()["/pets/{petId}@get"], overlay({**BACKED, "summary": "Of the API"})
    hashes = set()
    for text in ("Extracted words.", "Other words."):
        said = {Layer.EXTRACTION: replace(base, description=text), Layer.API: top}
        stored = {layer.value: layers.as_json(spec) for layer, spec in said.items()}
        hashes.add(layers.content_hash(merge_layers(said)[0], stored))
    assert len(hashes) == 2


# --- In the catalogue -------------------------------------------------------------------------------------------------
def described_in(tenant: Tenant, operation: dict[str, Any], **fields: Any) -> ImportReport:
    written = {
        "lightapi": "0.1.0",
        "info": {"title": "A", "namespace": "shop", "version": "1.0.0"},
        "operations": {"op": operation},
    }
    return import_document(tenant, written | fields)


def test_an_override_counts_more_than_the_documents_of_endpoint_and_api_and_these_more_than_the_extraction_syn_3_syn_5(
    tenant: Tenant,
) -> None:
    def says() -> tuple[str, list[str]]:
        tool = Tool.objects.get(tool_id="getPet")
        return tool.description, tool.tags

    import_document(tenant, SHOP)
    assert says() == ("Pet\n\nExtracted words.", ["extracted"])
    described_in(tenant, {**BACKED, "summary": "Of the API", "tags": ["api"]})
    assert says() == ("Of the API", ["api"])
    described_in(tenant, {**BACKED, "summary": "Of the endpoint"}, profile="endpoint")
    assert says() == ("Of the endpoint", ["api"])
    tool = Tool.objects.get(tool_id="getPet")
    update_tool(pk=tool.pk, expected_version=tool.version, changes={"description": "Mine"}, actor="olga")
    assert says() == ("Mine", ["api"])
    # Each document moves on by itself, and none of them undoes another.
    import_document(tenant, SHOP.replace(b"Extracted words.", b"Other words."))
    described_in(tenant, {**BACKED, "summary": "Of the API", "tags": ["api", "newer"]})
    assert says() == ("Mine", ["api", "newer"])
    overrides.reset_override(pk=tool.pk, field="description", actor="olga")
    assert says() == ("Of the endpoint", ["api", "newer"])
    assert Tool.objects.get(tool_id="getPet").pk == tool.pk
    assert Tool.objects.count() == 2


def test_the_same_documents_again_write_nothing_in_any_order_syn_3_syn_4(tenant: Tenant) -> None:
    api = {**BACKED, "summary": "Of the API"}
    endpoint = {**BACKED, "summary": "Of the endpoint"}
    import_document(tenant, SHOP)
    described_in(tenant, api)
    described_in(tenant, endpoint, profile="endpoint")
    before = list(Tool.objects.order_by("pk").values_list("version", "updated_at"))
    for report in (
        described_in(tenant, endpoint, profile="endpoint"),
        import_document(tenant, SHOP),
        described_in(tenant, api),
    ):
        assert (report.added, report.changed, report.moved, report.removed) == (0, 0, 0, 0)
    assert list(Tool.objects.order_by("pk").values_list("version", "updated_at")) == before


def test_what_a_document_no_longer_says_is_the_lower_layers_again_syn_3(tenant: Tenant) -> None:
    import_document(tenant, SHOP)
    described_in(
        tenant, {**BACKED, "summary": "Of the API", "visibility": "restricted", "lifecycle": "active"}
    )
    tool = Tool.objects.get(tool_id="getPet")
    assert (tool.sensitivity, tool.lifecycle) == ("restricted", "active")
    report = described_in(
        tenant, {"protocol": "http", "source": "shop", "operationId": "addPet", "summary": "Adds"}
    )
    assert report.removed == 0
    tool.refresh_from_db()
    assert (tool.description, tool.sensitivity, tool.lifecycle) == (
        "Pet\n\nExtracted words.",
        "internal",
        "deprecated",
    )
    assert Tool.objects.get(tool_id="addPet").description == "Adds"


def test_a_document_adds_no_tool_to_a_source_that_does_not_have_its_operation_syn_3(tenant: Tenant) -> None:
    import_document(tenant, SHOP)
    report = described_in(tenant, {**BACKED, "operationId": "noSuchPet"})
    assert (report.operations, report.tools, len(report.left_out)) == (1, 0, 1)
    assert Tool.objects.count() == 2


def test_what_layers_say_is_read_by_no_plan_of_a_source_that_has_none_syn_4(tenant: Tenant) -> None:
    import_document(tenant, SHOP)
    without = json.loads(SHOP)
    del without["paths"]["/pets/{petId}"]
    with CaptureQueriesContext(connection) as queries:
        report = import_document(tenant, without, dry_run=True)
    assert (report.removed, report.unchanged) == (1, 1)
    asked = [query["sql"] for query in queries]
    assert not any(re.search(r'"layers"( AS "\w+")?(,| FROM)', sql) for sql in asked)
    # The tools are asked which of them are behind, and once which of them go.
    assert sum('FROM "tools_tool"' in sql for sql in asked) == 2


def test_words_for_an_operation_that_has_vanished_are_left_out_and_said_to_be_syn_3_syn_6(
    tenant: Tenant,
) -> None:
    import_document(tenant, SHOP)
    described_in(tenant, {**BACKED, "summary": "Of the API"})
    without = json.loads(SHOP)
    del without["paths"]["/pets/{petId}"]
    import_document(tenant, without, confirm_removals=True)
    report = described_in(tenant, {**BACKED, "summary": "Newer"})
    assert [(one["reason"]) for one in report.left_out] == [NOT_IN_SOURCE]
    assert (report.operations, report.tools, report.unchanged) == (1, 0, 0)
    import_document(tenant, SHOP)
    assert Tool.objects.get(tool_id="getPet").description == "Of the API"


def test_conflicts_of_contract_are_told_up_to_a_number_and_once_each_syn_3_syn_4(tenant: Tenant) -> None:
    names = [f"op{number:03}" for number in range(MAX_WARNINGS + 50)]
    listed = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    import_document(tenant, listed)
    added = {"properties": {"page": {}}}
    operations = {
        name: {
            "protocol": "mcp",
            "kind": "tool",
            "name": name,
            "summary": "Does it.",
            "input": {"schema": added},
        }
        for name in names
    }
    written = {
        "lightapi": "0.1.0",
        "info": {"title": "A", "namespace": "shop", "version": "1.0.0"},
        "operations": operations,
    }
    raw = json.dumps(written).encode()
    sync = syncs.plan_document(
        IncomingDocument(raw=raw, name="shop.json", slug="shop"), tenant_id=tenant.pk, actor="olga"
    )
    assert len(sync.summary["warnings"]) == MAX_WARNINGS + 1
    assert sync.summary["warnings"][-1] == "… and 50 more."
    report = syncs.apply_sync(tenant_id=tenant.pk, sync_id=sync.pk, actor="olga")
    assert report.warnings == sync.summary["warnings"]


def test_a_number_that_the_database_writes_otherwise_is_no_change_syn_3_syn_4(tenant: Tenant) -> None:
    """jsonb returns 1e16 as an integer with all its digits, and the zero below zero as zero."""
    content = json.loads(SHOP)
    limit = content["paths"]["/pets/{petId}"]["get"]["parameters"][1]["schema"]
    for number in (
        "1.7976931348623157e+308",
        "-1e16",
        "123456789012345678.0",
        "-0.0",
        "1e-320",
        "1e5",
        "0.1",
    ):
        limit["maximum"] = 0
        raw = json.dumps(content).replace('"maximum": 0', f'"maximum": {number}').encode()
        import_document(tenant, raw)
        described_in(tenant, {**BACKED, "summary": f"Below {number}"})
        assert import_document(tenant, raw).changed == 0, number
        Source.objects.update(sync_wins=True)
        assert import_document(tenant, raw).changed == 0, number
        Source.objects.update(sync_wins=False)
        # Without words of others beside it the endpoint itself is read, not what is kept of a layer.
        described_in(tenant, {"protocol": "http", "source": "shop", "operationId": "addPet"})
        stored = Endpoint.objects.get(key="/pets/{petId}@get")
        assert import_document(tenant, raw).changed == 0, number
        assert plan.spec_of_endpoint(stored).content_hash() == stored.content_hash, number


def test_in_a_source_of_its_own_an_operation_is_a_tool_and_one_endpoint_leaves_the_others_alone_syn_3(
    tenant: Tenant,
) -> None:
    remote = {"protocol": "jsonrpc", "endpoint": "/rpc", "method": "pet.get", "endpointId": "shop/pet.get"}
    other = {"protocol": "jsonrpc", "endpoint": "/rpc", "method": "pet.add"}
    described_in(
        tenant, {}, operations={"get": {**remote, "summary": "Gets"}, "add": {**other, "summary": "Adds"}}
    )
    report = described_in(tenant, {**remote, "summary": "Of the endpoint"}, profile="endpoint")
    assert (report.added, report.changed, report.removed) == (0, 1, 0)
    assert sorted(Tool.objects.values_list("tool_id", "description")) == [
        ("add", "Adds"),
        ("get", "Of the endpoint"),
    ]


def test_a_conflict_of_contract_is_told_in_the_report_and_changes_nothing_of_it_syn_3(tenant: Tenant) -> None:
    import_document(tenant, SHOP)
    before = Tool.objects.get(tool_id="getPet").parameters
    schema = {"properties": {"petId": {"type": "string"}}, "required": ["petId"]}
    report = described_in(tenant, {**BACKED, "summary": "Of the API", "input": {"schema": schema}})
    (warning,) = report.warnings
    assert warning.startswith(
        "/pets/{petId}@get: of its input 'petId', the LightAPI document of the API says string"
    )
    assert Tool.objects.get(tool_id="getPet").parameters == before


def test_the_description_of_a_parameter_comes_from_the_layers_and_an_operator_overrides_it_syn_3_syn_5(
    tenant: Tenant,
) -> None:
    import_document(tenant, SHOP)
    schema = {"properties": {"petId": {"description": "Of the API."}}, "required": ["petId"]}
    described_in(tenant, {**BACKED, "input": {"schema": schema}})
    tool = Tool.objects.get(tool_id="getPet")
    assert tool.parameters["properties"]["petId"]["description"] == "Of the API."
    changes = {"parameter_descriptions": {"petId": "Mine."}}
    update_tool(pk=tool.pk, expected_version=tool.version, changes=changes, actor="olga")
    schema["properties"]["petId"]["description"] = "Newer."  # type: ignore[index]
    report = described_in(tenant, {**BACKED, "input": {"schema": schema}})
    assert report.conflicts == 1
    tool.refresh_from_db()
    assert tool.parameters["properties"]["petId"] == {"type": "integer", "description": "Mine."}


def test_a_tool_of_an_mcp_server_has_layers_too_syn_2_syn_3(tenant: Tenant) -> None:
    listed = {"tools": [{"name": "get_pet", "description": "Extracted", "inputSchema": {"type": "object"}}]}
    import_document(tenant, listed)
    described_in(tenant, {"protocol": "mcp", "kind": "tool", "name": "get_pet", "summary": "Of the API"})
    tool = Tool.objects.get()
    assert (tool.tool_id, tool.description, tool.tool_type) == ("get_pet", "Of the API", "mcp")
    assert import_document(tenant, listed).changed == 0


def test_what_was_left_of_a_plan_is_planned_and_applied_from_its_own_layer_syn_3_syn_4(
    tenant: Tenant,
) -> None:
    raw = SHOP

    def plan() -> Sync:
        return syncs.plan_document(
            IncomingDocument(raw=raw, name="shop.json", slug="shop"), tenant_id=tenant.pk, actor="olga"
        )

    first = plan()
    one = first.changes.filter(key="/pets/{petId}@get")
    syncs.apply_sync(
        tenant_id=tenant.pk, sync_id=first.pk, actor="olga", chosen=set(one.values_list("pk", flat=True))
    )
    described_in(tenant, {**BACKED, "summary": "Of the API"})  # now the newest document of the source
    rest = plan()
    assert rest.document.layer == "extraction"
    syncs.apply_sync(tenant_id=tenant.pk, sync_id=rest.pk, actor="olga")
    assert Endpoint.objects.filter(active=True).count() == rest.summary["operations"] > 1
    assert Tool.objects.get(tool_id="getPet").description == "Of the API"
