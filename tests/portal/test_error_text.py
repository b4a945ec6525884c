"""S8: the text of an error that is stored is bounded, whatever a server, a document or a provider says."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import psycopg
from django.apps import apps
from django.core.management import call_command
from django.db import models

from portal.error_text import ERROR_LENGTH, ErrorField, shorten
from portal.jobs.models import Job
from portal.jobs.states import JobState
from portal.tenancy.models import Tenant
from tools.imports.fetching.mcp.client import note_health
from tools.imports.syncing.store import record_failure
from tools.models import McpServer, Source, SourceKind, Sync

LONG = "The server said " + "no " * 5_000


def fields_of_errors() -> dict[str, models.Field[Any, Any]]:
    ours = [
        app
        for app in apps.get_app_configs()
        if app.name.split(".")[0] in {"portal", "embeddings", "metrics", "tools"}
    ]
    return {
        f"{model.__name__}.{field.name}": field
        for app in ours
        for model in app.get_models()
        for field in model._meta.concrete_fields
        if field.name in {"error", "last_error", "reason", "quarantine_reason"}
    }


def test_every_column_for_the_text_of_an_error_is_bounded_S8() -> None:
    found = fields_of_errors()
    assert set(found) >= {
        "Circuit.reason", "EmbeddingTask.last_error", "Job.error", "JobFailure.error", "McpServer.last_error", "Source.last_error",
        "Sync.error", "ToolEmbedding.error", "ToolStatistics.quarantine_reason",
    }  # fmt: skip
    assert [name for name, field in found.items() if not isinstance(field, ErrorField)] == []


def test_a_long_error_of_a_server_a_source_or_a_job_is_stored_short_S8(
    tenant: Tenant, rows: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    server = McpServer.objects.create(slug="sums", url="https://sums.example/mcp")
    source = Source.objects.create(slug="shop", kind=SourceKind.OPENAPI)
    job = Job.objects.create(
        kind="k", title="t", requested_by="me", state=JobState.RUNNING, claim_id=tenant.pk
    )
    note_health(server, error=LONG)
    record_failure(source, LONG, "me")
    Job.objects.finish(job, JobState.FAILED, error=LONG)
    stored = [
        McpServer.objects.get().last_error,
        Source.objects.get().last_error,
        Sync.objects.get().error,
        Job.objects.get().error,
    ]
    assert stored == [shorten(LONG)] * 4
    assert (len(shorten(LONG)) <= ERROR_LENGTH, shorten(LONG)[-1]) == (True, "…")
    assert shorten("x" * ERROR_LENGTH) == "x" * ERROR_LENGTH


def test_an_upgrade_cuts_the_errors_that_are_longer_S8(
    db: None, admin_database: psycopg.Connection[Any], make_tenant: Callable[..., Tenant]
) -> None:
    call_command("sqlmigrate", "tools", "0016", stdout=(statements := io.StringIO()))
    tenant = make_tenant()
    with admin_database.transaction(force_rollback=True):
        admin_database.execute("ALTER TABLE tools_mcpserver ALTER last_error TYPE text")
        admin_database.execute(
            "INSERT INTO tools_mcpserver (id, tenant_id, slug, title, url, command_id, headers, health, last_error) "
            "VALUES (gen_random_uuid(), %s, 's', '', 'https://x.example/', '', '{}', 'failing', repeat('no ', 5000))",
            [tenant.pk],
        )
        admin_database.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as if it were committed
        admin_database.execute(statements.getvalue().replace("BEGIN;", "").replace("COMMIT;", ""))
        row = admin_database.execute(
            "SELECT length(last_error) FROM tools_mcpserver WHERE tenant_id = %s", [tenant.pk]
        )
        assert row.fetchone() == (ERROR_LENGTH,)
