"""SYN-3: LightAPI descriptions 0.1.0; the wrong documents of case 51 and their kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.imports.parsing import INPUTS, parse_lightapi, shared
from tools.imports.formats.specs import DocumentRefused, EndpointSpec, ParsedDocument

PING = {"protocol": "http", "method": "GET", "endpoint": "/ping", "summary": "Ping"}


def written(operations: Any = None, **fields: Any) -> bytes:
    document = {
        "lightapi": "0.1.0",
        "info": {"title": "A", "namespace": "a", "version": "1.0.0"},
        "operations": {"ping": PING} if operations is None else operations,
    }
    return json.dumps(document | fields).encode()


def read(operations: Any = None, **fields: Any) -> ParsedDocument:
    return parse_lightapi(written(operations, **fields))


def only(operation: dict[str, Any], **fields: Any) -> EndpointSpec:
    (endpoint,) = read({"ping": operation}, **fields).endpoints
    return endpoint


def refusal(raw: bytes) -> str:
    with pytest.raises(DocumentRefused) as refused:
        parse_lightapi(raw)
    return str(refused.value)


def test_every_published_example_is_read_to_its_end_SYN_3() -> None:
    counts = {"endpoint-level-register-api": (1, 1), "mcp-petstore-tools": (7, 4), "raw-http-health": (3, 3)}
    for name, (operations, tools) in counts.items():
        found = parse_lightapi(shared(f"lightapi/{name}.lightapi.yaml"), name=name)
        assert (found.operations, len(found.endpoints)) == (operations, tools)
        assert found.operations == len(found.endpoints) + len(found.left_out)
        assert [one for one in found.warnings if "inherits from the catalog 'light-portal'" not in one] == []


def test_a_tool_of_mcp_keeps_its_name_and_resources_and_prompts_are_left_out_with_the_reason_SYN_3() -> None:
    found = parse_lightapi(shared("lightapi/mcp-petstore-tools.lightapi.yaml"))
    assert [endpoint.name for endpoint in found.endpoints] == [
        "petstore_getPet",
        "petstore_listPets",
        "petstore_addPet",
        "petstore_deletePet",
    ]
    assert [(entry.operation, entry.reason) for entry in found.left_out] == [
        ("gatewayConfig", "an MCP resource is no tool"),
        ("petstoreSpec", "an MCP resource is no tool"),
        ("generateApiTest", "an MCP prompt is no tool"),
    ]


@pytest.mark.parametrize(
    ("operation", "key", "path", "kind"),
    [
        ({**PING, "endpointId": "a/x.ping"}, "a/x.ping", "/ping", "api"),
        (PING, "ping@get", "/ping", "api"),
        ({**PING, "operationId": "doPing"}, "doPing@get", "/ping", "api"),
        ({"protocol": "http", "source": "s", "operationId": "getPet"}, "getPet@call", "getPet", "api"),
        (
            {"protocol": "jsonrpc", "endpoint": "/rpc", "method": "user.get"},
            "user.get@call",
            "user.get",
            "api",
        ),
        ({"protocol": "openrpc", "source": "s", "method": "user.get"}, "user.get@call", "user.get", "api"),
        ({"protocol": "grpc", "service": "a.B", "method": "Go"}, "a.B/Go@call", "a.B/Go", "api"),
        ({"protocol": "mcp", "kind": "tool", "name": "get_pet"}, "get_pet@call", "get_pet", "mcp"),
    ],
)
def test_every_protocol_has_its_key_SYN_3(operation: dict[str, Any], key: str, path: str, kind: str) -> None:
    found = only(operation)
    assert (found.key, found.path) == (key, path)
    assert found.metadata["tool"]["tool_type"] == kind
    assert found.metadata["call"]["protocol"] == operation["protocol"]


def test_visibility_and_lifecycle_say_who_is_offered_the_tool_SYN_3() -> None:
    def tool(**fields: str) -> Any:
        return only({**PING, **fields}).metadata["tool"]

    # What is not said stays unsaid: the catalogue's defaults are the format's, and a lower layer may know better.
    assert {"sensitivity", "lifecycle", "visibility"}.isdisjoint(tool())
    assert tool(lifecycle="active")["lifecycle"] == "active"
    assert (tool(lifecycle="retired")["lifecycle"], tool(visibility="public")["sensitivity"]) == (
        "retired",
        "public",
    )
    assert tool(visibility="restricted")["sensitivity"] == "restricted"
    assert tool(lifecycle="deprecated")["lifecycle"] == "deprecated"
    assert tool(lifecycle="draft")["visibility"] == "unlisted"


def test_the_input_is_an_object_whose_references_are_inside_it_SYN_3() -> None:
    schema = {"type": "object", "properties": {"pet": {"$ref": "#/components/schemas/Pet"}, "own": {"$ref": "#/$defs/Own"}},
              "$defs": {"Own": {"type": "integer"}}}  # fmt: skip
    found = only(
        {**PING, "input": {"schema": schema, "required": ["pet"]}},
        components={"schemas": {"Pet": {"type": "string"}}},
    )
    assert found.input_schema["required"] == ["pet"]
    assert [name.split("_")[-2:][0] for name in found.input_schema["$defs"]] == ["Pet", "Own"]
    bare = only({**PING, "input": {"schema": {"type": "string"}}})
    assert bare.input_schema == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
    }
    assert only(PING).input_schema == {"type": "object", "properties": {}}


def test_a_schema_outside_the_document_is_told_and_not_opened_SYN_3() -> None:
    found = read({"ping": {**PING, "input": {"schema": "file:///etc/passwd"}}})
    assert found.warnings == ("operations.ping.input.schema stands outside the document and is not opened.",)
    assert found.endpoints[0].input_schema == {"type": "object", "properties": {}}


def test_hints_and_capability_are_kept_SYN_3() -> None:
    found = only(
        {**PING, "capability": {"group": "health", "action": "read"}, "safety": {"destructive": False}, "tags": ["b", "a", "b"]}
    )  # fmt: skip
    assert found.metadata["annotations"] == {"destructiveHint": False}
    assert found.metadata["routing"] == {"semanticKeywords": ["health", "read"]}
    assert (found.metadata["tool"]["category"], found.tags) == ("health", ("b", "a"))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("no-operations.yaml", "operations is empty"),
        ("wrong-version.yaml", "'lightapi' is '0.2.0'"),
        ("http-without-method.yaml", "operations.ping.method is missing"),
        ("endpoint-profile-two-operations.yaml", "the profile 'endpoint' allows one"),
        ("duplicate-endpointid.yaml", "the same endpointId 'a/x'"),
        ("secret-inline.yaml", "secrets.0 is not a text"),
    ],
)
def test_case_51_a_wrong_document_is_refused_and_the_field_is_named_SYN_3(name: str, field: str) -> None:
    if not INPUTS.is_dir():
        pytest.skip("needs ../shared/inputs")
    said = refusal(shared(f"cases/51-lightapi-wrong-documents/{name}"))
    assert field in said
    assert "4711" not in said  # the secret's value


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"[]", "it has no field 'lightapi'"),
        (b'{"openapi": "3.0.0"}', "it has no field 'lightapi'"),
        (written({"ping": {**PING, "protocol": "soap"}}), "operations.ping.protocol is none of http, jsonrpc,"),
        (written({"ping": {"method": "GET"}}), "operations.ping.protocol is missing"),
        (written({"ping": 1}), "operations.ping is not a mapping"),
        (written({"ping": {**PING, "methd": "GET"}}), "operations.ping has a field that the format does not know"),
        (written({"ping": {**PING, "method": "FETCH"}}), "operations.ping.method is none of GET, HEAD,"),
        (written({"ping": {"protocol": "http", "source": "s"}}), "operations.ping.operationId is missing"),
        (written({"ping": {"protocol": "grpc", "method": "Go"}}), "operations.ping.service is missing"),
        (written({"ping": {"protocol": "jsonrpc", "method": "go"}}), "operations.ping.endpoint is missing"),
        (written({"ping": {"protocol": "mcp", "kind": "tool"}}), "operations.ping.name is missing"),
        (written({"ping": {"protocol": "mcp", "kind": "resource"}}), "operations.ping.uri is missing"),
        (written({"ping": {**PING, "endpointId": "no slash"}}), "operations.ping.endpointId is not written as"),
        (written(info={"title": "A", "namespace": "a"}), "info.version is missing"),
        (written(info={"title": "A", "namespace": "a", "version": 1}), "info.version is not a text"),
        (written(sources={"s": {"type": "mcp", "version": "1"}}), "sources.s.transport is missing"),
        (written(extra=1), "has a field that the format does not know (extra)"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_place_SYN_3(raw: bytes, said: str) -> None:
    assert said in refusal(raw)


def test_values_of_a_wrong_document_are_never_repeated_SYN_3() -> None:
    secret = "hunter2-very-secret"
    for raw in (
        written(secrets=[{"name": "token", "value": secret}]),
        written(authentications={"a": {"type": "basic", "password": [secret]}}),
        written(authentications={"a": {"type": "basic", "pass word": secret, secret * 9: 1}}),
        written({"ping": {**PING, "authentication": {"type": "magic", "token": secret}}}),
        written({"ping": {**PING, "input": {"schema": 1, "value": secret}}}),
    ):
        assert secret not in refusal(raw)


def test_an_inline_password_is_not_kept_with_the_endpoint_SYN_3() -> None:
    found = only({**PING, "authentication": {"type": "basic", "username": "a", "password": "hunter2"}})
    assert "hunter2" not in json.dumps(found.metadata)
    assert found.metadata["call"]["authentication"] == "basic"


def test_many_faults_are_counted_and_the_first_ones_shown_SYN_3() -> None:
    said = refusal(written({f"op{n}": {"protocol": "grpc", "method": "Go"} for n in range(40)}))
    assert "… and 35 more" in said


# Written for these tests: there is no published example of these protocols.
EVERY_PROTOCOL = b"""
lightapi: 0.1.0
info: {title: Harbour, namespace: harbour, version: 2.1.0, summary: Berths and pilots.}
sources:
  berths: {type: openapi, version: 1.0.0, document: ./berths.yaml, servers: {main: {endpoint: https://berths.example/api}}}
  pilots: {type: openrpc, version: 1.0.0, document: {openrpc: 1.3.2, methods: []}}
  radar: {type: grpc-reflection, version: 1.0.0}
  bridge: {type: mcp, version: 1.0.0, transport: stdio}
operations:
  freeBerths:
    protocol: http
    source: berths
    operationId: listFreeBerths
    summary: Berths that are free on a day.
    capability: {group: berths, action: list}
    input: {schema: {type: object, required: [day], properties: {day: {type: string, format: date}}}}
    request: {query: {on: "${input.day}"}}
  moor:
    protocol: http
    method: POST
    endpoint: ${env.base}/berths/${input.berth}/ships
    endpointId: harbour/berth.moor
    summary: Moors a ship.
    lifecycle: draft
    safety: {destructive: false, requiresConfirmation: true}
    idempotency: {safeToRetry: true}
  callPilot:
    protocol: openrpc
    source: pilots
    method: pilot.call
    server: {endpoint: https://pilots.example/rpc, tls: {clientKey: PRIVATE}}
    summary: Calls a pilot.
    input: {required: [ship], schema: {properties: {ship: {type: string}}}}
    result: {schema: {type: object, properties: {eta: {type: string}}}}
  tide:
    protocol: jsonrpc
    endpoint: https://tides.example/rpc
    method: tide.at
    description: The height of the tide.
    visibility: public
  sweep:
    protocol: grpc
    source: radar
    service: harbour.v1.Radar
    method: Sweep
    endpoint: {host: radar.example, port: 50051, tls: {key: PRIVATE}}
    summary: One turn of the radar.
    visibility: restricted
  horn:
    protocol: mcp
    server: bridge
    kind: tool
    name: sound_horn
    summary: Sounds the horn.
    lifecycle: retired
  log:
    protocol: mcp
    server: bridge
    kind: resource
    uri: ship://log
  greet:
    protocol: mcp
    server: bridge
    kind: prompt
    name: greet_pilot
"""


def test_a_document_of_every_protocol_is_read_to_its_end_SYN_3() -> None:
    found = parse_lightapi(EVERY_PROTOCOL)
    assert (found.operations, found.servers) == (8, ("https://berths.example/api",))
    assert [(one.operation, one.reason) for one in found.left_out] == [
        ("log", "an MCP resource is no tool"),
        ("greet", "an MCP prompt is no tool"),
    ]
    assert [(one.key, one.method, one.path, one.name) for one in found.endpoints] == [
        ("listFreeBerths@call", "call", "listFreeBerths", "listFreeBerths"),
        ("harbour/berth.moor", "post", "${env.base}/berths/${input.berth}/ships", "moor"),
        ("pilot.call@call", "call", "pilot.call", "callPilot"),
        ("tide.at@call", "call", "tide.at", "tide"),
        ("harbour.v1.Radar/Sweep@call", "call", "harbour.v1.Radar/Sweep", "sweep"),
        ("sound_horn@call", "call", "sound_horn", "sound_horn"),
    ]
    berths, moor, pilot, tide, sweep, horn = (one.metadata for one in found.endpoints)
    assert berths["call"] == {
        "protocol": "http",
        "source": "berths",
        "operationId": "listFreeBerths",
        "request": {"query": {"on": "${input.day}"}},
    }
    assert berths["routing"] == {"semanticKeywords": ["berths", "list"]}
    assert moor["annotations"] == {"destructiveHint": False, "idempotentHint": True}
    assert (moor["tool"]["visibility"], moor["endpoint_id"]) == ("unlisted", "harbour/berth.moor")
    assert pilot["call"]["server"] == {"endpoint": "https://pilots.example/rpc"}
    assert tide["tool"]["sensitivity"] == "public"
    assert (sweep["tool"]["sensitivity"], sweep["call"]["endpoint"]) == (
        "restricted",
        {"host": "radar.example", "port": 50051},
    )
    assert (horn["tool"]["lifecycle"], horn["tool"]["tool_type"]) == ("retired", "mcp")
    assert {one.metadata["tool"]["semantic_namespace"] for one in found.endpoints} == {"harbour"}
    assert found.endpoints[2].input_schema == {
        "type": "object",
        "properties": {"ship": {"type": "string"}},
        "required": ["ship"],
    }
    assert found.endpoints[2].output_schema == {"type": "object", "properties": {"eta": {"type": "string"}}}
    assert "PRIVATE" not in json.dumps([one.metadata for one in found.endpoints])


def test_a_secret_that_is_written_out_is_told_and_not_kept_SYN_3() -> None:
    request = {
        "headers": {"Authorization": "Bearer hunter2", "X-Api-Key": "${secrets.key}", "Accept": "text/plain"},
        "body": {"client_secret": "hunter2", "token_type": "bearer", "users": [{"password": "hunter2"}]},
    }
    found = read({"ping": {**PING, "request": request}})
    assert found.endpoints[0].metadata["call"]["request"] == {
        "headers": {"X-Api-Key": "${secrets.key}", "Accept": "text/plain"},
        "body": {"token_type": "bearer", "users": [{}]},
    }
    assert found.warnings == (
        "operations.ping.request.headers.Authorization may hold a secret; it is not kept.",
        "operations.ping.request.body.client_secret may hold a secret; it is not kept.",
        "operations.ping.request.body.users.0.password may hold a secret; it is not kept.",
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"context": {"catalog": "billing"}}, "inherits from the catalog 'billing', which is not opened"),
        ({"sources": {"api": {"type": "openapi", "version": "1", "document": "https://a.example/api.yaml"}}}, "sources.api: its document is not opened"),
        ({}, "sources.api is referred to by an operation, and the document does not have it"),
    ],
)  # fmt: skip
def test_documents_that_a_description_leads_to_are_named_and_not_opened_SYN_3(fields: Any, said: str) -> None:
    found = read(
        {"ping": {"protocol": "http", "source": "api", "operationId": "ping", "summary": "P"}}, **fields
    )
    assert len(found.endpoints) == 1
    assert any(said in warning for warning in found.warnings)


def test_a_long_description_is_cut_with_a_warning_SYN_3() -> None:
    found = read({"ping": {**PING, "description": "d" * 9_000}})
    assert any("operations.ping: its description has 9,000 characters" in one for one in found.warnings)
