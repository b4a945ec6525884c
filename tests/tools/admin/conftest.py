"""The fixtures of the pages' tests, and rows for every list of the admin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from portal.jobs import services as jobs
from portal.jobs.models import JobFailure
from portal.resilience.models import Circuit
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import IdempotencyKey, Invitation, Tenant
from tests.support.clients import join, sign_in
from tests.tools.web.conftest import imported_tool, set_embedding
from tools.catalogue import servers
from tools.catalogue.tools import update_tool
from tools.models import Sync, SyncChange, Tool

__all__ = ["imported_tool", "set_embedding"]


def address(label: str, page: str, *arguments: Any) -> str:
    return reverse(f"admin:{label.lower().replace('.', '_')}_{page}", args=arguments)


@pytest.fixture
def superuser(tenant: Tenant) -> Client:
    user = get_user_model().objects.create_superuser("root", password=None)
    join(tenant, user, "admin")
    return sign_in(tenant, user)


@pytest.fixture
def a_row_of_everything(imported_tool: Tool, admin_database: psycopg.Connection[Any]) -> Iterator[None]:
    update_tool(pk=imported_tool.pk, expected_version=1, changes={"description": "Mine."}, actor="x")
    key = create_api_key(name="k", scopes=["search:read"])[0]
    IdempotencyKey.objects.create(
        api_key=key, key="i", target_digest=b"1", body_digest=b"1", status=201, headers={}, body="{}"
    )
    Invitation.objects.create(username="i", role="viewer", invited_by="x")
    job = jobs.start("backfill_embeddings", {}, by="x")
    JobFailure.objects.create(job=job, item_id=imported_tool.pk, label="l", error="e")
    servers.create_server(actor="x", slug="s", url="https://mcp.example.com/mcp")
    sync = Sync.objects.create(source=imported_tool.source, created_by="x")
    SyncChange.objects.create(sync=sync, key="k", action="add", name="n")
    Circuit.objects.create(name="m", purpose="query", errors=1, reason="r")
    # What serves, that a worker lives, and the sums of the workers are not the application's to write.
    admin_database.execute(
        "INSERT INTO embeddings_embeddingmodel (slot, model, provider, url, serves) VALUES (0, 'm', 'p', '', true) "
        "ON CONFLICT DO NOTHING;"
        "INSERT INTO jobs_workerheartbeat (id, queue, host, pid) VALUES (gen_random_uuid(), 'q', 'h', 1);"
        "INSERT INTO embeddings_embeddingtally (figure, label, value) VALUES ('f', 'l', 1)"
    )
    yield
    for table in ("embeddings_embeddingmodel", "jobs_workerheartbeat", "embeddings_embeddingtally"):
        admin_database.execute(f"DELETE FROM {table}")
