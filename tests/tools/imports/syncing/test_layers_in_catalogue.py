"""SYN-3: documents in layers in the catalogue: imports, overrides over them, plans and warnings."""

from __future__ import annotations

import json
import re
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.imports.layers import BACKED, SHOP
from tests.support.overrides import reset_override
from tools.catalogue.tools import update_tool
from tools.imports.formats.references import MAX_WARNINGS
from tools.imports.syncing import plan
from tools.imports.syncing import service as syncs
from tools.imports.syncing.changes import ImportReport
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.plan import NOT_IN_SOURCE
from tools.models import Endpoint, Source, Sync, Tool


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
    reset_override(pk=tool.pk, field="description", actor="olga")
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
    (warning,) = (one for one in report.warnings if "sources.shop is referred to" not in one)
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


def test_case_67_words_of_another_document_stay_with_their_operation_when_two_change_places_syn_3(
    tenant: Tenant,
) -> None:
    content = document("a", "b")
    import_document(tenant, content)
    described_in(tenant, {**BACKED, "operationId": "a", "summary": "Of the API"})
    paths = content["paths"]
    paths["/a"], paths["/b"] = paths["/b"], paths["/a"]
    report = import_document(tenant, content)
    assert (report.moved, report.added, report.removed) == (2, 0, 0)
    assert dict(Tool.objects.values_list("tool_id", "description")) == {
        "a": "Of the API",
        "b": "Does b as the shop wants it.",
    }
    paths["/d"], paths["/b"] = paths["/b"], document("new")["paths"]["/new"]
    report = import_document(tenant, content)
    assert (report.moved, report.added, report.removed) == (1, 1, 0)
    assert Tool.objects.get(tool_id="a").description == "Of the API"
    assert Tool.objects.get(tool_id="new").description == "Does new as the shop wants it."
    assert import_document(tenant, content).unchanged == 3
