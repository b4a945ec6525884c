"""SYN-1: the entry points of an import: what is refused stores nothing and says so in one sentence; files of tools; two at once."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import INPUTS, document, import_document, needs_inputs
from tests.support.imports.syncs import fingerprints
from tests.support.overrides import reset_override
from tests.support.threads import together
from tools.catalogue import sources
from tools.catalogue.errors import Busy, CatalogueError, Invalid
from tools.catalogue.tools import create_tool, update_tool
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import slug_of, tool_file
from tools.imports.syncing.service import import_document as import_incoming
from tools.models import Endpoint, Source, SourceDocument, Tool

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    try:
        call_command(*arguments)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    return code, *capsys.readouterr()


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


REFUSED = {
    "empty.json": "", "half.json": '{"openapi": "3.0.0", ', "list.json": "[]", "text.txt": "hello", "not-utf8.json": b"\xff\xfe\x00a",
    "version-9.json": '{"openapi": "9.0.0", "info": {}, "paths": {}}', "no-paths.json": '{"openapi": "3.0.0", "info": {"title": "a"}}',
    "bomb.yaml": "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(12)),
    "tag.yaml": "openapi: !!python/object/apply:os.system ['true']\n",
    "deep.json": '{"a":' * 5000 + "1" + "}" * 5000,
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_syn_1_a_refused_document_is_exit_code_3_one_sentence_and_nothing_stored(
    committed: Tenant, tmp_path: Path, capsys: Capture, name: str
) -> None:
    before = fingerprints(committed)
    path = write(tmp_path, name, REFUSED[name])
    code, out, err = run(capsys, "import_openapi", path, "--tenant", committed.slug, "--json")
    assert (code, out) == (3, "")
    assert len(err.strip().splitlines()) == 1
    assert err.startswith(name)
    assert fingerprints(committed) == before
    with tenant_context(committed.pk):
        assert not Source.objects.exists()


def test_case_18_a_broken_document_leaves_the_good_import_before_it_alone(
    committed: Tenant, tmp_path: Path, capsys: Capture
) -> None:
    import_document(committed, document("a", "b"))
    before = fingerprints(committed)
    path = write(tmp_path, "shop.json", "{")
    assert run(capsys, "import_openapi", path, "--tenant", committed.slug)[0] == 3
    assert fingerprints(committed) == before


def test_usage_a_missing_file_and_an_unknown_tenant(
    committed: Tenant, tmp_path: Path, capsys: Capture
) -> None:
    code, out, err = run(
        capsys, "import_openapi", str(tmp_path / "no.json"), "--tenant", committed.slug, "--json"
    )
    assert (code, out) == (3, "")
    assert "cannot be read" in err
    assert run(capsys, "import_openapi", str(tmp_path), "--tenant", committed.slug)[0] == 3
    path = write(tmp_path, "a.json", json.dumps(document("a")))
    assert run(capsys, "import_openapi", path, "--tenant", "nobody")[0] == 2
    assert run(capsys, "import_openapi", path, "--tenant", committed.slug, "--source", "Not A Slug")[0] == 3
    assert run(capsys, "import_openapi", path, "--tenant", committed.slug, "--source", "x" * 101)[0] == 3


def test_the_text_report_says_what_the_json_says(committed: Tenant, tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, "shop.json", json.dumps(document("a", "b")))
    code, out, err = run(capsys, "import_openapi", path, "--tenant", committed.slug, "--dry-run")
    assert (code, err) == (0, "")
    assert "dry run: nothing was stored" in out
    assert "2 added, 0 changed, 0 moved, 0 removed, 0 unchanged" in out


@pytest.mark.usefixtures("started_children")
def test_a_document_that_the_reader_dies_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.imports.fetching import sandbox

    monkeypatch.setattr(sandbox, "WALL_SECONDS", 0.01)
    with pytest.raises(DocumentRefused, match="given up"):
        sandbox.parse("openapi", b"{}", name="a.json")
    monkeypatch.undo()
    with pytest.raises(DocumentRefused, match="a fault of ours"):
        sandbox.parse("nonsense", b"{}", name="a.json")


@pytest.mark.usefixtures("started_children")
def test_the_reader_gets_no_secret_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.imports.fetching import sandbox

    seen = {}

    def spy(command: list[str], **options: Any) -> Any:
        seen.update(options["env"])
        raise sandbox.subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(sandbox.subprocess, "run", spy)
    with pytest.raises(DocumentRefused):
        sandbox.parse("openapi", b"{}", name="a.json")
    assert not {name for name in seen if "URL" in name or "KEY" in name}


@pytest.mark.parametrize(
    ("name", "slug"),
    [("petstore-3.0.yaml", "petstore-3.0"), ("/a/b/My API (v2).JSON", "my-api-v2"), ("C:\\docs\\Shop.yaml", "shop"), ("…", "source"),
     ("https://api.example.com/v2/openapi.json?token=secret#x", "api.example.com-v2-openapi"), ("http://h:8000/", "h"),
     ("https://user:pw@h/x.yml", "h-x"), ("x" * 300, "x" * 100), (".hidden", "hidden"), ("a/../..", "source")]
)  # fmt: skip
def test_done_when_2_a_slug_comes_from_file_stem_or_host_and_path(name: str, slug: str) -> None:
    assert slug_of(name) == slug


# --- import_tools ---------------------------------------------------------------------------------------------------


def lines(*tools: dict[str, Any] | str) -> bytes:
    return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in tools).encode()


def import_lines(tenant: Tenant, raw: bytes, **options: Any) -> Any:
    return import_incoming(tool_file(raw, "tools.jsonl", **options), tenant_id=tenant.pk, actor="importer")


def test_import_tools_keeps_ids_to_the_letter_up_to_200_characters(committed: Tenant) -> None:
    ids = [
        "search",
        "a/b c?#",
        "Ünï çödé 東京",
        "x" * 200,
        "@scope/server:tool.name",
        " spaced ",
        "5d0c7f0c-6f4e-4b8c-9f43-1a2b3c4d5e6f",
    ]
    raw = lines(*({"id": one, "name": "n", "description": f"Tool {one}"} for one in ids))
    report = import_lines(committed, raw)
    assert (report.tools, report.added, report.left_out) == (len(ids), len(ids), [])
    with tenant_context(committed.pk):
        assert set(Tool.objects.values_list("tool_id", flat=True)) == set(ids)
        assert set(Tool.objects.values_list("namespace", flat=True)) == {"public"}
    before = fingerprints(committed)
    assert import_lines(committed, raw).unchanged == len(ids)
    assert fingerprints(committed) == before


def test_import_tools_takes_every_field_of_a_line(committed: Tenant) -> None:
    line = {
        "id": "t", "name": "Tool", "description": "Does.", "server": "srv", "domain": "office", "tags": ["a"],
        "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}, "category": "c", "use_cases": ["When?"],
        "sensitivity": "restricted", "tool_type": "mcp", "source_protocol": "mcp", "core": True, "annotations": {"readOnlyHint": True},
        "output": {"type": "object"}, "unknown": "ignored",
    }  # fmt: skip
    import_lines(committed, lines(line), namespace="ns")
    with tenant_context(committed.pk):
        tool = Tool.objects.get(namespace="ns", tool_id="t")
        assert (tool.name, tool.server, tool.routing_domain, tool.tags, tool.category) == (
            "Tool",
            "srv",
            "office",
            ["a"],
            "c",
        )
        assert (tool.sensitivity, tool.tool_type, tool.core, tool.use_cases) == (
            "restricted",
            "mcp",
            True,
            ["When?"],
        )
        assert (tool.annotations, tool.output) == ({"readOnlyHint": True}, {"type": "object"})
        assert tool.parameters == line["parameters"]


def test_import_tools_leaves_out_lines_with_their_reason_and_keeps_the_rest(committed: Tenant) -> None:
    wrong: list[tuple[dict[str, Any] | str, str]] = [
        ("{", "is no JSON"),
        ("[1]", "not a JSON object"),
        ({"description": "x"}, "neither an id nor a name"),
        ({"id": 7}, "neither an id nor a name"),
        ({"id": "x" * 201}, "201 characters"),
        ({"id": "ok"}, "stands on an earlier line"),
        ({"id": "a", "parameters": [1]}, "not a JSON Schema object"),
        ({"id": "b", "tags": "mail"}, "not a list of texts"),
        ({"id": "c", "tags": [{"a": 1}]}, "not a list of texts"),
        ({"id": "d", "description": {"a": 1}}, "description that is not a text"),
        ({"id": "e", "sensitivity": "secret"}, "'secret' is none of public, internal"),
        ({"id": "f", "category": "x" * 101}, "longer than 100"),
        ("[" * 100_000, "nested too deeply"),
    ]
    raw = lines(
        {"id": "ok", "description": "Fine."},
        *(line for line, _ in wrong),
        "",
        {"id": "last", "description": "\x00Fine\ud800."},
    )
    report = import_lines(committed, raw)
    assert (report.operations, report.tools, report.added) == (len(wrong) + 2, 2, 2)
    assert len(report.left_out) == len(wrong)
    for _, reason in wrong:
        assert any(reason in entry["reason"] for entry in report.left_out), reason
    with tenant_context(committed.pk):
        assert Tool.objects.get(tool_id="last").description == "Fine."


def test_import_tools_survives_numbers_that_json_does_not_have(committed: Tenant) -> None:
    raw = lines('{"id": "a", "parameters": {"minimum": NaN, "maximum": 1e999}}', {"id": "b"})
    assert import_lines(committed, raw).operations == 2
    before = fingerprints(committed)
    import_lines(committed, raw)
    assert fingerprints(committed) == before


def test_import_tools_adds_and_changes_but_removes_nothing(committed: Tenant) -> None:
    import_lines(committed, lines({"id": "a", "description": "One."}, {"id": "b", "description": "One."}))
    report = import_lines(
        committed, lines({"id": "b", "description": "Two."}, {"id": "c", "description": "One."})
    )
    assert (report.tools, report.added, report.changed, report.removed) == (2, 1, 1, 0)
    with tenant_context(committed.pk):
        assert dict(Tool.objects.filter(active=True).values_list("tool_id", "description")) == {
            "a": "One.",
            "b": "Two.",
            "c": "One.",
        }


def test_import_tools_leaves_another_sources_id_alone_and_says_so(committed: Tenant) -> None:
    with tenant_context(committed.pk):
        create_tool(actor="olga", tool_id="a", name="a", description="By hand.")
    report = import_lines(committed, lines({"id": "a", "description": "From the file."}, {"id": "b"}))
    assert (report.operations, report.tools, report.added) == (2, 1, 1)
    assert report.left_out == [{"operation": "a", "reason": "the tool_id exists already in namespace public"}]
    with tenant_context(committed.pk):
        assert Tool.objects.get(tool_id="a").description == "By hand."


@pytest.mark.parametrize("raw", [b"", b"\n \n", b"\xff\xfe", b"{}\n[]"])
def test_import_tools_refuses_a_file_without_a_tool(committed: Tenant, raw: bytes) -> None:
    with pytest.raises(DocumentRefused, match=r"tools\.jsonl"):
        import_lines(committed, raw)


def test_import_tools_refuses_a_namespace_that_there_cannot_be(committed: Tenant) -> None:
    with pytest.raises(Invalid, match="namespace"):
        import_lines(committed, lines({"id": "a"}), namespace="x" * 101)


@needs_inputs
def test_a_real_set_of_tools_is_imported_and_imported_again(committed: Tenant, capsys: Capture) -> None:
    path = str(INPUTS.parent / "retrieval" / "metatool" / "tools.jsonl")
    code, out, err = run(capsys, "import_tools", path, "--tenant", committed.slug, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["added"] == 199
    before = fingerprints(committed)
    assert (
        json.loads(run(capsys, "import_tools", path, "--tenant", committed.slug, "--json")[1])["unchanged"]
        == 199
    )
    assert fingerprints(committed) == before


# --- Two at once ----------------------------------------------------------------------------------------------------


def test_syn_4_two_first_imports_of_one_source_make_one_source_and_one_tool_each(committed: Tenant) -> None:
    for _ in range(3):
        names = [f"op{number}" for number in range(20)]
        results = together(*([partial(import_document, committed, document(*names))] * 3))
        assert all(not isinstance(one, Exception) or isinstance(one, Busy) for one in results), results
        assert any(not isinstance(one, Exception) for one in results)
        with tenant_context(committed.pk):
            assert (Source.objects.count(), Endpoint.objects.count(), Tool.objects.count()) == (1, 20, 20)
            assert SourceDocument.objects.count() == 1
            sources.delete_source(pk=Source.objects.get().pk, actor="olga")


def test_syn_4_an_import_that_finds_another_running_says_so(committed: Tenant, admin_database: Any) -> None:
    import_document(committed, document("a"))
    with admin_database.transaction():
        admin_database.execute("SELECT 1 FROM tools_source WHERE tenant_id = %s FOR UPDATE", [committed.pk])
        with pytest.raises(Busy, match="Try again in a moment"):
            import_document(committed, document("a", "b"))
    assert import_document(committed, document("a", "b")).added == 1


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when an import has written and has not committed; it waits a second then, so that others run into it."""
    event = threading.Event()
    real = syncs.import_parsed

    def slow(*arguments: Any, **options: Any) -> Any:
        report = real(*arguments, **options)
        if not event.is_set():
            event.set()
            time.sleep(1)
        return report

    monkeypatch.setattr(syncs, "import_parsed", slow)
    return event


