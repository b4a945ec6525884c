"""Tools as a file and back again, without loss (done when: export_tools / import_tools round trip with overrides)."""

from __future__ import annotations

import json
import resource
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embeddings.models import EmbeddingTask
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.counts import scaled, share_of_full_count
from tests.support.imports.documents import document, import_document
from tests.support.imports.exports import ENTRY, FORMATS, Maker, export_of, read_into, shop, written
from tests.support.waits import own_transactions
from tools import demo
from tools.catalogue.tools import create_tool
from tools.imports.files import export as exports
from tools.imports.files.import_export import import_export
from tools.imports.formats import tool_files
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing import service
from tools.imports.syncing.documents import tool_file
from tools.models import Endpoint, ManualOverride, McpServer, Source, SourceDocument, Tool, ToolEmbedding

pytestmark = pytest.mark.usefixtures("allowed_secrets")


@FORMATS
def test_a_file_is_the_same_after_it_was_imported_into_an_empty_tenant_syn_5(
    tenant: Tenant, make_tenant: Maker, make_tool: Maker, file_format: str
) -> None:
    demo.import_demo(demo.parse_demo(), tenant_id=tenant.pk, actor="test")
    shop(tenant)
    # One and the same if somebody just puts a slash between them.
    make_tool(namespace="a/b", tool_id="c")
    make_tool(namespace="a", tool_id="b/c")
    make_tool(tool_id="by hand", estimated_cost="0.25", target_personas=["a"], output={"type": "object"})
    text, other = written(file_format), make_tenant()
    report = read_into(other, text)
    assert (report.tools, report.added, report.left_out, report.warnings) == (70, 70, [], [])
    assert export_of(other, file_format) == text
    again = read_into(other, text)
    assert (again.tools, again.unchanged) == (70, 70)


def test_a_later_sync_of_the_real_document_finds_nothing_new_and_keeps_the_overrides_syn_5(
    tenant: Tenant, make_tenant: Maker
) -> None:
    shop(tenant)
    text, other = written(), make_tenant()
    read_into(other, text)
    same = import_document(other, document("pets", "orders", "users"))
    assert (same.added, same.changed, same.removed, same.unchanged, same.protected) == (0, 0, 0, 3, 2)
    moved_on = import_document(
        other, document("pets", "orders", "users", pets="It has moved on, as shops do.")
    )
    assert (moved_on.changed, moved_on.conflicts) == (1, 1)
    with tenant_context(other.pk):
        pets = Tool.objects.get(tool_id="pets")
        assert (pets.description, pets.tags) == ("Mine.\r\n\tWith lines", ["ours"])
        assert Endpoint.objects.get(key="/pets@get").description == "It has moved on, as shops do."
        override = ManualOverride.objects.get(tool=pets, field="description")
        assert (override.made_by, override.imported_value) == ("olga", "Does pets as the shop wants it.")
        assert not Tool.objects.get(tool_id="users").active


def test_layers_of_an_endpoint_come_back_syn_3(tenant: Tenant, make_tenant: Maker) -> None:
    import_document(tenant, document("pets", "orders"))
    described = {
        "lightapi": "0.1.0",
        "info": {"title": "Shop", "namespace": "shop", "version": "1"},
        "operations": {
            "pets": {"protocol": "http", "source": "s", "operationId": "pets", "summary": "Our pets"}
        },
    }
    import_document(tenant, described)
    text, other = written(), make_tenant()
    assert "Our pets" in text
    read_into(other, text)
    assert export_of(other) == text
    same = import_document(other, described)
    assert (same.changed, same.unchanged) == (0, 1)


def test_embeddings_are_wanted_in_the_transaction_of_the_import_emb_2(
    tenant: Tenant, make_tenant: Maker
) -> None:
    shop(tenant)
    text, other = written(), make_tenant()
    with pytest.raises(ZeroDivisionError), tenant_context(other.pk), own_transactions():
        read_into(other, text)
        assert ToolEmbedding.objects.count() == 3
        assert EmbeddingTask.objects.filter(tenant_id=other.pk).count() == 2  # one tool is not active
        raise ZeroDivisionError
    assert not EmbeddingTask.objects.filter(tenant_id=other.pk).exists()
    assert export_of(other) == ""


