"""Plans and applies syncs, and reads what they wrote."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from portal.jobs import runner, services
from portal.jobs.models import Job
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.database import login
from tests.support.imports.limits import parse_document
from tools.catalogue.tools import update_tool
from tools.imports.fetching import sandbox
from tools.imports.formats.specs import ParsedDocument
from tools.imports.syncing import service as syncs
from tools.imports.syncing.changes import ImportReport
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.jobs import APPLY, SYNC
from tools.models import Sync, SyncChange, Tool, ToolEmbedding

WRITTEN = (
    "tools_source", "tools_sourcedocument", "tools_endpoint", "tools_tool", "tools_manualoverride", "tools_toolembedding",
    "embeddings_embeddingtask", "tools_toolevent", "tools_sourceevent", "tools_manualoverrideevent",
)  # fmt: skip


def parse_here(kind: str, raw: bytes, *, name: str, seconds: float | None = None) -> ParsedDocument:
    """As the sandbox does, without its process: for tests that read many documents and are about something else."""
    return parse_document(raw, name=name, kind="" if kind == sandbox.ANY else kind)


def fingerprints(tenant: Tenant, *without: str) -> dict[str, list[tuple[Any, ...]]]:
    """Which transaction wrote each row, and where it lies: a write that changes nothing shows as well."""
    with tenant_context(tenant.pk), connection.cursor() as cursor:
        found = {}
        for table in WRITTEN:
            if table not in without:
                cursor.execute(f"SELECT xmin::text, ctid::text FROM {table} ORDER BY 1, 2")
                found[table] = cursor.fetchall()
        return found


def tool(tenant: Tenant, tool_id: str = "a", namespace: str = "shop") -> Tool:
    with tenant_context(tenant.pk):
        found: Tool = Tool.objects.select_related("endpoint", "source").get(
            tool_id=tool_id, namespace=namespace
        )
        return found


def embedding(tenant: Tenant, tool_id: str = "a") -> ToolEmbedding:
    with tenant_context(tenant.pk):
        found: ToolEmbedding = ToolEmbedding.objects.get(entity__tool_id=tool_id)
        return found


def edit(tenant: Tenant, tool_id: str = "a", **changes: Any) -> Tool:
    now = tool(tenant, tool_id)
    with tenant_context(tenant.pk):
        return update_tool(pk=now.pk, expected_version=now.version, changes=changes, actor="olga")


Json = dict[str, Any]


def plan(tenant: Tenant, content: Json | bytes, slug: str = "shop") -> Sync:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return syncs.plan_document(
        IncomingDocument(raw=raw, name=f"{slug}.json", slug=slug), tenant_id=tenant.pk, actor="petra"
    )


def apply(tenant: Tenant, sync: Sync, *names: str, **options: Any) -> ImportReport:
    """All of it, or the changes of the tools with these names."""
    if names:
        options["chosen"] = [row.pk for row in changes(tenant, sync).values() if row.name in names]
    return syncs.apply_sync(tenant_id=tenant.pk, sync_id=sync.pk, actor="anton", **options)


def changes(tenant: Tenant, sync: Sync) -> dict[str, SyncChange]:
    with tenant_context(tenant.pk):
        return {row.key: row for row in SyncChange.objects.filter(sync=sync)}


def again(tenant: Tenant, sync: Sync) -> Sync:
    with tenant_context(tenant.pk):
        found: Sync = Sync.objects.select_related("document").get(pk=sync.pk)
        return found


def texts(tenant: Tenant) -> dict[str, str]:
    """The descriptions of the active tools."""
    with tenant_context(tenant.pk):
        return dict(Tool.objects.filter(active=True).values_list("tool_id", "description"))


@contextmanager
def nothing_written(tenant: Tenant, *without: str) -> Iterator[None]:
    before = fingerprints(tenant, *without)
    yield
    assert fingerprints(tenant, *without) == before


def run_sync_jobs() -> list[str]:
    """Runs the jobs that wait, as a runner does; the states in which they end."""
    ended = []
    with login("DATABASE_WORKER_URL"):
        while job := Job.all_tenants.claim(kinds=[SYNC, APPLY]):
            runner.run(job, threading.Event())
            with job.in_tenant():
                ended.append(services.find(job.pk).effective_state)
    return ended


def find_job(tenant: Tenant, job: Job) -> Job:
    with tenant_context(tenant.pk):
        return services.find(job.pk)
