"""SYN-2, CAT-3: real MCP servers, asked as a sync asks them (case 33). `make mcp-servers` installs them into .venv-mcp."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import INPUTS
from tests.support.processes import ROOT
from tests.support.servers.mcp_servers import allow, children, free_port, listening, open_files, rows
from tools.catalogue import servers
from tools.imports.fetching.mcp.client import list_tools_from_command, list_tools_from_url
from tools.imports.syncing import service as syncs
from tools.models import Health, McpServer, Source, SourceKind, SyncState

INSTALLED = ROOT / ".venv-mcp"
PYTHON, NPM = INSTALLED / "bin", INSTALLED / "node_modules" / ".bin"
# Each with its words and the number of its tools.
SERVERS: dict[str, tuple[Path, list[str], int]] = {
    "everything": (NPM / "mcp-server-everything", ["stdio"], 13),
    "filesystem": (NPM / "mcp-server-filesystem", ["/tmp"], 14),  # noqa: S108
    "memory": (NPM / "mcp-server-memory", [], 9),
    "time": (PYTHON / "mcp-server-time", [], 2),
    "git": (PYTHON / "mcp-server-git", [], 12),
}


def installed(name: str) -> Path:
    program = SERVERS[name][0]
    if not program.exists():
        pytest.skip(f"needs {program.name}: run `make mcp-servers`")
    return program


def source_of(tenant: Tenant, **way: Any) -> Source:
    with tenant_context(tenant.pk):
        server = servers.create_server(actor="admin", slug="live", **way)
        source: Source = Source.objects.create(slug="live", kind=SourceKind.MCP, server=server)
        return source


def check_twice(tenant: Tenant, source: Source, name: str) -> None:
    """Synced twice: everything comes the first time, and the second writes nothing."""
    expected = SERVERS[name][2]
    planned = syncs.plan_source(tenant_id=tenant.pk, source_id=source.pk, actor="op")
    report = syncs.apply_sync(tenant_id=tenant.pk, sync_id=planned.pk, actor="op")
    assert (report.operations, report.tools, report.added) == (expected, expected, expected)
    assert report.left_out == []
    with tenant_context(tenant.pk):
        found = sorted(source.tools.values_list("tool_id", flat=True))
        server = McpServer.objects.get()
        assert (server.health, server.last_error) == (Health.HEALTHY, "")
        assert server.synced_at is not None
    if INPUTS.is_dir():
        pages = json.loads((INPUTS / "mcp" / f"{name}.json").read_text())["pages"]
        assert found == sorted(tool["name"] for page in pages for tool in page["tools"])
    stored, before = rows(tenant), (children(), open_files())
    again = syncs.plan_source(tenant_id=tenant.pk, source_id=source.pk, actor="op")
    assert (again.pk, again.state) == (planned.pk, SyncState.APPLIED)
    assert rows(tenant) == stored
    assert (children(), open_files()) == before


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "time" else pytest.mark.slow) for name in SERVERS]
)
def test_syn_2_a_real_server_is_synced_over_stdio_and_a_second_time_nothing_changes(
    committed: Tenant, settings: Any, tmp_path: Path, name: str
) -> None:
    allow(settings, tmp_path, **{name: [str(installed(name)), *SERVERS[name][1]]})
    check_twice(committed, source_of(committed, command_id=name), name)


@pytest.mark.slow
def test_syn_2_a_real_server_is_synced_over_http_and_a_second_time_nothing_changes(
    committed: Tenant, settings: Any
) -> None:
    program, port = installed("everything"), free_port()
    environment = {**os.environ, "PORT": str(port)}
    with listening([str(program), "streamableHttp"], port, settings, env=environment) as url:
        check_twice(committed, source_of(committed, url=url), "everything")


@pytest.mark.slow
def test_case_33_a_real_server_is_asked_for_the_same_by_every_way_SYN_2(
    settings: Any, tmp_path: Path
) -> None:
    """With the tools of a client that can do nothing, not those of one that can do more; in one way as in the other."""
    program, port = installed("everything"), free_port()
    allow(settings, tmp_path, everything=[str(program), "stdio"])
    over_stdio = json.loads(list_tools_from_command("everything", "default").raw)
    with listening(
        [str(program), "streamableHttp"], port, settings, env={**os.environ, "PORT": str(port)}
    ) as url:
        over_http = json.loads(list_tools_from_url(url).raw)
    assert over_stdio == over_http