ODD = st.sampled_from(
    ["1e3", "-.5", "on", "null", "<<", "a: b", "- x\n- y", "---", "{", "\r\n", "a\r\nb\n", " lead\n", "x\n\n", "\u2028\x85", "\x1b[2J",
     "\ufeff", "tab\t", "'\"", "*a", "2024-01-31", "🐈", "e\u0301"]
)  # fmt: skip
# PostgreSQL holds neither NUL nor half of a surrogate pair, and no entry point lets one in.
TEXT = ODD | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=30)
SHORT = TEXT.map(lambda text: text.strip()[:100])
NAME = st.tuples(st.just("n"), SHORT).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.just("version"), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
OBJECT = st.dictionaries(TEXT | st.just("version"), VALUES, max_size=3)
TOOLS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "tool_id": NAME, "namespace": NAME, "name": NAME, "description": TEXT, "tags": st.lists(TEXT, max_size=3),
        "use_cases": st.lists(TEXT, max_size=2), "category": SHORT, "owner": SHORT, "parameters": OBJECT, "annotations": OBJECT,
        "output": st.none() | OBJECT, "semantic_weight": st.floats(0.1, 3.0), "active": st.booleans(), "core": st.booleans(),
        "estimated_cost": st.none() | st.decimals("-99999", "99999", places=6),
        "lifecycle": st.sampled_from(["active", "deprecated", "retired"]),
    }
)  # fmt: skip
ENDPOINTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "key": NAME, "method": st.sampled_from(["get", "call", ""]), "path": TEXT, "name": NAME, "title": TEXT, "description": TEXT,
        "tags": st.lists(TEXT, max_size=3), "input_schema": OBJECT, "output_schema": st.none() | OBJECT,
        "metadata": st.dictionaries(NAME, VALUES, max_size=2), "deprecated": st.booleans(), "active": st.booleans(),
        "deactivated_tool": st.booleans(), "content_hash": st.text("0123456789abcdef", min_size=64, max_size=64),
    }
)  # fmt: skip
OVERRIDES = st.dictionaries(
    st.just("description") | NAME.map(lambda name: f"parameters.{name}"),
    st.tuples(TEXT, TEXT, NAME),
    max_size=2,
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    made=st.lists(
        st.tuples(TOOLS, st.none() | st.tuples(ENDPOINTS, OVERRIDES)),
        min_size=1,
        max_size=4,
        unique_by=(lambda one: str((one[0]["namespace"], one[0]["tool_id"])), lambda one: str(one[1][0]["key"] if one[1] else one[0]["tool_id"])),
    ),
    file_format=st.sampled_from(exports.FORMATS),
)  # fmt: skip
def test_whatever_a_tool_holds_comes_back_syn_5(
    tenant: Tenant, make_tenant: Maker, made: list[Any], file_format: str
) -> None:
    Source.objects.all().delete()
    Tool.objects.all().delete()
    source = Source.objects.create(slug="any", kind="openapi", title=made[0][0]["name"])
    for fields, followed in made:
        endpoint = None
        if followed is not None:
            endpoint = Endpoint.objects.create(source=source, **followed[0])
        tool = Tool.objects.create(source=source if endpoint else None, endpoint=endpoint, **fields)
        for field, (value, imported, who) in followed[1].items() if followed else ():
            ManualOverride.objects.create(
                tool=tool, field=field, value=value, imported_value=imported, made_by=who
            )
    text, other = written(file_format), make_tenant()
    report = read_into(other, text)
    assert (report.left_out, report.added) == ([], len(made))
    assert export_of(other, file_format) == text


def test_a_large_file_is_read_in_slices_whose_lines_keep_their_numbers() -> None:
    lines = [f'{{"tool_id": "t{number}"}}' for number in range(2_500)]
    lines[1_200:1_200] = ["", "", '{"tool_id": 7}']
    parts = list(tool_files.split_file("\n".join(lines).encode()))
    assert len(parts) == 3
    left_out = [one for part in parts for one in tool_files.parse_tools(part).left_out]
    assert [one.operation for one in left_out] == ["line 1203"]
    assert sum(tool_files.parse_tools(part).operations for part in parts) == 2_501


