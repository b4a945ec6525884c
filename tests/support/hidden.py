"""A catalogue of which a part is hidden from some callers: the hidden part holds one canary in every text that a route could show."""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client

from portal.jobs import services as jobs
from portal.jobs.context import Context, Failure
from portal.jobs.models import Job, JobState
from portal.tenancy.models import Membership, Role, Tenant
from tests.support.clients import make_api, sign_in
from tests.support.imports.documents import document, import_document
from tests.support.world import RARE_WORD, World, logged_search
from tools.catalogue import servers
from tools.catalogue.tools import create_tool, update_tool
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.store import record_failure
from tools.models import McpServer, Source, Tool

SHOWN = "showntool"
"""The tool_id of a tool that everybody may see, and the source of another one."""


def build_hidden(tenant: Tenant, **hidden: str) -> World:
    """A world in the current tenant whose tools all have these fields (a sensitivity, a visibility), beside tools that are public;
    one of those was hidden before, and held the canary then. Its `api` and `member` see everything."""
    canary = f"canary{uuid.uuid4().hex[:16]}"
    text = f"{RARE_WORD} {canary}"
    tool = create_tool(
        actor="olga", tool_id=f"tool-{canary}", name=text, description=f"Counts {text}.", category=canary, subcategory=canary,
        tags=[canary], tech_stack=[canary], use_cases=[text], routing_domain=canary, semantic_namespace=canary, server=canary,
        target_personas=[canary], annotations={canary: canary}, output={"title": canary},
        parameters={"type": "object", "properties": {canary: {"type": "string", "description": text}}}, **hidden,
    )  # fmt: skip
    _imported(tenant, f"zoo-{canary}", canary, text)
    Tool.objects.exclude(pk=tool.pk).update(**hidden)
    source = Source.objects.get()
    imported = Tool.objects.get(source=source)
    # With a value of its own under the override, too.
    update_tool(
        pk=imported.pk,
        expected_version=imported.version,
        changes={"description": f"By hand {text}.", **hidden},
        actor="olga",
    )
    record_failure(source, f"Broken at {canary}", "olga")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tools_toolembedding SET status = 'failed', error = %s", [canary])
        cursor.execute("UPDATE embeddings_embeddingtask SET last_error = %s", [canary])
    job = failed_job(tool, canary, source=source.slug)
    changed = document("fish", "feed", title=text, fish=f"Feeds every {text}.", feed=f"Buys feed for {text}.")
    changed["paths"]["/bad"] = {"get": canary}  # left out, or warned of
    sync = syncs.plan_document(
        IncomingDocument(raw=json.dumps(changed).encode(), name=f"{canary}.json", slug=source.slug),
        tenant_id=tenant.pk,
        actor="olga",
    )
    _shown(tenant, canary, hidden)
    server = servers.create_server(actor="olga", slug="mcp", title="Tools", url="http://127.0.0.1/mcp")
    McpServer.objects.filter(pk=server.pk).update(last_error=f"Its last words: {canary}")
    return World(
        tenant, canary, make_api(tenant), _client(tenant, Role.ADMIN, is_staff=True), tool, imported, source, job, server, sync,
        logged_search(tenant, canary, tool),
    )  # fmt: skip


def _imported(tenant: Tenant, slug: str, canary: str, text: str) -> None:
    import_document(tenant, document("fish", title=text, fish=f"Feeds {text} {canary}."), slug)


def _shown(tenant: Tenant, canary: str, hidden: dict[str, str]) -> None:
    import_document(tenant, document("a", title="Shop"), "shop")
    Tool.objects.filter(source__slug="shop").update(sensitivity="public")
    # It is shown today; its history goes back to when it was not.
    past = create_tool(
        actor="olga", tool_id=SHOWN, name=f"Was {canary}", description=f"Was {canary}.", **hidden
    )
    update_tool(
        pk=past.pk,
        expected_version=1,
        changes={
            "name": "Now shown",
            "description": "Counts zebrafish for all.",
            "sensitivity": "public",
            "visibility": "public",
        },
        actor="olga",
    )


def failed_job(tool: Tool, canary: str, source: str = "") -> Job:
    """One of the tenant itself, of a source or of all, that failed with this tool, and names the canary in all it says."""
    queued = jobs.start("backfill_embeddings", {"source": source}, by="olga")
    job = Job.objects.claim(kinds=["backfill_embeddings"], pk=queued.pk)
    assert job is not None
    Context(job, threading.Event()).batch(log=canary, failures=[Failure(tool.pk, canary, canary)])
    Job.objects.finish(job, JobState.FAILED, error=canary)
    return jobs.find(queued.pk)


def viewer_of_staff(tenant: Tenant) -> Client:
    """A viewer who may open all of Django's admin that concerns a tenant."""
    return _client(tenant, Role.VIEWER, is_staff=True)


def _client(tenant: Tenant, role: str, *, is_staff: bool) -> Client:
    user: Any = get_user_model().objects.create_user(
        username=f"{role}-{uuid.uuid4().hex[:8]}", is_staff=is_staff
    )
    concerned = ["tools", "embeddings", "metrics", "resilience", "jobs", "tenancy"]
    user.user_permissions.set(Permission.objects.filter(content_type__app_label__in=concerned))
    Membership.objects.create(user=user, role=role, tenant=tenant)
    return sign_in(tenant, user)
