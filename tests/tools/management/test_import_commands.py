"""The commands of imports: what they say, what they store, and how they end."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from portal.jobs import services as jobs
from portal.jobs.models import JobState
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import OPENAPI, document, needs_inputs
from tests.support.imports.parsing import counted_operations
from tests.support.servers import mcp_servers
from tests.support.servers.document_server import DocumentServer, document_server
from tools.catalogue.tools import update_tool
from tools.imports.syncing.documents import tool_file
from tools.imports.syncing.service import import_document
from tools.models import ManualOverride, McpServer, Source, Sync, SyncState, Tool

Run = Callable[..., tuple[int, str, str]]
LARGE = 1_500_000  # bytes; one of these takes seconds
FILES = [
    pytest.param(path.name, marks=[pytest.mark.slow] if path.stat().st_size > LARGE else [])
    for path in sorted(OPENAPI.glob("*.*"))
]


def caller(tenant: Tenant) -> Run:
    def run(name: str, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        try:
            call_command(name, *arguments, "--tenant", tenant.slug, stdout=out, stderr=err)
            code = 0
        except SystemExit as end:
            code = int(str(end.code))
        return code, out.getvalue(), err.getvalue()

    return run


@pytest.fixture
def run(committed: Tenant) -> Run:
    """A command for a tenant with real commits, since jobs need them: exit code, stdout, stderr."""
    return caller(committed)


@pytest.fixture
def server(settings: Any) -> Iterator[DocumentServer]:
    with document_server() as running:
        settings.IMPORT_ALLOWED_HOSTS = [running.host]
        yield running


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a document to a file; returns its path."""

    def put(content: dict[str, Any], name: str = "shop.json") -> str:
        (tmp_path / name).write_text(json.dumps(content))
        return str(tmp_path / name)

    return put


@needs_inputs
@pytest.mark.parametrize("name", FILES)
def test_syn_1_every_operation_of_a_real_document_is_a_tool_or_left_out_with_its_reason(
    tenant: Tenant, name: str
) -> None:
    code, said, errors = caller(tenant)("import_openapi", str(OPENAPI / name), "--json")
    report = json.loads(said)
    assert (code, errors) == (0, "")
    assert report["operations"] == counted_operations((OPENAPI / name).read_bytes())
    assert report["operations"] == Tool.objects.count() + len(report["left_out"])
    assert report["tools"] == Tool.objects.count()
    assert all(one["operation"] and one["reason"] for one in report["left_out"])


@needs_inputs
def test_syn_1_a_zip_gives_the_operations_of_the_files_that_its_document_refers_to(
    tenant: Tenant, tmp_path: Path
) -> None:
    folder, packed = OPENAPI / "external-refs", tmp_path / "shop.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(folder.rglob("*.*")):
            archive.write(path, path.relative_to(folder))
    code, said, _ = caller(tenant)("import_openapi", str(packed), "--json")
    assert (code, json.loads(said)["operations"], Tool.objects.count()) == (0, 4, 4)


def test_syn_1_an_operation_that_is_left_out_is_counted_and_named(
    tenant: Tenant, write: Callable[..., str]
) -> None:
    content = document("a", "b")
    content["paths"]["/broken"] = {"get": ["no operation"]}
    code, said, _ = caller(tenant)("import_openapi", write(content), "--json")
    report = json.loads(said)
    assert (code, report["operations"], report["tools"]) == (0, 3, 2)
    assert [one["operation"] for one in report["left_out"]] == ["/broken@get"]


def test_syn_4_removals_of_more_than_a_fifth_end_with_3_until_they_are_confirmed(
    tenant: Tenant, write: Callable[..., str]
) -> None:
    run = caller(tenant)
    run("import_openapi", write(document("a", "b", "c")))
    shorter = write(document("a"))
    code, said, errors = run("import_openapi", shorter)
    assert (code, said) == (3, "")
    assert "2 of 3 tools would vanish" in errors
    assert "Add --confirm-removals." in errors
    assert Tool.objects.filter(active=True).count() == 3
    for flag in ("--confirm-removals", "--yes"):
        code, said, _ = run("import_openapi", shorter, flag)
        assert code == 0
    assert Tool.objects.filter(active=True).count() == 1
    assert "1 unchanged" in said


def test_syn_4_the_report_says_what_moved_and_what_is_in_conflict(
    tenant: Tenant, write: Callable[..., str]
) -> None:
    run = caller(tenant)
    run("import_openapi", write(document("a", "b")))
    tool = Tool.objects.get(tool_id="a")
    update_tool(pk=tool.pk, expected_version=1, changes={"description": "Mine."}, actor="test")
    content = document("a", "b", a="Does it otherwise.")
    content["paths"]["/new"] = content["paths"].pop("/b")
    code, said, _ = run("import_openapi", write(content))
    assert code == 0
    assert "0 added, 1 changed, 1 moved, 0 removed" in said
    assert "1 protected by an override, 1 in conflict with one" in said


