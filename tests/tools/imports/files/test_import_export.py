"""Importing an export: what happens to tools that exist already, and what the commands say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import call_command

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.imports.exports import (
    ENTRY,
    FORMATS,
    Capture,
    Maker,
    edit,
    export_of,
    read_into,
    shop,
    written,
)
from tests.support.waits import own_transactions
from tools.catalogue.tools import create_tool
from tools.imports.files.import_export import FAIL, UPDATE, Conflicts
from tools.models import Endpoint, ManualOverride, Source, Tool

pytestmark = pytest.mark.usefixtures("allowed_secrets")


# --- What is there already --------------------------------------------------------------------------------------------
def changed_export(tenant: Tenant) -> str:
    """An export of the shop, from before somebody edited a tool, a source and a new tool of their own."""
    shop(tenant)
    text = written()
    edit("pets", description="Newer than the file.")
    Source.objects.filter(slug="shop").update(title="Renamed")
    return text


def test_what_exists_and_differs_is_left_as_it_is_and_counted(tenant: Tenant) -> None:
    text = changed_export(tenant)
    before = written()
    report = read_into(tenant, text)
    assert (report.added, report.changed, report.unchanged, report.skipped) == (0, 0, 2, 1)
    assert report.warnings == ["The source shop keeps its own title."]
    assert written() == before


def test_what_exists_and_differs_is_overwritten_where_that_is_wanted(tenant: Tenant) -> None:
    text = changed_export(tenant)
    ids = dict(Tool.objects.values_list("tool_id", "pk"))
    report = read_into(tenant, text, on_conflict=UPDATE)
    assert (report.changed, report.unchanged, report.skipped, report.warnings) == (1, 2, 0, [])
    assert written() == text
    assert dict(Tool.objects.values_list("tool_id", "pk")) == ids
    pets = Tool.objects.get(tool_id="pets")
    assert (pets.updated_by, pets.version) == ("importer", 4)


def test_overrides_that_the_file_does_not_have_go_with_an_overwritten_tool_syn_5(tenant: Tenant) -> None:
    import_document(tenant, document("pets"))
    text = written()
    edit("pets", description="Mine.", owner="olga")
    read_into(tenant, text, on_conflict=UPDATE)
    assert written() == text
    assert not ManualOverride.objects.exists()


def test_nothing_is_stored_where_a_conflict_is_to_fail(tenant: Tenant, make_tenant: Maker) -> None:
    text = changed_export(tenant)
    added = json.dumps({**ENTRY, "tool_id": "new"}) + "\n" + text
    before = written()
    with pytest.raises(Conflicts, match="the source shop, shop/pets") as raised:
        read_into(tenant, added, on_conflict=FAIL)
    assert raised.value.names == ["the source shop", "shop/pets"]
    assert written() == before
    assert read_into(make_tenant(), text, on_conflict=FAIL).added == 3


def test_a_dry_run_says_the_same_and_stores_nothing(tenant: Tenant, make_tenant: Maker) -> None:
    shop(tenant)
    text, other = written(), make_tenant()
    report = read_into(other, text, dry_run=True)
    assert (report.added, report.dry_run) == (3, True)
    assert export_of(other) == ""
    with tenant_context(other.pk):
        assert not Source.objects.exists()


def test_a_tool_here_that_follows_another_endpoint_is_left_alone(tenant: Tenant, make_tenant: Maker) -> None:
    other = make_tenant()
    import_document(other, document("pets"))
    with tenant_context(other.pk):
        text = written()
    import_document(tenant, {**document("pets"), "paths": {"/other": document("pets")["paths"]["/pets"]}})
    report = read_into(tenant, text, on_conflict=UPDATE)
    assert [one["reason"] for one in report.left_out] == [
        "the tool shop/pets follows another endpoint here, /other@get"
    ]
    assert Endpoint.objects.count() == 1


def test_a_tool_written_by_hand_may_become_a_sources(tenant: Tenant, make_tenant: Maker) -> None:
    other = make_tenant()
    import_document(other, document("pets"))
    with tenant_context(other.pk):
        text = written()
    create_tool(actor="x", tool_id="pets", namespace="shop", name="mine")
    assert read_into(tenant, text, on_conflict=UPDATE).changed == 1
    assert written() == text


def test_a_server_that_is_not_allowed_here_is_told_and_its_tools_come_all_the_same_cat_3(
    tenant: Tenant,
) -> None:
    server = {"slug": "lab", "title": "", "url": "", "command_id": "rm-rf", "headers": {}}
    source = {"slug": "lab", "kind": "mcp", "schedule": "daily", "server": server}
    report = read_into(tenant, json.dumps({**ENTRY, "source": source}))
    assert (report.added, report.left_out) == (1, [])
    assert len(report.warnings) == 1
    assert report.warnings[0].startswith("The MCP server lab was not taken over: ")
    lab = Source.objects.get(slug="lab")
    assert (lab.server, lab.schedule, lab.next_sync_at) == (None, "", None)


def test_a_server_and_a_schedule_come_back_and_the_first_sync_is_not_due_at_once_cat_3(
    tenant: Tenant, make_tenant: Maker
) -> None:
    shop(tenant)
    lab = Source.objects.select_related("server").get(slug="lab")
    create_tool(actor="x", tool_id="t", name="t")
    Tool.objects.filter(tool_id="t").update(source=lab)
    text, other = written(), make_tenant()
    read_into(other, text)
    assert export_of(other) == text
    with tenant_context(other.pk):
        lab = Source.objects.select_related("server").get(slug="lab")
        assert (lab.server.slug, lab.schedule, lab.auto_apply) == ("lab", "daily", True)
        assert lab.next_sync_at is not None


# --- The commands -----------------------------------------------------------------------------------------------------
def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    try:
        call_command(*arguments)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    return code, *capsys.readouterr()


@FORMATS
def test_the_commands_write_a_file_and_read_it_back(
    committed: Tenant, make_tenant: Maker, tmp_path: Path, capsys: Capture, file_format: str
) -> None:
    with tenant_context(committed.pk), own_transactions():
        shop(committed)
        text = written(file_format)
    path, other = tmp_path / "tools", make_tenant()
    to_file = ("--tenant", committed.slug, "--format", file_format)
    code, out, err = run(capsys, "export_tools", *to_file, "-o", str(path), "--json")
    assert (code, err, json.loads(out)) == (0, "", {"file": str(path), "format": file_format, "tools": 3})
    assert path.read_text("utf-8") == text
    assert [one.name for one in tmp_path.iterdir()] == ["tools"]
    code, out, err = run(capsys, "export_tools", *to_file, "--json")
    assert (code, out, json.loads(err)["tools"]) == (0, text, 3)
    code, out, err = run(capsys, "import_tools", str(path), "--tenant", other.slug, "--json")
    assert (code, err, json.loads(out)["added"]) == (0, "", 3)
    assert export_of(other, file_format) == text
    code, out, _ = run(capsys, "import_tools", str(path), "--tenant", other.slug)
    assert (code, "3 unchanged" in out) == (0, True)


def test_the_commands_exit_codes_say_what_became_of_it(
    committed: Tenant, tmp_path: Path, capsys: Capture
) -> None:
    with tenant_context(committed.pk), own_transactions():
        text = changed_export(committed)
    path = tmp_path / "tools.jsonl"
    path.write_bytes(text.encode() + b"{\n")
    where = (str(path), "--tenant", committed.slug)
    code, out, _ = run(capsys, "import_tools", *where)
    assert (code, "left out: line 4: is no JSON" in out) == (1, True)
    code, out, err = run(capsys, "import_tools", *where, "--on-conflict", "fail", "--json")
    assert (code, json.loads(out)) == (3, {"conflicts": ["the source shop", "shop/pets"]})
    assert err.startswith(
        "Nothing was stored, because the catalogue has other contents for the source shop, shop/pets."
    )
    assert run(capsys, "import_tools", *where, "--source", "x")[0] == 2
    assert run(capsys, "export_tools", "--tenant", committed.slug, "--source", "nowhere")[0] == 2
    code, _, err = run(capsys, "export_tools", "--tenant", committed.slug, "-o", str(tmp_path / "no" / "way"))
    assert (code, "cannot be written" in err) == (3, True)


def test_tools_that_somebody_wrote_can_be_told_to_fail_too(
    committed: Tenant, tmp_path: Path, capsys: Capture
) -> None:
    with tenant_context(committed.pk):
        create_tool(actor="olga", tool_id="a", name="a", description="By hand.")
    path = tmp_path / "tools.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b"}\n')
    where = (str(path), "--tenant", committed.slug)
    code, out, err = run(capsys, "import_tools", *where, "--on-conflict", "fail", "--json")
    assert (code, json.loads(out)) == (3, {"conflicts": ["a"]})
    assert err.strip().endswith(
        "for a. Give them other ids, or leave --on-conflict out to import the others."
    )
    assert run(capsys, "import_tools", *where)[0] == 1
    with tenant_context(committed.pk):
        assert set(Tool.objects.values_list("tool_id", flat=True)) == {"a", "b"}


def test_tools_of_a_source_stay_in_its_namespace(committed: Tenant, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "ours.jsonl"
    where = (str(path), "--tenant", committed.slug)
    path.write_text('{"id": "a"}\n')
    assert run(capsys, "import_tools", *where, "--namespace", "A")[0] == 0
    path.write_text('{"id": "a", "description": "Newer."}\n{"id": "b"}\n')
    code, _, err = run(capsys, "import_tools", *where, "--namespace", "B")
    assert (code, err.strip()) == (
        3,
        "The tools of the source ours are in the namespace A. Leave --namespace out, or give the file another --source.",
    )
    assert run(capsys, "import_tools", *where)[0] == 0
    with tenant_context(committed.pk):
        assert set(Tool.objects.values_list("namespace", "tool_id", "description")) == {
            ("A", "a", "Newer."),
            ("A", "b", ""),
        }
    assert run(capsys, "import_tools", *where, "--namespace", "B", "--source", "theirs")[0] == 0
    with tenant_context(committed.pk):
        assert Tool.objects.filter(namespace="B").count() == 2