def test_every_column_is_exported_or_named_as_none_of_a_persons_or_sources() -> None:
    """A column that somebody adds to a model fails this test until somebody decides about it."""
    left = {"id", "tenant", "created_at", "updated_at"}
    bookkeeping = {
        Source: {"server", "synced_at", "next_sync_at", "failures", "last_error"},
        Endpoint: {"source"},
        McpServer: {"health", "synced_at", "last_error"},
        ManualOverride: {"tool"},
        Tool: {"source", "endpoint", "version", "updated_by", "search_text", "download_count"},
    }
    fields = {
        Source: exports.SOURCE_FIELDS, Endpoint: exports.ENDPOINT_FIELDS, McpServer: exports.SERVER_FIELDS,
        ManualOverride: exports.OVERRIDE_FIELDS, Tool: exports.TOOL_FIELDS,
    }  # fmt: skip
    for model, names in fields.items():
        columns: Any = {field.name for field in model._meta.concrete_fields}
        assert columns - left - bookkeeping[model] == set(names), model


def rows_ids() -> set[str]:
    models = (Tool, Endpoint, Source, SourceDocument, ManualOverride, McpServer, ToolEmbedding)
    return {str(pk) for model in models for pk in model.objects.values_list("pk", flat=True)}


def test_an_export_has_no_ids_of_rows_no_vectors_and_nothing_of_another_tenant_sec_2(
    tenant: Tenant, make_tenant: Maker, make_tool: Maker
) -> None:
    shop(tenant)
    other = make_tenant()
    with tenant_context(other.pk):
        create_tool(actor="x", tool_id="theirs", name="canary of another tenant")
    text = written()
    hidden = {*rows_ids(), str(tenant.pk), "canary", "vector", "source_hash", "search_text", "last_error"}
    assert [one for one in hidden if one in text] == []
    # The way to see it fail: an id that is in a text is found.
    leak = make_tool(tool_id="leak", description=str(Tool.objects.first().pk))
    assert leak.description in written()
    assert rows_ids() & {one for one in rows_ids() if one in written()}


# --- The file ---------------------------------------------------------------------------------------------------------
def test_tools_of_one_source_are_exported_alone(tenant: Tenant, make_tool: Maker) -> None:
    shop(tenant)
    make_tool(tool_id="by_hand")
    assert len(written().splitlines()) == 4
    assert [json.loads(line)["tool_id"] for line in written(source="shop").splitlines()] == [
        "orders",
        "pets",
        "users",
    ]


def test_tools_stand_in_the_order_of_their_bytes(tenant: Tenant, make_tool: Maker) -> None:
    for tool_id in ("b", "a", "B", "_", "ä", "a-b", "ab"):
        make_tool(tool_id=tool_id)
    found = [json.loads(line)["tool_id"] for line in written().splitlines()]
    assert found == sorted(found, key=str.encode)


SERVER = {"slug": "lab", "url": "https://example.com/mcp"}
SOURCE = {"slug": "s", "kind": "openapi"}
ENDPOINT: dict[str, Any] = {"key": "/t@get", "method": "get", "path": "/t", "name": "t"}
OVERRIDE = {"field": "description", "value": "a", "imported_value": "b", "made_by": "o", "made_at": "2026-01-31T12:00:00Z"}  # fmt: skip
FOLLOWED = {**ENTRY, "source": SOURCE, "endpoint": ENDPOINT}


