"""Shared by the tests of exports: a shop to export, and short ways to write a file and to read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tools.catalogue.tools import catalogue_write, update_tool
from tools.imports.files import export as exports
from tools.imports.files.import_export import EntriesReport, import_export
from tools.models import McpServer, Source, Tool

Capture = pytest.CaptureFixture[str]
Maker = Callable[..., Any]
FORMATS = pytest.mark.parametrize("file_format", exports.FORMATS)
ENTRY: dict[str, Any] = {"tool_id": "t", "name": "T"}


def written(file_format: str = "jsonl", source: str = "") -> str:
    """The current tenant's export."""
    return "".join(exports.written(exports.entries(source), file_format))


def read_into(tenant: Tenant, text: str, **options: Any) -> EntriesReport:
    return import_export(
        tenant_id=tenant.pk, raw=text.encode(), name="tools.jsonl", actor="importer", **options
    )


def export_of(tenant: Tenant, file_format: str = "jsonl") -> str:
    with tenant_context(tenant.pk):
        return written(file_format)


def edit(tool_id: str, **changes: Any) -> Tool:
    tool = Tool.objects.get(tool_id=tool_id)
    return update_tool(pk=tool.pk, expected_version=tool.version, changes=changes, actor="olga")


def shop(tenant: Tenant) -> None:
    """A source with three tools, two of them edited, one taken down."""
    import_document(tenant, document("pets", "orders", "users"))
    edit("pets", description="Mine.\r\n\tWith lines", tags=["ours"], sensitivity="restricted")
    edit("orders", name="our orders", estimated_cost=None, official=True, semantic_weight=1.5)
    edit("users", active=False)
    with catalogue_write("olga"):
        server = McpServer.objects.create(
            slug="lab", url="https://lab.example/mcp", headers={"X-Key": "MCP_SECRET_LAB"}
        )
        Source.objects.create(
            slug="lab", kind="mcp", title="Lab", server=server, schedule="daily", auto_apply=True
        )
        Source.objects.filter(slug="shop").update(url="https://shop.example/openapi.json", schedule="weekly")
