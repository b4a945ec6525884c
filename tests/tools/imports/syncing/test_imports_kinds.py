"""Documents of every kind become tools by the same way (SYN-1 to SYN-3), each by its command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import INPUTS
from tools.catalogue.tools import update_tool
from tools.models import Source, Tool

LAMPS = [
    {"name": name, "description": f"Switch a lamp {name[5:]}.", "inputSchema": {"type": "object", "properties": {}}}
    for name in ("lamp_on", "lamp_off")
]  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    call_command(*arguments, "--json")
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


@pytest.fixture
def lamps(tmp_path: Path) -> Path:
    path = tmp_path / "lamps.json"
    path.write_text(json.dumps({"tools": LAMPS}))
    return path


def test_syn_2_a_list_of_mcp_tools_becomes_tools_and_again_writes_nothing(
    committed: Tenant, lamps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("import_mcp", "--file", str(lamps), "--tenant", committed.slug)
    first = run(capsys, *arguments)
    assert (first["tools"], first["added"]) == (2, 2)
    again = run(capsys, *arguments)
    assert (again["added"], again["changed"], again["removed"], again["unchanged"]) == (0, 0, 0, 2)
    with tenant_context(committed.pk):
        tool = Tool.objects.select_related("endpoint", "source").get(name="lamp_on")
        assert (tool.tool_id, tool.tool_type, tool.source_protocol) == ("lamp_on", "mcp", "mcp")
        assert tool.endpoint is not None
        assert tool.endpoint.key == "lamp_on@call"


def test_case_53_a_list_that_goes_on_removes_nothing_SYN_2(
    committed: Tenant, lamps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "import_mcp", "--file", str(lamps), "--tenant", committed.slug)
    lamps.write_text(json.dumps({"tools": LAMPS[:1], "nextCursor": "2"}))
    cut = run(capsys, "import_mcp", "--file", str(lamps), "--tenant", committed.slug)
    assert (cut["removed"], cut["unchanged"]) == (0, 1)
    assert cut["warnings"][0].startswith("The list goes on")
    lamps.write_text(json.dumps({"tools": LAMPS[:1]}))
    whole = run(capsys, "import_mcp", "--file", str(lamps), "--confirm-removals", "--tenant", committed.slug)
    assert whole["removed"] == 1
    with tenant_context(committed.pk):
        assert not Tool.objects.get(name="lamp_off").active


@pytest.mark.parametrize("name", sorted(path.name for path in INPUTS.glob("mcp/*.json")))
def test_syn_2_every_list_of_a_real_server_imports_and_again_writes_nothing(
    committed: Tenant, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = INPUTS / "mcp" / name
    count = sum(len(page["tools"]) for page in json.loads(path.read_bytes())["pages"])
    arguments = ("import_mcp", "--file", str(path), "--tenant", committed.slug)
    assert run(capsys, *arguments)["added"] == count
    again = run(capsys, *arguments)
    assert (again["changed"], again["unchanged"]) == (0, count)


def test_syn_3_a_lightapi_description_becomes_tools_whose_edits_survive_the_next_import(
    committed: Tenant, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "health.yaml"
    document = {
        "lightapi": "0.1.0",
        "info": {"title": "Health", "namespace": "a", "version": "1"},
        "operations": {
            "ping": {"protocol": "http", "method": "GET", "endpoint": "/ping", "summary": "Is it alive?", "visibility": "restricted"}
        },
    }  # fmt: skip
    path.write_text(json.dumps(document))
    arguments = ("import_lightapi", str(path), "--tenant", committed.slug)
    assert run(capsys, *arguments)["added"] == 1
    with tenant_context(committed.pk):
        tool = Tool.objects.get(name="ping")
        assert (tool.tool_type, tool.source_protocol, tool.sensitivity) == ("api", "lightapi", "restricted")
        update_tool(pk=tool.pk, expected_version=tool.version, changes={"description": "Mine."}, actor="me")
    document["operations"]["ping"]["summary"] = "Does it answer?"  # type: ignore[index]
    path.write_text(json.dumps(document))
    assert run(capsys, *arguments)["protected"] == 1
    with tenant_context(committed.pk):
        tool = Tool.objects.select_related("endpoint").get(name="ping")
        assert tool.endpoint is not None
        assert (tool.description, tool.endpoint.description) == ("Mine.", "Does it answer?")


def test_a_source_of_one_kind_does_not_become_another(
    committed: Tenant, lamps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "import_mcp", "--file", str(lamps), "--tenant", committed.slug)
    lamps.write_text(json.dumps({"openapi": "3.0.0", "paths": {}}))
    with pytest.raises(SystemExit) as stopped:
        call_command("import_openapi", str(lamps), "--tenant", committed.slug)
    assert stopped.value.code == 3
    assert "is of kind MCP" in capsys.readouterr().err
    with tenant_context(committed.pk):
        assert Source.objects.count() == 1
