"""OPS-2: how many statements each page asks the database, and that they do not grow with what there is to show.

A page that is not in the table fails, and so does one that asks more than the table says: raise its number only for a reason.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from embeddings import slots
from portal.jobs.models import Job, JobFailure, JobState
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import create_api_key
from portal.tenancy.models import Scope, Tenant
from tests.support.imports.documents import document, import_document
from tests.support.world import (
    NOT_OF_A_THING,
    RARE_WORD,
    Route,
    World,
    build_world,
    foreign_and_unknown,
    routes,
)
from tools.catalogue import servers
from tools.catalogue.tools import create_tool, update_tool
from tools.models import SyncChange, Tool

# By the name of the route. Six of them are the session, the user, the memberships and the tenant's transaction.
PAGES: dict[str, int] = {
    "invitations": 8, "job": 10, "job-cancel": 8, "job-list": 10, "job-new": 10, "job-pill": 7, "models": 11, "override-keep": 10,
    "override-list": 12, "override-patch": 7, "password": 7, "problem": 7, "problem-list": 7, "search": 16, "server": 10, "server-delete": 8,
    "server-edit": 10, "server-list": 8, "server-new": 8, "source": 15, "source-delete": 9, "source-document": 7, "source-import": 8,
    "source-list": 13, "sync": 17, "sync-discard": 9, "badges": 8, "refresh-matching": 9, "tool": 13, "tool-delete": 9,
    "tool-edit": 12, "tool-embedding": 12, "tool-history": 12, "tool-list": 15, "tool-new": 7, "tool-restore": 10,
}  # fmt: skip
ADMIN_LIST = 15
# What a page shows only when it is asked for it.
QUESTIONS = {"search": f"?q={RARE_WORD}", "badges": "?id={tool}"}


@pytest.fixture
def world(committed: Tenant, settings: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.HashEmbedder"
    # Which slot serves is looked up twice a second at most, however many ask.
    monkeypatch.setattr(slots, "_cached", (None, 0.0))
    monkeypatch.setattr(slots, "CACHE_SECONDS", 600)
    made = build_world(committed)
    slots.serving()
    return made


def grow(world: World, numbers: range) -> None:
    """More of everything that a page lists."""
    for number in numbers:
        more = f"more-{number}"
        import_document(world.tenant, document(f"op{number}"), more)
        with tenant_context(world.tenant.pk):
            create_tool(actor="x", tool_id=more, name=more, description=f"Does {more}.")
            for tool in (Tool.objects.get(pk=world.tool.pk), Tool.objects.get(tool_id=f"op{number}")):
                update_tool(
                    pk=tool.pk, expected_version=tool.version, changes={"description": more}, actor="x"
                )
            servers.create_server(actor="x", slug=more, url=f"http://127.0.0.1/{more}")
            create_api_key(name=more, scopes=[Scope.SEARCH_READ])
            for state in (JobState.SUCCEEDED, JobState.QUEUED):
                Job.objects.create(
                    kind="sync_source", title=more, requested_by="x", state=state, finished_at=None
                )
            JobFailure.objects.create(job=world.job, item_id=uuid.uuid4(), label=more, error=more)
            for change in SyncChange.objects.filter(sync=world.sync, applied=False).exclude(
                key__contains="more"
            ):
                change.pk, change.key, change._state.adding = uuid.uuid4(), f"{change.key} {more}", True
                change.save()


def addresses(route: Route, world: World) -> list[str]:
    if route.pattern in NOT_OF_A_THING:
        return [NOT_OF_A_THING[route.pattern]]
    if not route.parameters:
        return [route.path({})]
    return [route.path(values) for values, _ in foreign_and_unknown(route, world)]


def statements(world: World) -> dict[str, int]:
    """The most statements of each page that answers a GET of the tenant's staff, by the name of its route."""
    found: dict[str, int] = {}
    for route in routes():
        # Of Django's admin the lists alone: its other pages show one row.
        is_page = not route.pattern.startswith(("api/", "admin/", "logout/", "livez", "readyz"))
        if not is_page and not route.name.endswith("_changelist"):
            continue
        question = QUESTIONS.get(route.name, "").format(tool=world.tool.pk)
        for path in addresses(route, world):
            with CaptureQueriesContext(connection) as asked:
                answer = world.member.get(path + question)
            if answer.status_code == 200:
                found[route.name] = max(found.get(route.name, 0), len(asked))
    return found


def test_every_page_asks_a_known_number_of_statements_however_much_there_is_OPS_2(world: World) -> None:
    grow(world, range(1))
    few = statements(world)
    grow(world, range(1, 5))
    many = statements(world)
    grown = {name: (few.get(name), count) for name, count in many.items() if count > few.get(name, 0)}
    assert grown == {}
    pages = {name: count for name, count in many.items() if not name.endswith("_changelist")}
    assert pages.keys() == PAGES.keys()
    assert {name: count for name, count in pages.items() if count > PAGES[name]} == {}
    lists = {name: count for name, count in many.items() if name not in pages}
    assert {name: count for name, count in lists.items() if count > ADMIN_LIST} == {}
