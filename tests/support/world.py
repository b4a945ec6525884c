"""A tenant that holds one canary in every text that a route could show, and the walk over every route there is."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection, models
from django.test import Client
from django.urls import get_resolver
from rest_framework.test import APIClient

from metrics.models import ToolStatistics
from metrics.search_log import write
from portal.jobs import services as jobs
from portal.jobs.context import Context, Failure
from portal.jobs.models import Job, JobState
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import Invitation, Membership, Role, Scope, Tenant
from tests.support.clients import sign_in
from tests.support.imports.documents import document, import_document
from tests.support.searches import entry
from tools.catalogue import servers
from tools.catalogue.tools import create_tool, update_tool
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.models import McpServer, Source, Sync, Tool

METHODS = ("get", "post", "put", "patch", "delete", "head")
# A word that only the first tenant's texts hold and that is no canary, so that a question may hold it.
RARE_WORD = "zebrafish"


@dataclass(frozen=True, slots=True)
class World:
    """A tenant with one of everything; `canary` stands in all of its texts."""

    tenant: Tenant
    canary: str
    api: APIClient
    member: Client
    tool: Tool
    imported: Tool
    source: Source
    job: Job
    server: McpServer
    sync: Sync
    search_id: str

    def first_event(self, tool: Tool) -> str:
        """Of the tool's history."""
        with tenant_context(self.tenant.pk):
            events = apps.get_model("tools", "ToolEvent").objects.filter(pgh_obj_id=tool.pk)
            return str(events.order_by("pgh_id").values_list("pgh_id", flat=True)[0])

    def object_of(self, model: type[models.Model]) -> Any:
        """The primary key of a row of this tenant, whatever the model."""
        with tenant_context(self.tenant.pk):
            found = models.QuerySet(model)
            if any(field.name == "tenant" for field in model._meta.fields):
                found = found.filter(tenant=self.tenant)
            return found.values_list("pk", flat=True).first()


def build_world(tenant: Tenant) -> World:
    canary = f"canary{uuid.uuid4().hex[:16]}"
    text = f"{RARE_WORD} {canary}"
    with tenant_context(tenant.pk):
        tool = create_tool(
            actor=canary, tool_id=f"tool-{canary}", name=text, description=f"Counts {text}.", category=canary,
            subcategory=canary, tags=[canary], tech_stack=[canary], use_cases=[text], routing_domain=canary,
            semantic_namespace=canary, server=canary, target_personas=[canary], owner=canary, annotations={canary: canary},
            parameters={"type": "object", "properties": {canary: {"type": "string", "description": text}}}, output={"title": canary},
        )  # fmt: skip
        _, key = create_api_key(name=canary, scopes=Scope.values)
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {key}")
    repeatable = api.post(f"/api/v1/tools/{tool.pk}/embedding/refresh", headers={"Idempotency-Key": canary})
    assert repeatable.status_code == 202
    import_document(tenant, document("fish", title=text, fish=f"Feeds {text}."), f"zoo-{canary}")
    with tenant_context(tenant.pk):
        imported, source = Tool.objects.get(tool_id="fish"), Source.objects.get()
        update_tool(
            pk=imported.pk,
            expected_version=1,
            changes={"description": f"Feeds {text} by hand."},
            actor=canary,
        )
        with connection.cursor() as cursor:
            cursor.execute("UPDATE tools_toolembedding SET status = 'failed', error = %s", [canary])
            cursor.execute("UPDATE embeddings_embeddingtask SET last_error = %s", [canary])
        job = _failed_job(canary)
        server = servers.create_server(
            # Nothing is asked there: the address is a forbidden one.
            actor=canary, slug=f"server-{canary}", title=text, url=f"http://127.0.0.1/{canary}",
        )  # fmt: skip
        member = sign_in(tenant, _staff(canary))
        Invitation.objects.create(username=canary, invited_by=canary)
    sync = _plan(tenant, source, canary, text)
    return World(
        tenant,
        canary,
        api,
        member,
        tool,
        imported,
        source,
        job,
        server,
        sync,
        logged_search(tenant, canary, tool),
    )