WRONG: list[tuple[Any, str]] = [
    ("{", "is no JSON"),
    ("[" * 100_000, "is nested too deeply"),
    ({"id": "t"}, "has no tool_id"),
    ({"tool_id": 7}, "has no tool_id"),
    ({"tool_id": " "}, "has an empty tool_id"),
    ({**ENTRY, "tool_id": "x" * 201}, "the field tool_id does not fit"),
    ({**ENTRY, "uuid": 1}, "the field uuid is not known"),
    ({**ENTRY, "name": None}, "the field name is not a text"),
    ({**ENTRY, "tags": "a"}, "the field tags is not a list of texts"),
    ({**ENTRY, "active": 1}, "the field active is not true or false"),
    ({**ENTRY, "semantic_weight": 9}, "the field semantic_weight does not fit"),
    ({**ENTRY, "semantic_weight": "1"}, "the field semantic_weight is not a number"),
    ({**ENTRY, "estimated_cost": "much"}, "the field estimated_cost is not a number"),
    ({**ENTRY, "sensitivity": "secret"}, "the field sensitivity is none of public, internal"),
    ({**ENTRY, "parameters": []}, "the field parameters is not a JSON object"),
    ({**ENTRY, "description": "a\x00"}, "holds a NUL character"),
    ({**ENTRY, "annotations": {"a": float("inf")}}, "holds a number that JSON does not have"),
    ({**ENTRY, "endpoint": ENDPOINT}, "has an endpoint and no source"),
    ({**ENTRY, "overrides": [OVERRIDE]}, "has overrides and no endpoint"),
    ({**ENTRY, "source": "s"}, "the field source is not a JSON object"),
    ({**ENTRY, "source": {"slug": "S P", "kind": "openapi"}}, "the field source.slug does not fit"),
    ({**ENTRY, "source": {"slug": "s", "kind": "soap"}}, "the field source.kind is none of openapi, mcp"),
    ({**ENTRY, "source": {**SOURCE, "url": "javascript:alert(1)"}}, "the field source.url is no address of HTTP"),
    ({**ENTRY, "source": {"slug": "s"}}, "has a source without a slug or a kind"),
    ({**ENTRY, "tool_id": "n1", "source": {"slug": "n", "kind": "manual", "url": "https://example.com/"}}, "url: A file of tools is imported, and not"),
    ({**ENTRY, "tool_id": "n2", "source": {"slug": "n", "kind": "openapi", "schedule": "daily"}}, "schedule: The source has no address"),
    ({**ENTRY, "tool_id": "n3", "source": {"slug": "n", "kind": "mcp", "url": "https://example.com/", "server": SERVER}}, "a URL or an MCP server, not both"),
    ({**ENTRY, "tool_id": "n4", "source": {"slug": "n", "kind": "openapi", "server": SERVER}}, "Only a source of kind MCP"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "key": ""}}, "has an endpoint.key that is empty"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "tags": [1]}}, "the field endpoint.tags is not a list of texts"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"tool": 1}}}, "the field endpoint.metadata.tool is not"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"tool": {"sensitivity": "x"}}}}, "metadata.tool.sensitivity is none of"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"tool": {"category": 5}}}}, "metadata.tool.category is not a text"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"tool": {"category": "x" * 101}}}}, "tool.category does not fit"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"tool": {"tech_stack": "x"}}}}, "tech_stack is not a list of texts"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"tool": {"colour": "red"}}}}, "metadata.tool.colour is not one that"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"tool": {"active": False}}}}, "metadata.tool.active is not one that"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"tool": {"namespace": "n"}}}}, "metadata.tool.namespace is not one that"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"operation_id": {}}}}, "metadata.operation_id is not a text"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"servers": "x"}}}, "metadata.servers is not a list of texts"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"routing": {"semanticKeywords": 5}}}}, "Keywords is not a list of texts"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "metadata": {"parameters": [{"in": "path"}]}}}, "without in, name and property"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "layers": {"top": {}}}}, "has endpoint.layers with 'top'"),
    ({**FOLLOWED, "endpoint": {**ENDPOINT, "layers": {"api": {"key": "k", "tags": []}}}}, "has endpoint.layers.api without deprecated"),
    ({**FOLLOWED, "overrides": [{"field": "name"}]}, "has an override without imported_value"),
    ({**FOLLOWED, "overrides": [{**OVERRIDE, "field": "active"}]}, "has an override of 'active'"),
    ({**FOLLOWED, "overrides": [{**OVERRIDE, "field": "tags"}]}, "the field override.tags is not a list of texts"),
    ({**FOLLOWED, "overrides": [OVERRIDE, OVERRIDE]}, "has two overrides of one field"),
    ({**FOLLOWED, "overrides": [{**OVERRIDE, "made_at": "yesterday"}]}, "the field override.made_at is not a moment"),
    ({**FOLLOWED, "tool_id": "u"}, "its endpoint /t@get belongs to the tool public/good"),
    ({**ENTRY, "tool_id": "good"}, "the tool public/good stands on an earlier line already"),
    ({**ENTRY, "source": {**SOURCE, "kind": "mcp"}}, "describes the source s in another way than an earlier line"),
]  # fmt: skip


