"""The shared real documents: every operation becomes an endpoint or is left out with a reason (SYN-1)."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from tests.support.imports.parsing import INPUTS, counted_operations, parse_openapi, shared
from tools.imports.formats.openapi.operations import MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, MAX_TOOLS_BYTES
from tools.imports.formats.schema_values import json_size
from tools.imports.formats.specs import DocumentRefused

FILES = sorted(path.name for path in INPUTS.glob("openapi/*.*"))


@pytest.mark.parametrize("name", FILES)
def test_every_real_document_gives_the_operations_that_oas_stats_counts_SYN_1(name: str) -> None:
    raw = shared(f"openapi/{name}")
    found = parse_openapi(raw, name=name)
    assert found.operations == len(found.endpoints) + len(found.left_out) == counted_operations(raw)
    assert found.left_out == ()
    keys = [endpoint.key for endpoint in found.endpoints]
    names = [endpoint.name for endpoint in found.endpoints]
    assert len(set(keys)) == len(keys)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in names)
    for endpoint in found.endpoints:
        assert endpoint.key == f"{endpoint.path}@{endpoint.method}"
        assert json_size(endpoint.input_schema) <= MAX_INPUT_BYTES
        assert json_size(endpoint.output_schema) <= MAX_OUTPUT_BYTES
        properties = {each["property"] for each in endpoint.metadata["parameters"]}
        assert properties <= set(endpoint.input_schema["properties"])


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("netbox-3.0.json", 844),
        ("stripe-2020-3.0.yaml", 352),
        ("slack-web-2.0.json", 174),
        ("petstore-3.0.yaml", 20),
    ],
)
def test_known_documents_give_their_known_counts_SYN_1(name: str, count: int) -> None:
    assert len(parse_openapi(shared(f"openapi/{name}")).endpoints) == count


@pytest.mark.parametrize("name", ["petstore-2.0.json", "schema-types-3.1.yaml", "mit-learn-v1-3.0.yaml"])
def test_the_same_bytes_give_equal_specs_with_equal_hashes_SYN_1(name: str) -> None:
    first, second = (parse_openapi(shared(f"openapi/{name}"), name=name) for _ in range(2))
    assert first == second
    assert [each.content_hash() for each in first.endpoints] == [
        each.content_hash() for each in second.endpoints
    ]


def test_json_and_yaml_of_one_document_give_the_same_specs_SYN_1() -> None:
    raw = shared("openapi/petstore-2.0.json")
    loose = raw.replace(b'"swagger"', b"# the comment makes it YAML\n  swagger", 1)
    assert parse_openapi(loose).endpoints == parse_openapi(raw).endpoints


def test_netbox_is_read_in_seconds_and_its_empty_texts_are_counted_SYN_1() -> None:
    raw = shared("openapi/netbox-3.0.json")
    started = time.process_time()
    found = parse_openapi(raw)
    assert time.process_time() - started < 4
    assert any(
        warning.startswith("Operations without summary and description: 820 ") for warning in found.warnings
    )
    assert sum(1 for endpoint in found.endpoints if not endpoint.description) == 820


def test_html_of_stripe_becomes_readable_text_SYN_1() -> None:
    found = {
        endpoint.key: endpoint for endpoint in parse_openapi(shared("openapi/stripe-2020-3.0.yaml")).endpoints
    }
    charge = found["/v1/charges@post"]
    assert charge.description.startswith(
        "To charge a credit card or other payment source, you create a `Charge` object."
    )
    assert not any(re.search(r"</?(p|code|a|strong)\b", endpoint.description) for endpoint in found.values())
    assert "amount" in charge.input_schema["properties"]
    assert charge.metadata["body"]["media_type"] == "application/x-www-form-urlencoded"
    # A form without fields is a body that takes nothing, not a property.
    assert list(found["/v1/account@get"].input_schema["properties"]) == ["expand"]


def test_webhooks_give_no_tools_and_a_note_SYN_1() -> None:
    found = parse_openapi(shared("openapi/webhooks-only-3.1.json"))
    assert (found.operations, found.endpoints) == (0, ())
    assert any("webhooks give no tools" in warning for warning in found.warnings)
    assert any("no operations" in warning for warning in found.warnings)


def test_a_path_in_another_file_is_left_out_with_its_reason_SYN_1() -> None:
    found = parse_openapi(shared("openapi/external-refs/main.yaml"))
    (left_out,) = found.left_out
    assert (found.operations, found.endpoints, left_out.operation) == (1, (), "/user_account")
    assert "'paths/user-account.yaml#/' leads outside the document and is not opened" in left_out.reason
    assert found.servers == ("https://api.example.com/v1",)


def test_two_apis_may_share_an_operation_id_but_no_key_SYN_1() -> None:
    found = parse_openapi(shared("openapi/duplicate-operationid-3.0.yaml"))
    names = [endpoint.name for endpoint in found.endpoints]
    assert len(set(names)) == len(names) == 2


def test_twenty_thousand_operations_are_the_limit_SYN_1() -> None:
    def generated(count: int) -> bytes:
        paths: dict[str, Any] = {f"/p{number}": {"get": {"responses": {}}} for number in range(count)}
        return json.dumps({"openapi": "3.0.3", "info": {}, "paths": paths}).encode()

    assert len(parse_openapi(generated(20_000)).endpoints) == 20_000
    with pytest.raises(DocumentRefused, match="more than 20,000 operations"):
        parse_openapi(generated(20_001))


def wide(count: int) -> bytes:
    """Operations that each could take some 40 kB of schemas, which they all share."""
    text = {"type": "string", "description": "word " * 40}
    schemas = {
        f"S{number}": {"properties": {**{f"p{n}": text for n in range(60)}, "next": {"$ref": f"#/components/schemas/S{number + 1}"}}}
        for number in range(9)
    }  # fmt: skip
    content = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    operation = {"summary": "X", "requestBody": content, "responses": {"200": content}}
    paths = {f"/p{number}": {"post": operation} for number in range(count)}
    return json.dumps({"openapi": "3.1.0", "paths": paths, "components": {"schemas": schemas}}).encode()


def test_schemas_get_less_room_only_where_all_together_would_take_too_much_SYN_1() -> None:
    few, many = (parse_openapi(wide(count)) for count in (1_200, 3_000))
    assert (
        few.endpoints[0].input_schema["$defs"]["S1"]["properties"]["p0"]["description"]
        == ("word " * 40).strip()
    )
    assert json_size(few.endpoints[0].input_schema) > MAX_INPUT_BYTES / 2
    assert json_size(many.endpoints[0].input_schema) <= MAX_INPUT_BYTES / 4
    for found in (few, many):
        whole = sum(json_size([each.input_schema, each.output_schema]) for each in found.endpoints)
        assert MAX_TOOLS_BYTES / 4 < whole <= MAX_TOOLS_BYTES
    assert parse_openapi(wide(3_000)) == many