def test_syn_2_a_command_becomes_a_server_that_the_source_is_synced_from(
    committed: Tenant, run: Run, settings: Any, tmp_path: Path, write: Callable[..., str]
) -> None:
    lamps = '{"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in %r]}'
    mcp_servers.allow(settings, tmp_path, lamps=["false"])
    assert run("import_mcp", "--command", "lamps")[0] == 3
    with tenant_context(committed.pk):
        assert not McpServer.objects.exists()
    mcp_servers.allow(settings, tmp_path, lamps=mcp_servers.plain(lamps % ["lamp_on"]))
    run("import_openapi", write(document("a")), "--source", "taken")
    assert run("import_mcp", "--command", "lamps", "--source", "taken")[0] == 3
    assert run("import_mcp", "--command", "lamps", "--dry-run")[0] == 0
    with tenant_context(committed.pk):
        assert not McpServer.objects.exists()
    for _ in range(2):
        assert run("import_mcp", "--command", "lamps", "--json")[0] == 0
        with tenant_context(committed.pk):
            assert McpServer.objects.get().health == "healthy"
    mcp_servers.allow(settings, tmp_path, lamps=["false"])
    assert run("import_mcp", "--command", "lamps")[0] == 3
    with tenant_context(committed.pk):
        assert McpServer.objects.get().health == "failing"
    mcp_servers.allow(settings, tmp_path, lamps=mcp_servers.plain(lamps % ["lamp_on", "lamp_off"]))
    code, said, errors = run("sync_source", "lamps", "--apply", "--json", "--no-progress")
    assert (code, json.loads(said)["summary"]["added"]) == (0, 1), errors
    with tenant_context(committed.pk):
        server = McpServer.objects.get()
        assert (server.slug, server.command_id, server.health) == ("lamps", "lamps", "healthy")
        assert Source.objects.get(slug="lamps").server == server
        assert Tool.objects.filter(source__slug="lamps").count() == 2


def test_syn_4_sync_source_plans_as_a_job_and_applies_when_told(
    committed: Tenant, run: Run, server: DocumentServer, tmp_path: Path
) -> None:
    url = server.put("/shop.json", document("a", "b"))
    assert run("import_openapi", url, "--source", "shop")[0] == 0
    code, said, _ = run("sync_source", "shop", "--no-progress")
    assert (code, said) == (0, "shop: nothing has changed since the last sync.\n")
    server.put("/shop.json", document("a", "b", "c", a="Does it otherwise."))
    plan = tmp_path / "plan.json"
    code, said, _ = run("sync_source", "shop", "--no-progress", "--plan", str(plan))
    assert code == 0
    assert said.splitlines()[0].startswith(
        "shop: planned: 1 added, 1 changed, 0 moved, 0 removed, 1 unchanged"
    )
    assert "  + c (/c@get)" in said
    assert "  ~ a (/a@get): description" in said
    written = json.loads(plan.read_text())
    assert [(one["action"], one["key"]) for one in written["changes"]] == [
        ("add", "/c@get"),
        ("change", "/a@get"),
    ]
    with tenant_context(committed.pk):
        assert Tool.objects.count() == 2
    code, said, _ = run("sync_source", "shop", "--no-progress", "--apply", "--json")
    found = json.loads(said)
    assert (code, found["state"], found["summary"]["added"], "changes" in found) == (0, "applied", 1, False)
    with tenant_context(committed.pk):
        assert Tool.objects.count() == 3
        assert Sync.objects.get(pk=found["sync"]).state == SyncState.APPLIED
        assert {job.kind for job in jobs.jobs()} == {"sync_source"}
        assert jobs.jobs().count() == 3


def test_syn_4_sync_source_needs_a_confirmation_of_removals_and_then_ends_well(
    committed: Tenant, run: Run, server: DocumentServer
) -> None:
    url = server.put("/shop.json", document("a", "b", "c"))
    run("import_openapi", url, "--source", "shop")
    server.put("/shop.json", document("a"))
    for _ in range(2):  # the second time the plan waits already
        code, _, errors = run("sync_source", "shop", "--apply", "--no-progress")
        assert code == 3
        assert "2 of 3 tools would vanish" in errors
        assert "manage.py sync_source shop --apply --confirm-removals" in errors
    with tenant_context(committed.pk):
        assert Tool.objects.filter(active=True).count() == 3
    assert run("sync_source", "shop", "--apply", "--yes", "--no-progress")[0] == 0
    with tenant_context(committed.pk):
        assert Tool.objects.filter(active=True).count() == 1


