"""SEC-4: whoever may not see a tool, by a key's highest sensitivity or as a viewer, sees nothing of it on any route and changes nothing
of it; nor do members of staff in Django's admin."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection

from portal.jobs.transitions import JobQuerySet
from portal.tenancy.models import Role, Tenant
from portal.tenancy.rights import Rights, acting_with
from tests.support.clients import make_api, make_client
from tests.support.hidden import SHOWN, build_hidden, viewer_of_staff
from tests.support.world import (
    NOT_OF_A_THING,
    QUESTIONS,
    RARE_WORD,
    Route,
    World,
    foreign_and_unknown,
    plain_paths,
    routes,
    text_of,
    without,
)
from tools.catalogue import visibility
from tools.catalogue.embedding_text import load_texts
from tools.models import Source, Tool

# What a low key must not change; the events tell of writes that were taken back by later ones, too.
TABLES = (
    "tools_tool", "tools_toolembedding", "tools_endpoint", "tools_manualoverride", "tools_toolevent", "tools_source",
    "tools_sourcedocument", "tools_sync", "tools_syncchange", "embeddings_embeddingtask", "jobs_jobfailure",
)  # fmt: skip


@pytest.fixture(autouse=True)
def hash_embedder(settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.HashEmbedder"


@pytest.fixture
def restricted(tenant: Tenant) -> World:
    return build_hidden(tenant, sensitivity="restricted")


@pytest.fixture
def private(tenant: Tenant) -> World:
    return build_hidden(tenant, visibility="private")


@pytest.fixture
def low(restricted: World) -> Any:
    """A key that may do everything, to public tools."""
    return make_api(restricted.tenant, max_sensitivity="public")


def addresses(world: World, prefix: Callable[[str], bool]) -> Iterator[tuple[str, dict[str, str]]]:
    """Every path there is, with what it names of the hidden part and of what is shown."""
    for path in filter(prefix, plain_paths()):
        for question in ("", *QUESTIONS.get(path, ())):
            yield path + question, {}
    shown = dataclasses.replace(
        world, tool=Tool.objects.get(tool_id=SHOWN), imported=Tool.objects.get(source__slug="shop")
    )
    for route in routes():
        if route.parameters and route.pattern not in NOT_OF_A_THING and prefix("/" + route.pattern):
            for values in _things(route, world, shown):
                yield route.path(values), values


def _things(route: Route, *worlds: World) -> Iterator[dict[str, str]]:
    for world in worlds:
        for values, _ in foreign_and_unknown(route, world):
            yield values
    if route.model is not None:
        (name,) = route.parameters
        rows = route.model._default_manager.values_list("pk", flat=True)
        yield from ({name: str(pk)} for pk in rows[:20])


def leaks(client: Any, world: World, prefix: Callable[[str], bool]) -> list[str]:
    client.raise_request_exception = False
    found = []
    for path, values in addresses(world, prefix):
        text = text_of(client.get(path))
        if world.canary in without(text, values):
            found.append(path)
        if text.startswith("500"):
            found.append(f"{path} failed")
    return found


def is_api(path: str) -> bool:
    return path.startswith("/api/")


def is_admin(path: str) -> bool:
    return path.startswith("/admin/") and "logout" not in path


def is_page(path: str) -> bool:
    return not is_api(path) and not path.startswith("/admin/") and path != "/logout/"


def test_a_low_key_sees_nothing_of_a_more_sensitive_tool_on_any_route_SEC_4(
    restricted: World, low: Any
) -> None:
    assert leaks(low, restricted, is_api) == []
    assert len(leaks(restricted.api, restricted, is_api)) >= 20, "the canary is nowhere to be seen"


def test_a_viewer_sees_nothing_of_a_private_tool_on_any_page_SEC_4(private: World) -> None:
    viewer = make_client(private.tenant, Role.VIEWER)
    assert leaks(viewer, private, is_page) == []
    assert len(leaks(private.member, private, is_page)) >= 15, "the canary is nowhere to be seen"


def test_a_job_that_somebody_may_not_know_of_would_be_noticed_SEC_4(
    private: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_jobs(path: str) -> bool:
        return "/jobs" in path and "/new" not in path

    viewer, reader = make_client(private.tenant, Role.VIEWER), make_api(private.tenant, "tools:read")
    page = f"/jobs/{private.job.pk}/"
    assert (leaks(viewer, private, of_jobs), viewer.get(page).status_code) == ([], 404)
    assert leaks(reader, private, of_jobs) == []
    monkeypatch.setattr(JobQuerySet, "seen", lambda jobs: jobs)
    assert {"/jobs/", page} <= set(leaks(viewer, private, of_jobs))
    assert "/api/v1/jobs" in leaks(reader, private, of_jobs)


def test_a_key_that_may_only_read_sees_nothing_of_a_private_tool_SEC_4(private: World) -> None:
    reader = make_api(private.tenant, "tools:read", "search:read", "sources:write", "jobs:run")
    assert leaks(reader, private, is_api) == []


def test_staff_see_in_djangos_admin_what_their_pages_show_them_SEC_4(private: World) -> None:
    assert leaks(viewer_of_staff(private.tenant), private, is_admin) == []
    assert len(leaks(private.member, private, is_admin)) >= 15, "the canary is nowhere to be seen"


def fingerprint() -> dict[str, list[Any]]:
    with connection.cursor() as cursor:
        found = {}
        for table in TABLES:
            cursor.execute(f"SELECT to_jsonb(row) FROM {table} row ORDER BY 1::text")
            found[table] = cursor.fetchall()
        return found


def hidden_rows(canary: str) -> dict[str, list[Any]]:
    return {name: [row for row in rows if canary in str(row)] for name, rows in fingerprint().items()}


BODIES: list[dict[str, Any]] = [
    {"name": "mine", "description": "mine now"},
    {"title": "mine now"},
    {"apply": True, "confirm_removals": True},
    {"accept": None},
    {},
]


def test_a_low_key_changes_no_row_of_a_more_sensitive_tool_on_any_route_SEC_4(
    restricted: World, low: Any
) -> None:
    low.raise_request_exception = False
    before = hidden_rows(restricted.canary)
    assert all(before[table] for table in TABLES), "each table has hidden rows"
    done = []
    for path, values in addresses(restricted, is_api):
        for method in ("post", "patch", "delete"):
            for body in BODIES if values else BODIES[:1]:
                answer = getattr(low, method)(path, body, format="json", headers={"If-Match": "*"})
                assert restricted.canary not in without(text_of(answer), values), (method, path)
                assert answer.status_code != 500, (method, path, answer.content)
                if hidden_rows(restricted.canary) != before:
                    done.append(f"{method} {path} {body}")
                    before = hidden_rows(restricted.canary)
    assert done == []


def test_a_low_key_writes_no_tool_above_it_SEC_4(restricted: World, low: Any) -> None:
    made = low.post("/api/v1/tools", {"tool_id": "x", "name": "X", "sensitivity": "internal"}, format="json")
    assert (made.status_code, "public at most" in made.json()["detail"]) == (403, True)
    path = f"/api/v1/tools/{SHOWN}"
    raised = low.patch(path, {"sensitivity": "restricted"}, format="json", headers={"If-Match": '"v2"'})
    assert (raised.status_code, Tool.objects.get(tool_id=SHOWN).sensitivity) == (403, "public")
    # Names are unique, so one that is taken is told, in the same words whoever may see what has it.
    taken = [
        low.post("/api/v1/tools", {"tool_id": name, "name": "X", "sensitivity": "public"}, format="json")
        for name in (restricted.tool.tool_id, SHOWN)
    ]
    assert [one.status_code for one in taken] == [409, 409]
    assert taken[0].json()["detail"] == taken[1].json()["detail"]


def test_a_low_key_imports_into_no_source_of_hidden_tools_and_nothing_above_it_SEC_4(
    restricted: World, low: Any
) -> None:
    document = b'{"openapi": "3.0.0", "info": {"title": "T", "version": "1"}, "paths": {"/n": {"get": {"responses": {}}}}}'

    def upload(source: str, **options: str) -> Any:
        return low.post(
            "/api/v1/sources",
            {"document": SimpleUploadedFile("d.json", document), "source": source, **options},
        )

    before = fingerprint()
    # Its operations are internal, as every import's, so this key may have none of them.
    for source in (restricted.source.slug, "new", "shop"):
        answer = upload(source, confirm_removals="true")
        assert (answer.status_code, answer.json()["title"]) == (403, "permission_denied"), source
    assert upload(restricted.source.slug, dry_run="true").status_code == 403
    assert fingerprint() == before
    internal = make_api(restricted.tenant, max_sensitivity="internal")
    internal_upload = internal.post(
        "/api/v1/sources", {"document": SimpleUploadedFile("d.json", document), "source": "new"}
    )
    assert internal_upload.status_code == 200
    assert Source.objects.get(slug="new").tools.get().sensitivity == "internal"


def test_settings_that_decide_over_later_syncs_need_a_key_that_sees_everything_SEC_4(
    restricted: World, low: Any
) -> None:
    def patch(client: Any, **changes: object) -> int:
        status: int = client.patch(
            "/api/v1/sources/shop", changes, format="json", headers={"If-Match": "*"}
        ).status_code
        return status

    assert patch(low, title="Corner shop") == 200
    assert patch(low, sync_wins=True) == 403
    assert patch(low, url="https://example.com/a.json") == 403
    assert patch(restricted.api, sync_wins=True) == 200


def test_the_tools_of_a_source_are_counted_as_far_as_they_are_seen_SEC_4(private: World) -> None:
    Tool.objects.filter(source__slug="shop").update(visibility="private")
    viewer = make_client(private.tenant, Role.VIEWER)
    assert b"shop</a>" not in viewer.get("/sources/").content
    Tool.objects.filter(source__slug="shop").update(visibility="public")
    Tool.objects.filter(pk=private.imported.pk).update(visibility="public")
    twin = Tool.objects.filter(source__slug="shop").get()
    Tool.objects.filter(pk=private.tool.pk).update(source=twin.source)
    page = viewer.get(f"/sources/{twin.source_id}/").content.decode()
    assert "1 tool<" in page
    assert "2 tools<" in private.member.get(f"/sources/{twin.source_id}/").content.decode()
    reader = make_api(private.tenant, "tools:read")
    assert reader.get("/api/v1/sources/shop").json()["active_tools"] == 1


def test_a_job_works_with_the_rights_of_who_started_it_SEC_4(restricted: World, low: Any) -> None:
    args = {"ids": [str(restricted.tool.pk), str(Tool.objects.get(tool_id=SHOWN).pk)]}
    dry = low.post(
        "/api/v1/jobs", {"kind": "refresh_embeddings", "args": args, "dry_run": True}, format="json"
    )
    assert dry.json()["to_do"] == 1
    started = low.post("/api/v1/jobs", {"kind": "refresh_embeddings", "args": args}, format="json").json()
    job = apps.get_model("jobs", "Job").objects.get(pk=started["id"])
    assert job.own_rights.max_sensitivity == "public"
    with acting_with(job.own_rights):
        assert len(load_texts([restricted.tool.pk, Tool.objects.get(tool_id=SHOWN).pk])) == 1
    backfill = low.post("/api/v1/jobs", {"kind": "backfill_embeddings", "dry_run": True}, format="json")
    assert backfill.json()["total"] == 2, "the two public tools"


def test_another_job_of_the_same_scope_is_told_without_naming_a_hidden_one_SEC_4(
    restricted: World, low: Any
) -> None:
    assert (
        restricted.api.post("/api/v1/jobs", {"kind": "backfill_embeddings"}, format="json").status_code == 202
    )
    refused = low.post("/api/v1/jobs", {"kind": "backfill_embeddings"}, format="json")
    assert (refused.status_code, "Location" in refused) == (409, False)
    assert "not over yet" in refused.json()["detail"]


def test_every_model_of_the_catalogue_has_a_rule_of_who_sees_its_rows_SEC_4(tenant: Tenant) -> None:
    unseen = {"tools.Posting", "tools.SearchDocument"}  # of the search, which has its own filter
    tables = {
        model._meta.label for app in ("tools", "jobs") for model in apps.get_app_config(app).get_models()
    }
    without_rule = []
    viewer = Rights(tenant.pk, "v", frozenset({"tools:read"}), "public")
    with acting_with(viewer):
        for label in sorted(tables - unseen - {"jobs.WorkerHeartbeat"}):
            try:
                list(visibility.seen(apps.get_model(label)._default_manager.all())[:1])
            except KeyError:
                without_rule.append(label)
    assert without_rule == []
    with acting_with(viewer), pytest.raises(KeyError):
        visibility.seen(Tenant.objects.all())


def test_the_search_of_the_world_proves_something_SEC_4(restricted: World, low: Any) -> None:
    path = f"/api/v1/tools/search?query={RARE_WORD}"
    seen, all_of_them = (client.get(path).json()["results"] for client in (low, restricted.api))
    assert [one["tool"]["tool_id"] for one in seen] == [SHOWN]
    assert len(all_of_them) == 3
