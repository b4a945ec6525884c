"""SYN-2, SYN-4: every recorded answer of a real server under ../shared/inputs/mcp becomes a source with the tools that its README
counts, and is one already when it comes again (cases 31, 53)."""

from __future__ import annotations

import json
import re

import pytest

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import INPUTS, needs_inputs
from tests.support.servers.mcp_servers import rows
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing.changes import ImportReport
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.service import import_document
from tools.models import Source, Tool

pytestmark = needs_inputs
TOOLS = {
    "awsdocs.json": 5, "awslabs-openapi-petstore.json": 20, "everything-rich-client.json": 16, "everything.json": 13,
    "fastmcp-netlify-paged.json": 120, "filesystem.json": 14, "git.json": 12, "github-legacy.json": 26,
    "gitlab-zereight.json": 118, "memory.json": 9, "notion.json": 24, "playwright.json": 25, "sqlite.json": 6, "time.json": 2,
}  # fmt: skip


def import_list(tenant: Tenant, name: str, *, slug: str = "") -> ImportReport:
    raw = (INPUTS / "mcp" / name).read_bytes()
    return import_document(
        IncomingDocument(raw=raw, name=name, slug=slug, kind="mcp"), tenant_id=tenant.pk, actor="ada"
    )


def test_syn_2_the_lists_are_those_that_the_readme_counts() -> None:
    table = re.findall(r"^\| mcp/(\S+\.json) \| (\d+) ", (INPUTS / "README.md").read_text(), re.MULTILINE)
    assert {name: int(count) for name, count in table if "/" not in name} == TOOLS
    assert {path.name for path in (INPUTS / "mcp").glob("*.json")} == TOOLS.keys()


@pytest.mark.parametrize("name", TOOLS)
def test_syn_2_syn_4_a_real_list_is_imported_whole_and_a_second_time_writes_nothing(
    committed: Tenant, name: str
) -> None:
    count = TOOLS[name]
    report = import_list(committed, name)
    assert (report.operations, report.tools, report.added, report.left_out) == (count, count, count, [])
    with tenant_context(committed.pk):
        # Some servers say an empty version, and some lists come without it.
        said = json.loads((INPUTS / "mcp" / name).read_text()).get("serverInfo")
        if said:
            assert Source.objects.get().documents.get().version == said["version"]
    stored = rows(committed)
    again = import_list(committed, name)
    assert (again.tools, again.unchanged, again.added, again.changed, again.removed) == (
        count,
        count,
        0,
        0,
        0,
    )
    assert rows(committed) == stored


def test_syn_2_the_recorded_exchange_over_http_is_the_list_and_its_refusals_are_none(
    committed: Tenant,
) -> None:
    folder = INPUTS / "mcp" / "everything-http"
    assert import_list(committed, "everything-http/3-tools-list.body", slug="http").tools == 13
    live = import_list(committed, "everything.json", slug="http")
    assert (live.tools, live.added, live.removed) == (13, 0, 0)
    for path in sorted(folder.iterdir()):
        if path.name != "3-tools-list.body":
            with pytest.raises(DocumentRefused):
                import_list(committed, f"everything-http/{path.name}", slug="http")
    with tenant_context(committed.pk):
        assert Tool.objects.filter(active=True).count() == 13


def test_case_25_the_record_of_a_crash_is_no_list_SYN_2(committed: Tenant) -> None:
    with pytest.raises(DocumentRefused, match="is no list of MCP tools"):
        import_list(committed, "crash/sqlite-sdk2-attributeerror.json")
    with tenant_context(committed.pk):
        assert not Source.objects.exists()


def test_case_31_the_same_names_in_several_servers_are_tools_of_their_own_SYN_2(committed: Tenant) -> None:
    names = {}
    for name in ("github-legacy.json", "gitlab-zereight.json"):
        import_list(committed, name)
        pages = json.loads((INPUTS / "mcp" / name).read_text())["pages"]
        names[name] = {tool["name"] for page in pages for tool in page["tools"]}
    both = names["github-legacy.json"] & names["gitlab-zereight.json"]
    assert both
    with tenant_context(committed.pk):
        for name in both:
            assert Tool.objects.filter(tool_id=name, active=True).count() == 2
        assert Tool.objects.count() == 26 + 118