def logged_search(tenant: Tenant, canary: str, tool: Tool) -> str:
    """A search for the canary that found the tool, in the log; and statistics of the tool. Returns the `search_id`."""
    search = entry(
        tenant.pk, asked_by=canary, query=canary, filters={"category": [canary]}, results=[tool.pk], best_similarity=0.2
    )  # fmt: skip
    write([search])
    with tenant_context(tenant.pk):
        ToolStatistics.objects.create(tool_id=tool.pk, calls=2, successes=1, quarantine_reason=canary)
    return str(uuid.UUID(search.search_id))  # as other ids in an address


def _plan(tenant: Tenant, source: Source, canary: str, text: str) -> Sync:
    """What waits to be applied: a change under an override, and a new operation."""
    changed = document("fish", "feed", title=text, fish=f"Feeds every {text}.", feed=f"Buys feed for {text}.")
    raw = json.dumps(changed).encode()
    return syncs.plan_document(
        IncomingDocument(raw=raw, name=f"{canary}.json", slug=source.slug), tenant_id=tenant.pk, actor=canary
    )


def _failed_job(canary: str) -> Job:
    """One that could not go on, and names the canary in all it says."""
    queued = jobs.start("backfill_embeddings", {}, by=canary)
    job = Job.objects.claim(kinds=["backfill_embeddings"], pk=queued.pk)
    Context(job, threading.Event()).batch(log=canary, failures=[Failure(uuid.uuid4(), canary, canary)])
    Job.objects.finish(job, JobState.FAILED, error=canary)
    return jobs.find(queued.pk)


def _staff(username: str) -> Any:
    """An admin of the tenant, who may do in Django's admin whatever concerns a tenant, but is no superuser."""
    user = get_user_model().objects.create_user(username=username, is_staff=True)
    permissions = Permission.objects.filter(
        content_type__app_label__in=["tools", "embeddings", "metrics", "resilience", "jobs", "tenancy"]
    )
    user.user_permissions.set(permissions)
    Membership.objects.create(user=user, role=Role.ADMIN)
    return user


@dataclass(frozen=True, slots=True)
class Route:
    """A pattern of the resolver, with the name of its view."""

    pattern: str
    name: str

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"<(?:\w+:)?(\w+)>", self.pattern)

    @property
    def model(self) -> type[models.Model] | None:
        """Of a page of Django's admin."""
        found = re.match(r"admin/(\w+)/(\w+)/", self.pattern)
        return apps.get_model(found[1], found[2]) if found else None

    def path(self, values: dict[str, str]) -> str:
        return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda found: values[found[1]], self.pattern)


def routes() -> Iterator[Route]:
    """Every route of the portal, the admin's included."""

    def walk(patterns: list[Any], prefix: str) -> Iterator[Route]:
        for pattern in patterns:
            text = prefix + str(pattern.pattern)
            if hasattr(pattern, "url_patterns"):
                yield from walk(pattern.url_patterns, text)
            else:
                # The admin names its apps there, in the order of their registration.
                text = re.sub(r"\^\(\?P<app_label>[\w|]+\)/\$", "<app_label>/", text)
                yield Route(text, pattern.name or "")

    return walk(get_resolver().url_patterns, "")


# Patterns that are no address of a thing, and why.
NOT_OF_A_THING = {
    "docs/problems/<slug:name>": "/docs/problems/not_found",  # the same text for everybody
    "admin/<app_label>/": "/admin/tools/",  # asked by this path instead
    r"admin/(?P<url>.*)$": "/admin/nothing/at/all/",
}


