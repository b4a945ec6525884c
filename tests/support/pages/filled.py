"""A tenant in which every page has something to show: tools, sources, syncs, servers and jobs in each of their states."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db.models.functions import Now

from embeddings.models import EmbeddingModel, EmbeddingStatus, EmbeddingTask
from portal.jobs.models import Job, JobFailure, JobState
from portal.resilience.models import Circuit
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import Invitation, Role, Scope, Tenant
from tests.support.clients import join
from tests.support.database import login
from tests.support.imports.documents import document, import_document
from tests.support.overrides import pets
from tools.catalogue.tools import create_tool, update_tool
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.models import McpServer, Source, Sync, Tool, ToolEmbedding

LONG = "A sentence of a long text, which is one of very many. " * 60
LONG_NAME = "circuits_circuit-terminations_paths_list_of_everything_that_ends_there"
MODEL, SECOND = "all-MiniLM-L6-v2", "a-second-model-with-a-rather-long-name"
TIMED_OUT = "The server http://10.20.30.40:8080/openapi.json did not answer within 10 s."


@dataclass
class Filled:
    """The addresses of the pages by what they show, in the order in which a person meets them."""

    tenant: Tenant
    pages: dict[str, str] = field(default_factory=dict)

    def add(self, **pages: str) -> None:
        self.pages |= pages


def fill(tenant: Tenant, second: Tenant, third: Tenant, username: str) -> Filled:
    """Fills the tenant of the user `username`, who is a member of the second one too, and invited into the third."""
    made = Filled(tenant)
    _models()
    made.add(
        tools="/tools/", no_tools="/tools/?q=nothing&source=shop&category=none&gone=1", new_tool="/tools/new/"
    )
    _tools(made)
    _overrides(made)
    _sources(made)
    _servers(made)
    _jobs(made)
    _people(made, second, third, username)
    made.add(
        search="/search/?q=add+a+pet", search_examples="/search/", nothing_found="/search/?q=zzqx", models="/models/",
        problems="/docs/problems/", problem="/docs/problems/validation_error", nowhere="/nowhere/",
    )  # fmt: skip
    return made


def _models() -> None:
    """One that serves, and one that fills beside it; and what happens while its provider is down."""
    trouble = {"errors": 5, "next_try": Now() + timedelta(seconds=25), "reason": "It refused the key (401)."}
    with login("DATABASE_ADMIN_URL"):  # those of all tenants
        for slot, model in enumerate((MODEL, SECOND)):
            row = {"model": model, "provider": "sentence-transformers", "serves": not slot}
            EmbeddingModel.objects.update_or_create(slot=slot, defaults=row)
        Circuit.objects.update_or_create(name=MODEL, purpose="passage", defaults=trouble)


def _tools(made: Filled) -> None:
    parameters = {
        "type": "object",
        "required": ["city"],
        "properties": {
            "city": {"type": "string", "description": "Where `it` is."},
            "days": {"type": "integer", "default": 3, "enum": [1, 3, 7]},
            "a_parameter_with_a_very_long_name_that_does_not_wrap": {"type": ["string", "null"]},
        },
    }
    with tenant_context(made.tenant.pk):
        for number in range(26):
            create_tool(
                actor="olga",
                tool_id=f"by-hand-{number}",
                name=f"by hand {number}",
                description=f"Does thing {number}.",
            )
        rich = create_tool(
            actor="olga", tool_id=LONG_NAME, name=LONG_NAME, description=f"**Tells** the `weather`.\n\n- today\n- tomorrow\n\n{LONG}",
            category="weather", subcategory="forecast", tags=["sky", "rain"], use_cases=["Will it rain in `Oslo`?"], routing_domain="home",
            parameters=parameters, annotations={"readOnlyHint": True, "destructiveHint": True, "idempotentHint": True, "openWorldHint": True},
            owner="olga", lifecycle="deprecated", semantic_weight=2,
        )  # fmt: skip
        update_tool(
            pk=rich.pk, expected_version=1, changes={"description": LONG, "tags": ["sky"]}, actor="olga"
        )
        made.add(
            tool=f"/tools/{rich.pk}/",
            tool_edit=f"/tools/{rich.pk}/edit/",
            tool_history=f"/tools/{rich.pk}/history/",
        )
        tools = list(Tool.objects.filter(tool_id__startswith="by-hand").order_by("created_at", "pk"))
        for tool, status in zip(tools, EmbeddingStatus.values, strict=False):
            _set_status(tool, status)
            made.add(**{f"tool_{status}": f"/tools/{tool.pk}/"})
        inactive, retrying, running, none, refreshing = tools[10:15]
        update_tool(pk=inactive.pk, expected_version=1, changes={"active": False}, actor="olga")
        tasks = EmbeddingTask.objects.all()
        later = Now() + timedelta(minutes=5)
        tasks.filter(entity_id=retrying.pk).update(
            attempts=2, last_error="The provider answered 500.", next_attempt_at=later
        )
        tasks.filter(entity_id=running.pk).update(
            status="running", attempts=1, claim_id=uuid.uuid4(), next_attempt_at=later
        )
        tasks.filter(entity_id=none.pk).delete()
        ToolEmbedding.objects.filter(entity=none).delete()
        ToolEmbedding.objects.filter(entity=refreshing).update(**_ready(refreshing))
        made.add(
            tool_inactive=f"/tools/{inactive.pk}/", tool_retrying=f"/tools/{retrying.pk}/", tool_running=f"/tools/{running.pk}/",
            tool_none=f"/tools/{none.pk}/", tool_refreshing=f"/tools/{refreshing.pk}/", embedding_card=f"/tools/{running.pk}/embedding/",
        )  # fmt: skip


def _ready(tool: Tool) -> dict[str, Any]:
    hashed = ToolEmbedding.objects.filter(entity=tool).values_list("source_hash", flat=True)[0]
    return {
        "status": "ready",
        "vector": [1.0] + [0.0] * 383,
        "vector_hash": hashed,
        "embedded_at": Now(),
        "truncated": True,
    }


def _set_status(tool: Tool, status: str) -> None:
    changes = _ready(tool) if status == "ready" else {"status": status}
    if status == "failed":
        changes["error"] = "The provider refused this text: it is too long."
        EmbeddingTask.objects.filter(entity_id=tool.pk).update(
            status="failed", attempts=6, last_error=changes["error"]
        )
    elif status != "pending":
        EmbeddingTask.objects.filter(entity_id=tool.pk).delete()
    ToolEmbedding.objects.filter(entity=tool).update(**changes)


def _overrides(made: Filled) -> None:
    """An override in conflict, one that is not, and one of a parameter that is gone; tools that their source no longer has."""
    import_document(made.tenant, pets(), "pets")
    with tenant_context(made.tenant.pk):
        tool = Tool.objects.get(source__slug="pets")
        texts = {"body.name": "Ours.", "dry": "Ours, and `ticked`."}
        changes = {"description": LONG, "tags": ["ours"], "parameter_descriptions": texts}
        update_tool(pk=tool.pk, expected_version=1, changes=changes, actor="olga")
    changed = pets(name="Its call name.")
    changed["paths"]["/pets"]["post"]["parameters"] = []
    import_document(made.tenant, changed, "pets")
    import_document(made.tenant, document("orders", "prices", "stock"), "shop")
    import_document(made.tenant, document("orders", "prices"), "shop", confirm_removals=True)
    with tenant_context(made.tenant.pk):
        tool.refresh_from_db()
        # So that each version of the history differs from the present one, and can be restored.
        update_tool(pk=tool.pk, expected_version=tool.version, changes={"owner": "olga"}, actor="olga")
        gone = Tool.objects.get(name="stock")
        event = (
            apps.get_model("tools", "ToolEvent").objects.filter(pgh_obj_id=tool.pk).order_by("pgh_id").first()
        )
    made.add(
        overridden=f"/tools/{tool.pk}/", overridden_edit=f"/tools/{tool.pk}/edit/", overridden_history=f"/tools/{tool.pk}/history/",
        gone=f"/tools/{gone.pk}/", overrides="/overrides/", no_overrides="/overrides/?who=nobody&source=pets", patch="/overrides/patch/?all=1",
        reset="/overrides/reset/?all=1", keep="/overrides/keep/?all=1", restore=f"/tools/{tool.pk}/history/{event.pgh_id}/restore/",
        inactive_tools="/tools/?active=no",
    )  # fmt: skip


def _sources(made: Filled) -> None:
    """Sources that fail, that are read by themselves, and one with a plan that would remove most of its tools."""
    names = [f"op{number:02}" for number in range(40)]
    import_document(made.tenant, document(*names), "zoo")
    with tenant_context(made.tenant.pk):
        edited = Tool.objects.get(name="op00")
        update_tool(pk=edited.pk, expected_version=1, changes={"description": "Ours."}, actor="olga")
    changed = document(*names[:28], "brand_new", op00="Theirs, and quite other words.", op01="Other words.")
    changed["paths"]["/moved"] = changed["paths"].pop("/op02")
    changed["paths"]["/broken"] = {"get": "no operation"}
    incoming = IncomingDocument(json.dumps(changed).encode(), "zoo-2.json", "zoo")
    plan = syncs.plan_document(incoming, tenant_id=made.tenant.pk, actor="olga")
    with tenant_context(made.tenant.pk):
        zoo = Source.objects.get(slug="zoo")
        applied = Sync.objects.filter(source=zoo, state="applied").latest("created_at")
        failing = Source.objects.create(
            slug="failing-source-of-a-long-name", kind="openapi", url="http://10.20.30.40:8080/openapi.json", failures=3, last_error=TIMED_OUT,
            schedule="daily", next_sync_at=Now() + timedelta(minutes=20), title="What does not answer",
        )  # fmt: skip
        failed = Sync.objects.create(
            source=failing,
            state="failed",
            error=TIMED_OUT,
            created_by="schedule",
            ended_at=Now(),
            ended_by="schedule",
        )
        discarded = Sync.objects.create(
            source=failing, state="discarded", created_by="olga", ended_at=Now(), ended_by="olga"
        )
    here = f"/sources/{zoo.pk}/"
    made.add(
        sources="/sources/", no_sources="/sources/?q=nothing&kind=mcp", import_page="/sources/import/?source=zoo", source=here,
        source_failing=f"/sources/{failing.pk}/", source_delete=f"{here}delete/", plan=f"{here}syncs/{plan.pk}/",
        plan_left_out=f"{here}syncs/{plan.pk}/?show=left_out", plan_discard=f"{here}syncs/{plan.pk}/discard/",
        sync_applied=f"{here}syncs/{applied.pk}/", sync_failed=f"/sources/{failing.pk}/syncs/{failed.pk}/",
        sync_discarded=f"/sources/{failing.pk}/syncs/{discarded.pk}/",
    )  # fmt: skip


def _servers(made: Filled) -> None:
    with tenant_context(made.tenant.pk):
        server = McpServer.objects.create(
            slug="sums-of-a-long-name-that-goes-on", title="Sums", url="http://10.0.0.1/mcp", headers={"X-Key": "MCP_SECRET_SUMS"},
            health="failing", last_error="The server did not answer within 60 s.",
        )  # fmt: skip
        McpServer.objects.create(slug="time", command_id="time", health="healthy", synced_at=Now())
        Source.objects.create(slug="sums", kind="mcp", server=server, synced_at=Now())
    made.add(
        servers="/servers/", server=f"/servers/{server.pk}/", server_new="/servers/new/", server_edit=f"/servers/{server.pk}/edit/",
        server_delete=f"/servers/{server.pk}/delete/",
    )  # fmt: skip


def _jobs(made: Filled) -> None:
    """A job in each state; nobody works on any of them."""
    log = [
        {"at": "2026-01-02T03:04:05+00:00", "text": "Scanned 500 tools."},
        {"at": "2026-01-02T03:04:09+00:00", "text": "Paused."},
    ]
    run = {
        "claim_id": uuid.uuid4(),
        "claimed_at": Now(),
        "heartbeat_at": Now(),
        "started_at": Now(),
        "stage": "embedding",
    }
    over = {"started_at": Now() - timedelta(minutes=3), "finished_at": Now(), "stage": "embedding"}
    counts = {"total": 1240, "done": 512, "failed": 3, "skipped": 2, "log": log}
    states: dict[str, dict[str, Any]] = {
        "queued": {"state": JobState.QUEUED},
        "uncounted": {"state": JobState.RUNNING, **run, "stage": "queueing"},
        "running": {"state": JobState.RUNNING, **run, **counts, "resumes": 1},
        "cancelling": {"state": JobState.CANCELLING, **run, **counts},
        "cancelled": {"state": JobState.CANCELLED, **over, **counts},
        "succeeded": {"state": JobState.SUCCEEDED, **over, "total": 1240, "done": 1240, "log": log},
        "nothing_to_do": {"state": JobState.SUCCEEDED, **over, "total": 0},
        "partial": {"state": JobState.PARTIAL, **over, "total": 1240, "done": 1237, "failed": 3, "log": log},
        "failed": {
            "state": JobState.FAILED,
            **over,
            "stage": "reading",
            "error": TIMED_OUT,
            "kind": "sync_source",
        },
        "lost": {
            "state": JobState.LOST,
            **counts,
            "started_at": Now() - timedelta(hours=3),
            "resumes": 3,
            "stage": "embedding",
        },
    }
    with tenant_context(made.tenant.pk):
        for name, columns in states.items():
            given = {
                "kind": "backfill_embeddings",
                "title": "Backfill of all embeddings",
                "requested_by": "olga",
                **columns,
            }
            job = Job.objects.create(**given)
            made.add(**{f"job_{name}": f"/jobs/{job.pk}/"})
            for number in range(job.failed):
                reason = "The provider refused this text: it is too long."
                JobFailure.objects.create(job=job, item_id=uuid.uuid4(), label=f"tool_{number}", error=reason)
    made.add(jobs="/jobs/", no_jobs="/jobs/?state=queued&kind=apply_sync&mine=1", new_job="/jobs/new/")
    made.add(job_cancel=f"{made.pages['job_queued']}cancel/")


def _people(made: Filled, second: Tenant, third: Tenant, username: str) -> None:
    join(second, get_user_model().objects.get(username=username), Role.VIEWER)
    with tenant_context(third.pk):
        Invitation.objects.create(username=username, role=Role.OPERATOR, invited_by="root")
    with tenant_context(made.tenant.pk):
        create_api_key(name="agents", scopes=[Scope.SEARCH_READ])
        Invitation.objects.create(username="nina", role=Role.VIEWER, invited_by=username)
    made.add(password="/password/", invitations="/invitations/")