def test_a_source_that_is_deleted_during_its_import_leaves_whole_things_only(
    committed: Tenant, written: threading.Event
) -> None:
    written.set()
    import_document(committed, document("a"))
    written.clear()
    with tenant_context(committed.pk):
        pk = Source.objects.get().pk

    def delete() -> int:
        assert written.wait(20)
        with tenant_context(committed.pk):
            return sources.delete_source(pk=pk, actor="olga")

    imported, deleted = together(lambda: import_document(committed, document("a", "b")), delete)
    assert imported.added == 1
    assert deleted == 2
    with tenant_context(committed.pk):
        assert not Tool.objects.exists()
        assert not Source.objects.exists()


def test_syn_5_a_reset_that_waits_for_a_sync_brings_back_the_syncs_text(
    committed: Tenant, written: threading.Event
) -> None:
    """Read before the wait, the imported text would be yesterday's, and no later sync would mend it."""
    written.set()
    import_document(committed, document("a", a="Version 1."))
    written.clear()
    with tenant_context(committed.pk):
        pk = Tool.objects.get().pk
        update_tool(pk=pk, expected_version=1, changes={"description": "Ours."}, actor="olga")

    def reset() -> Tool:
        assert written.wait(20)
        with tenant_context(committed.pk):
            return reset_override(pk=pk, field="description", actor="olga")

    imported, tool = together(lambda: import_document(committed, document("a", a="Version 2.")), reset)
    assert imported.changed == 1
    assert tool.description == "Version 2."


def test_every_catalogue_error_is_one_sentence() -> None:
    assert issubclass(Busy, CatalogueError)
    assert "\n" not in str(Busy())