def test_syn_4_what_cannot_be_read_is_refused_alone_and_is_some_of_all(
    committed: Tenant, run: Run, server: DocumentServer, write: Callable[..., str]
) -> None:
    run("import_openapi", server.put("/shop.json", document("a")), "--source", "shop")
    run("import_openapi", server.put("/gone.json", document("b")), "--source", "gone")
    run("import_openapi", write(document("c")), "--source", "typed")
    del server.documents["/gone.json"]
    import_document(tool_file(raw=b'{"id": "t"}', name="ours.jsonl"), tenant_id=committed.pk, actor="olga")
    with tenant_context(committed.pk):
        Source.objects.filter(slug="ours").update(url="https://example.com/")
        Tool.objects.filter(tool_id="t").update(active=False)
    code, said, errors = run("sync_source", "gone", "--no-progress", "--json")
    assert (code, errors.strip()) == (3, f"gone: {json.loads(said)['error']}")
    assert "answered 404" in errors
    assert run("sync_source", "typed", "--no-progress")[0] == 2
    with tenant_context(committed.pk):
        assert set(Sync.objects.values_list("created_by", flat=True)) == {"command line", "olga"}
    assert run("sync_source", "nothing", "--no-progress")[0] == 2
    code, said, _ = run("sync_source", "--all", "--no-progress", "--json")
    assert code == 1
    assert [(one["source"], "error" in one) for one in json.loads(said)["sources"]] == [
        ("gone", True),
        ("shop", False),
    ]
    with tenant_context(committed.pk):
        assert Tool.objects.filter(active=True).count() == 3


def test_syn_4_a_detached_sync_is_a_queued_job(committed: Tenant, run: Run, server: DocumentServer) -> None:
    run("import_openapi", server.put("/shop.json", document("a")), "--source", "shop")
    code, said, errors = run("sync_source", "shop", "--detach", "--json")
    assert (code, json.loads(said)["state"]) == (0, "queued")
    assert "No worker is consuming queue jobs" in errors
    with tenant_context(committed.pk):
        assert jobs.find(json.loads(said)["job"]).effective_state == JobState.QUEUED
    code, _, errors = run("sync_source", "shop", "--no-progress")
    assert (code, "jobs watch" in errors) == (3, True)


@pytest.fixture
def edited(tenant: Tenant, write: Callable[..., str]) -> Tenant:
    """A tenant whose two imported tools were edited."""
    caller(tenant)("import_openapi", write(document("a", "b")))
    for tool in Tool.objects.all():
        changes = {"description": f"Mine of {tool.name}.", "tags": ["mine"]}
        update_tool(pk=tool.pk, expected_version=1, changes=changes, actor="test")
    return tenant


def test_syn_5_reset_overrides_shows_the_difference_and_resets_only_when_told(edited: Tenant) -> None:
    run = caller(edited)
    code, said, errors = run("reset_overrides", "--all", "--dry-run")
    assert (code, said) == (0, "4 overrides would be reset.\n")
    assert "a: description\n  - Mine of a.\n  + Does a as the shop wants it.\n" in errors
    assert 'b: tags\n  - ["mine"]\n  + ["shop"]\n' in errors
    code, said, errors = run("reset_overrides", "--all", "--json")  # nobody can be asked here
    assert (code, said) == (2, "")
    assert "Add --yes" in errors
    assert ManualOverride.objects.count() == 4


def test_syn_5_reset_overrides_of_a_field_of_a_tool_of_a_source_and_of_all(edited: Tenant) -> None:
    run = caller(edited)
    code, said, _ = run("reset_overrides", "a", "--namespace", "shop", "--field", "tags", "--yes", "--json")
    found = json.loads(said)
    assert (code, found["reset"], len(found["overrides"])) == (0, 1, 1)
    assert (
        found["overrides"][0] | {"tool": "a", "field": "tags", "value": ["mine"], "imported": ["shop"]}
        == found["overrides"][0]
    )
    tool = Tool.objects.get(tool_id="a")
    assert (tool.tags, tool.description) == (["shop"], "Mine of a.")
    assert run("reset_overrides", str(tool.pk), "--yes")[:2] == (0, "1 override reset.\n")
    assert Tool.objects.get(tool_id="a").description == "Does a as the shop wants it."
    assert run("reset_overrides", "--source", "shop", "--field", "description", "--yes")[:2] == (
        0,
        "1 override reset.\n",
    )
    assert run("reset_overrides", "--all", "--yes")[:2] == (0, "1 override reset.\n")
    assert run("reset_overrides", "--all", "--yes")[:2] == (0, "0 overrides reset.\n")
    assert not ManualOverride.objects.exists()


@pytest.mark.parametrize(
    "arguments",
    [(), ("a", "--all"), ("nothing",), ("--source", "nothing"), ("--all", "--field", "shoe_size")],
    ids=["none", "two", "tool", "source", "field"],
)  # fmt: skip
def test_reset_overrides_of_what_is_not_there_ends_with_2(edited: Tenant, arguments: tuple[str, ...]) -> None:
    code, said, errors = caller(edited)("reset_overrides", *arguments, "--yes")
    assert (code, said) == (2, "")
    assert errors.strip()
    assert ManualOverride.objects.count() == 4