def test_a_line_that_does_not_fit_is_left_out_with_its_number_and_the_reason(tenant: Tenant) -> None:
    good = json.dumps({**FOLLOWED, "tool_id": "good"})
    lines = [one if isinstance(one, str) else json.dumps(one) for one, _ in WRONG]
    report = read_into(tenant, "\n".join([good, "", *lines]))
    assert (report.tools, report.added) == (len(WRONG) + 1, 1)
    found = {one["operation"]: one["reason"] for one in report.left_out}
    for number, (_, reason) in enumerate(WRONG, 3):
        assert reason in found[f"line {number}"]
    assert [tool.tool_id for tool in Tool.objects.all()] == ["good"]
    assert [source.slug for source in Source.objects.all()] == ["s"]
    assert not McpServer.objects.exists()


def test_a_file_that_a_person_wrote_in_part_is_filled_as_the_portal_does(tenant: Tenant) -> None:
    text = "# ours\n- tool_id: t\n  tags: [a, '1']\n- tool_id: broken\n   tags: [\n- {tool_id: u, description: 12:30}\n"
    report = read_into(tenant, text)
    assert (report.added, [one["operation"] for one in report.left_out]) == (2, ["line 4"])
    t, u = Tool.objects.order_by("tool_id")
    assert (t.name, t.namespace, t.tags, t.sensitivity, t.active) == (
        "t",
        "public",
        ["a", "1"],
        "internal",
        True,
    )
    assert (u.description, u.version) == ("12:30", 1)


def test_tools_that_somebody_wrote_may_be_yaml_too(tenant: Tenant) -> None:
    def imported(text: str, name: str) -> Any:
        return service.import_document(
            tool_file(raw=text.encode(), name=name), tenant_id=tenant.pk, actor="x"
        )

    one = "---\nid: a\ntags: [x]\n---\nid: b\ndescription: |\n  - not\n  - items\n"
    assert imported(one, "docs.yaml").added == 2
    assert imported("- id: c\n  domain: office\n- id: d\n", "list.yaml").added == 2
    assert imported('[{"id": "e"},\n {"id": "f"}]', "list.json").added == 2
    assert Tool.objects.get(tool_id="b").description == "- not\n- items\n"
    assert Tool.objects.get(tool_id="c").routing_domain == "office"


def test_a_file_of_both_forms_is_refused_where_the_form_changes() -> None:
    lines = '{"tool_id": "a"}\n' * 1_000 + '{"id": "b"}\n'
    with pytest.raises(DocumentRefused, match="they have no tool_id"):
        import_export(tenant_id=uuid.uuid4(), raw=lines.encode(), name="t.jsonl", actor="x")


@share_of_full_count()
def test_many_tools_go_out_and_come_in_by_the_thousand(
    committed: Tenant, make_tenant: Maker, figure: Callable[[str], None], share: float
) -> None:
    count = scaled(1_000 * share)
    import_document(committed, document(*(f"operation_{number}" for number in range(count))))
    for file_format in exports.FORMATS:
        begun = time.monotonic()
        text, other = export_of(committed, file_format), make_tenant()
        out, begun = time.monotonic() - begun, time.monotonic()
        assert read_into(other, text).added == count
        into, begun = time.monotonic() - begun, time.monotonic()
        assert read_into(other, text).unchanged == count
        again, room = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        figure(
            f"{count:,} tools as {file_format} ({len(text) / 1e6:.1f} MB): out {out:.1f} s, in {into:.1f} s, again {again:.1f} s; "
            f"the process never had more than {room} MB"
        )
        assert max(out, into, again) < 0.02 * count + 10


def test_a_renamed_field_keeps_its_key_in_files(tenant: Tenant) -> None:
    import_document(tenant, document("a"))
    Endpoint.objects.update(deactivated_tool=True)
    text = written()
    assert json.loads(text)["endpoint"]["took_tool_down"] is True
    assert "deactivated_tool" not in text
    Source.objects.all().delete()
    assert read_into(tenant, text).added == 1
    assert Endpoint.objects.get().deactivated_tool