def foreign_and_unknown(route: Route, world: World) -> list[tuple[dict[str, str], dict[str, str]]]:
    """For a route with parameters: what addresses a thing of `world`, beside what addresses nothing in the same way.

    KeyError for a parameter that nobody has explained here, or StopIteration for a route: a new one must be added to this
    matrix.
    """
    nothing = str(uuid.uuid4())
    if route.model is not None:
        (name,) = route.parameters
        found = str(world.object_of(route.model))
        unknown = nothing if "-" in found else "987654321"
        return [({name: found}, {name: unknown})]
    sync, read_from = str(world.sync.pk), str(world.sync.document_id)
    imported = {"ref": str(world.imported.pk), "field": "description"}
    things = {
        "api/v1/tools/": [
            imported,
            {**imported, "ref": str(world.tool.pk)},
            {**imported, "ref": world.tool.tool_id},
        ],
        "tools/": [
            {"pk": str(tool.pk), "field": "description", "event": world.first_event(tool)}
            for tool in (world.tool, world.imported)
        ],
        "sources/": [{"pk": str(world.source.pk), "sync": sync, "document": read_from}],
        "servers/": [{"pk": str(world.server.pk)}],
        "jobs/": [{"pk": str(world.job.pk)}],
        "api/v1/jobs/": [{"ref": str(world.job.pk)}],
        "api/v1/searches/": [{"ref": world.search_id}],
        "api/v1/servers/": [{"slug": world.server.slug}],
        "api/v1/sources/<str:slug>/documents": [{"slug": world.source.slug, "ref": read_from}],
        "api/v1/sources/": [{"slug": world.source.slug, "ref": sync}],
    }
    prefix = next(one for one in things if route.pattern.startswith(one))
    pairs = []
    for values in things[prefix]:
        known = {name: values[name] for name in route.parameters}
        # The part of the address that names the thing itself, or else what it belongs to.
        pairs.append(
            (known, {**known, next(name for name in ("slug", "pk", "ref") if name in known): nothing})
        )
    return pairs


# Questions that a list would answer with the first tenant's things, if it could.
QUESTIONS = {
    "/api/v1/tools": [f"?q={RARE_WORD}", "?limit=100", "?source_protocol=openapi", "?has_override=true", "?embedding_status=failed"],
    "/api/v1/tools/search": [f"?query={RARE_WORD}", f"?query={RARE_WORD}&top_k=50&source_protocol=openapi"],
    "/api/v1/overrides": ["?limit=100", "?conflicts=true"],
    "/api/v1/servers": ["?limit=100"],
    "/api/v1/sources": ["?limit=100"],
    "/api/v1/jobs": ["?limit=100", "?state=failed", "?kind=backfill_embeddings"],
    "/tools/": [f"?q={RARE_WORD}", "?active=all", "?has_override=true", "?embedding_status=failed"],
    "/jobs/": ["", "?state=failed", "?mine=1"],
    "/search/": [f"?query={RARE_WORD}", f"?q={RARE_WORD}"],
    "/admin/tools/tool/": [f"?q={RARE_WORD}", "?all="],
    "/admin/autocomplete/": [
        "?term=&app_label=tools&model_name=tool&field_name=source", "?term=&app_label=tenancy&model_name=membership&field_name=user",
    ],
}  # fmt: skip


def plain_paths() -> list[str]:
    paths = [
        route.path({}) for route in routes() if not route.parameters and route.pattern not in NOT_OF_A_THING
    ]
    paths = [path for path in paths if path not in ("/logout/", "/admin/logout/")]  # asked last of all
    return paths + list(NOT_OF_A_THING.values())


def text_of(response: Any) -> str:
    body = b"".join(response.streaming_content) if response.streaming else response.content
    headers = "\n".join(f"{name}: {value}" for name, value in response.items())
    return f"{response.status_code}\n{headers}\n{body.decode(errors='replace')}"


def without(text: str, values: dict[str, str]) -> str:
    """An answer without what the address itself names."""
    for value in values.values():
        text = text.replace(value, "")
    return text
