"""SYN-4 by REST: a source is read anew as a job, its plan is looked at, and applied, in whole or in part, or discarded."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from rest_framework.test import APIClient

from portal.jobs import runner
from portal.jobs.models import Job
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope, Tenant
from tests.support.api import SOURCES, assert_problem, post, raw, upload
from tests.support.clients import make_api
from tests.support.imports.documents import document
from tests.support.servers.document_server import DocumentServer, document_server
from tools.catalogue.tools import update_tool
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.models import Source, Sync, Tool

SHOP = f"{SOURCES}/shop"


@pytest.fixture
def server(settings: Any) -> Iterator[DocumentServer]:
    with document_server() as running:
        settings.IMPORT_ALLOWED_HOSTS = [running.host]
        yield running


@pytest.fixture
def client(committed: Tenant, server: DocumentServer) -> APIClient:
    """A key of a tenant with a source `shop`, of a, b and c, that can be read anew; everything is really committed."""
    made = make_api(committed)
    url = server.put("/shop.json", document("a", "b", "c", "d"))
    assert post(made, url=url, source="shop").status_code == 200
    return made


def work(tenant: Tenant, answer: Any) -> dict[str, Any]:
    """Runs the job that an answer accepted, as a worker would; what the job says in the end."""
    assert answer.status_code == 202, answer.content
    assert answer["Location"] == f"/api/v1/jobs/{answer.json()['id']}"
    with tenant_context(tenant.pk):
        claimed = Job.objects.claim(kinds=[answer.json()["kind"]], pk=answer.json()["id"])
    runner.run(claimed, threading.Event())
    said: dict[str, Any] = make_api(tenant).get(answer["Location"]).json()
    return said


def plan(tenant: Tenant, client: APIClient) -> dict[str, Any]:
    """The source read anew; its newest sync."""
    assert work(tenant, post(client, f"{SHOP}/sync"))["state"] == "succeeded"
    newest: dict[str, Any] = client.get(f"{SHOP}/syncs").json()["results"][0]
    return newest


def changes(client: APIClient, sync: dict[str, Any], **filters: str) -> dict[str, dict[str, Any]]:
    """The changes of a sync by their keys."""
    listed = client.get(sync["links"]["changes"], filters).json()["results"]
    return {one["key"]: one for one in listed}


def names(tenant: Tenant) -> set[str]:
    with tenant_context(tenant.pk):
        return set(Tool.objects.filter(active=True).values_list("name", flat=True))


def test_syn_4_a_sync_is_a_job_that_ends_with_a_plan_and_writes_no_tool(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    with tenant_context(committed.pk):
        tool = Tool.objects.get(name="a")
        update_tool(pk=tool.pk, expected_version=1, changes={"description": "Mine."}, actor="test")
    server.put("/shop.json", document("a", "b", "c", "d", "e", a="Does it otherwise."))
    sync = plan(committed, client)
    assert (sync["state"], sync["error"], sync["ended_at"]) == ("planned", None, None)
    assert [sync["counts"][name] for name in ("added", "changed", "unchanged", "conflicts")] == [1, 1, 3, 1]
    one = client.get(sync["links"]["self"]).json()
    assert {**sync, "summary": one["summary"]} == {**one, "counts": sync["counts"]}
    whole = one["summary"]
    assert sync["counts"].keys() == whole.keys() - {"source", "dry_run"}
    assert (sync["counts"]["left_out"], sync["counts"]["warnings"]) == (0, len(whole["warnings"]))
    assert set(sync["links"]) == {"self", "changes", "apply", "discard", "document", "job"}
    assert client.get(sync["links"]["document"]).content == server.documents["/shop.json"]
    found = changes(client, sync)
    assert {key: one["action"] for key, one in found.items()} == {"/a@get": "change", "/e@get": "add"}
    [field] = found["/a@get"]["fields"]
    assert field["field"] == "description"
    assert field["override"] == "conflict"
    assert found["/a@get"]["tool"] == str(tool.pk)
    assert changes(client, sync, action="add").keys() == {"/e@get"}
    assert changes(client, sync, conflict="true").keys() == {"/a@get"}
    assert changes(client, sync, limit="1").keys() == {"/a@get"}
    for wrong in ("action=steal", "conflict=perhaps", "colour=red", "limit=0"):
        assert_problem(client.get(f"{sync['links']['changes']}?{wrong}"), 400)
    assert names(committed) == set("abcd")


def test_syn_4_a_choice_of_a_plan_is_applied_and_the_rest_is_not(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    server.put("/shop.json", document("a", "b", "c", "d", "e", "f", "g"))
    sync = plan(committed, client)
    ids = {key[1]: one["id"] for key, one in changes(client, sync).items()}
    foreign = str(uuid.uuid4())
    for wrong in (
        {"accept": [foreign]},
        {"reject": [foreign]},
        {"accept": ["x"]},
        {"accept": "all"},
        {"chosen": []},
    ):
        assert_problem(post(client, sync["links"]["apply"], **wrong), 400, "validation_error")
    job = work(
        committed, post(client, sync["links"]["apply"], accept=[ids["e"], ids["f"]], reject=[ids["f"]])
    )
    assert (job["state"], job["kind"], job["total"], job["done"]) == ("succeeded", "apply_sync", 1, 1)
    assert names(committed) == set("abcde")
    sync = client.get(sync["links"]["self"]).json()
    assert (sync["state"], sync["summary"]["added"]) == ("applied", 1)
    assert "apply" not in sync["links"]
    assert {key: one["applied"] for key, one in changes(client, sync).items()} == {
        "/e@get": True, "/f@get": False, "/g@get": False
    }  # fmt: skip


def test_syn_4_a_choice_of_nothing_is_refused_and_the_plan_waits(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    server.put("/shop.json", document("a", "b", "c", "d", "e"))
    sync = plan(committed, client)
    every = [one["id"] for one in changes(client, sync).values()]
    for choice in ({"accept": []}, {"reject": every}):
        refused = assert_problem(post(client, sync["links"]["apply"], **choice), 422, "validation_error")
        assert refused["errors"][0]["pointer"] == "/accept"
    args = {"sync": sync["id"], "changes": []}
    assert_problem(post(client, "/api/v1/jobs", kind="apply_sync", args=args), 422, "validation_error")
    assert client.get(sync["links"]["self"]).json()["state"] == "planned"


def test_syn_4_all_but_the_rejected_and_all(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    server.put("/shop.json", document("a", "b", "c", "d", "e", "f"))
    sync = plan(committed, client)
    rejected = changes(client, sync)["/e@get"]["id"]
    work(committed, post(client, sync["links"]["apply"], reject=[rejected]))
    assert names(committed) == set("abcdf")
    work(committed, post(client, plan(committed, client)["links"]["apply"], accept=None))
    assert names(committed) == set("abcdef")


def test_syn_4_a_sync_with_apply_needs_no_second_word(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    server.put("/shop.json", document("a", "b", "c", "d", "e"))
    work(committed, post(client, f"{SHOP}/sync", apply=True))
    assert names(committed) == set("abcde")


def test_syn_4_more_than_a_fifth_is_not_removed_without_a_word(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    server.put("/shop.json", document("a"))
    sync = plan(committed, client)
    refused = assert_problem(post(client, sync["links"]["apply"]), 409, "removals_need_confirmation")
    assert (refused["removed"], refused["active"]) == (3, 4)
    assert names(committed) == set("abcd")
    work(committed, post(client, sync["links"]["apply"], confirm_removals=True))
    assert names(committed) == {"a"}


def test_syn_4_only_what_the_catalogue_has_outgrown_of_a_plan_is_refused(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    server.put("/shop.json", document("a", "b", "c", "d", "e", a="Does it otherwise."))
    sync = plan(committed, client)
    assert (
        upload(client, raw("a", "b", "c", "d", a="Does it in a third way."), source="shop").status_code == 200
    )
    job = work(committed, post(client, sync["links"]["apply"]))
    assert (job["state"], "has changed since this plan was made (/a@get)" in job["error"]) == ("failed", True)
    added = changes(client, sync, action="add")["/e@get"]["id"]
    work(committed, post(client, sync["links"]["apply"], accept=[added]))  # of this one nothing has changed
    assert names(committed) == set("abcde")


def test_syn_4_an_import_that_leaves_what_a_plan_changes_as_it_is_does_not_outgrow_it(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    server.put("/shop.json", document("a", "b", "c", "d", a="Does it otherwise."))
    sync = plan(committed, client)
    upload(client, raw("a", "b", "c", "d", a="Does it in a third way."), source="shop")
    upload(client, raw("a", "b", "c", "d"), source="shop")  # and back again
    job = work(committed, post(client, sync["links"]["apply"]))
    assert (job["state"], job["error"]) == ("succeeded", None)


def test_syn_4_a_later_plan_takes_the_place_of_an_earlier_one(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    server.put("/shop.json", document("a", "b", "c", "d", "e"))
    first = plan(committed, client)
    server.put("/shop.json", document("a", "b", "c", "d", "f"))
    second = plan(committed, client)
    assert_problem(post(client, first["links"]["apply"]), 409, "plan_outgrown")
    assert_problem(post(client, first["links"]["discard"]), 409, "conflict")
    work(committed, post(client, second["links"]["apply"]))
    assert_problem(post(client, second["links"]["apply"]), 409, "conflict")
    assert names(committed) == set("abcdf")


def test_syn_4_an_edit_between_plan_and_apply_ends_the_job_with_a_sentence(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    server.put("/shop.json", document("a", "b", "c", "d", a="Does it otherwise."))
    sync = plan(committed, client)
    with tenant_context(committed.pk):
        tool = Tool.objects.get(name="a")
        update_tool(pk=tool.pk, expected_version=1, changes={"description": "Mine."}, actor="test")
    job = work(committed, post(client, sync["links"]["apply"]))
    assert job["state"] == "failed"
    assert "has changed since this plan was made" in job["error"]
    assert client.get(sync["links"]["self"]).json()["state"] == "planned"


def test_syn_4_what_cannot_be_read_is_a_failed_sync_that_keeps_every_tool(
    committed: Tenant, client: APIClient, server: DocumentServer
) -> None:
    server.documents.clear()
    job = work(committed, post(client, f"{SHOP}/sync"))
    assert (job["state"], "answered 404" in job["error"]) == ("failed", True)
    [failed, _] = client.get(f"{SHOP}/syncs").json()["results"]
    assert (failed["state"], "answered 404" in failed["error"], set(failed["links"])) == (
        "failed",
        True,
        {"self", "changes"},
    )
    assert client.get(failed["links"]["self"]).json()["summary"] == {}
    assert client.get(SHOP).json()["failures"] == 1
    assert names(committed) == set("abcd")


def test_syn_4_one_sync_of_a_source_at_a_time_and_none_of_one_without_an_address(client: APIClient) -> None:
    running = post(client, f"{SHOP}/sync")
    again = assert_problem(post(client, f"{SHOP}/sync"), 409, "already_running")
    assert again["status"] == 409
    assert running.status_code == 202
    assert post(client, f"{SHOP}/sync")["Location"] == running["Location"]
    upload(client, raw("z"), source="typed")
    assert_problem(post(client, f"{SOURCES}/typed/sync"), 422, "validation_error")
    assert_problem(post(client, f"{SHOP}/sync", apply="perhaps"), 400)
    assert_problem(post(client, f"{SOURCES}/nothing/sync"), 404)


def test_syn_4_a_discarded_plan_of_a_new_source_leaves_nothing(agent: APIClient, owner: Tenant) -> None:
    sync = syncs.plan_document(
        IncomingDocument(raw=raw("a"), name="new.json", slug="new"), tenant_id=owner.pk, actor="test"
    )
    address = f"{SOURCES}/new/syncs/{sync.pk}/discard"
    thrown = post(agent, address, headers={"Idempotency-Key": "once"})
    assert thrown.json() == {"id": str(sync.pk), "state": "discarded", "source_deleted": True}
    again = post(agent, address, headers={"Idempotency-Key": "once"})
    assert (again.json(), again["Idempotency-Replayed"]) == (thrown.json(), "true")
    assert agent.get(f"{SOURCES}/new").status_code == 404
    upload(agent, raw("a"), source="old")
    sync = syncs.plan_document(
        IncomingDocument(raw=raw("b"), name="old.json", slug="old"), tenant_id=owner.pk, actor="test"
    )
    assert post(agent, f"{SOURCES}/old/syncs/{sync.pk}/discard").json()["source_deleted"] is False
    assert agent.get(f"{SOURCES}/old").json()["active_tools"] == 1


def test_syn_4_a_large_document_is_planned_and_applied_by_a_job(
    committed: Tenant, client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.api.sources.views.LARGE", 3)
    whole = raw("a", "b", "c", "d", "e")
    dry = upload(client, whole, source="shop", dry_run="true")
    assert (dry.status_code, dry.json()["added"]) == (200, 1)
    job = work(committed, upload(client, whole, source="shop"))
    assert (job["state"], job["kind"], job["done"]) == ("succeeded", "apply_sync", 1)
    assert names(committed) == set("abcde")
    again = upload(client, whole, source="shop")
    assert (again.status_code, again.json()["unchanged"]) == (200, 5)
    other = raw("v", "w", "x", "y")
    refused = assert_problem(upload(client, other, source="shop"), 409, "removals_need_confirmation")
    assert (refused["removed"], refused["active"]) == (5, 5)
    assert {one["state"] for one in client.get(f"{SHOP}/syncs").json()["results"]} == {"applied"}
    work(committed, upload(client, other, source="shop", confirm_removals="true"))
    assert names(committed) == set("vwxy")
    small = upload(client, raw("v"), source="shop")
    assert_problem(small, 409, "removals_need_confirmation")


def test_a_document_that_takes_long_to_write_is_left_to_a_job_S8(
    committed: Tenant, client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.api.sources.views.WRITE_SECONDS", 0)
    job = work(committed, upload(client, raw("x", "y"), source="heavy"))
    assert (job["state"], job["kind"], job["done"]) == ("succeeded", "apply_sync", 2)
    assert names(committed) == {"a", "b", "c", "d", "x", "y"}


def test_sec_1_a_sync_is_found_under_its_own_source_only(agent: APIClient, owner: Tenant) -> None:
    for slug in ("shop", "zoo"):
        upload(agent, raw(slug), source=slug)
    with tenant_context(owner.pk):
        pk = Sync.objects.get(source__slug="zoo").pk
    assert agent.get(f"{SOURCES}/zoo/syncs/{pk}").status_code == 200
    for path in ("", "/changes"):
        assert_problem(agent.get(f"{SHOP}/syncs/{pk}{path}"), 404)
    for path in ("/apply", "/discard"):
        assert_problem(post(agent, f"{SHOP}/syncs/{pk}{path}"), 404)


def test_api_3_a_plan_is_shown_to_keys_that_may_see_every_tool(agent: APIClient, owner: Tenant) -> None:
    upload(agent, raw("a"), source="shop")
    with tenant_context(owner.pk):
        address = f"{SHOP}/syncs/{Sync.objects.get().pk}/changes"
    bound = make_api(owner, max_sensitivity="internal")
    for place in (address, address.removesuffix("/changes"), f"{SHOP}/syncs", f"{SHOP}/documents"):
        assert_problem(bound.get(place), 403, "permission_denied")
    assert agent.get(address).status_code == 200


def test_api_3_a_key_that_may_only_run_jobs_syncs_nothing(owner: Tenant, agent: APIClient) -> None:
    upload(agent, raw("a"), source="shop")
    with tenant_context(owner.pk):
        Source.objects.update(url="https://example.com/a.json")
        sync = str(Sync.objects.get().pk)
    runs = make_api(owner, Scope.JOBS_RUN)
    for kind, args in (("sync_source", {"source": "shop"}), ("apply_sync", {"sync": sync})):
        refused = assert_problem(post(runs, "/api/v1/jobs", kind=kind, args=args), 403, "permission_denied")
        assert "sources:write" in refused["detail"]
    both = make_api(owner, Scope.JOBS_RUN, Scope.SOURCES_WRITE)
    started = post(both, "/api/v1/jobs", kind="sync_source", args={"source": "shop"})
    assert started.status_code == 202
    assert post(runs, f"{started['Location']}/cancel").status_code == 202
    assert_problem(post(runs, f"{started['Location']}/resume"), 403, "permission_denied")
    assert post(both, f"{started['Location']}/resume").status_code == 202
