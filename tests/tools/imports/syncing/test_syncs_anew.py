"""SYN-4, R16: sources that are read anew, by hand or by schedule, as jobs: a reading that fails takes nothing away, is told, and
is tried again later each time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import ThreadingHTTPServer
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.db.models.functions import Now

from portal.jobs import services
from portal.jobs.models import Job
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.database import login
from tests.support.imports.api_server import Api, Handler
from tests.support.imports.documents import document, import_document
from tests.support.imports.syncs import (
    again,
    apply,
    changes,
    edit,
    find_job,
    nothing_written,
    plan,
    run_sync_jobs,
    texts,
)
from tools.catalogue import sources
from tools.catalogue.errors import Invalid, SyncFailed, WrongSyncState
from tools.imports.syncing import schedule
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import IncomingDocument
from tools.imports.syncing.jobs import SYNC
from tools.models import Source, Sync, SyncState

Owner = psycopg.Connection[Any]


pytestmark = pytest.mark.usefixtures("parse_in_process")


@pytest.fixture
def api(settings: Any) -> Iterator[Api]:
    api = Api()
    api.says(document("a", "b"))
    handler = type("Handler", (Handler,), {"api": api, "protocol_version": "HTTP/1.1"})
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    running.daemon_threads = True
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    host = f"127.0.0.1:{running.server_port}"
    settings.IMPORT_ALLOWED_HOSTS = [host]
    api.url = f"http://{host}/openapi.json"
    yield api
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def shop(committed: Tenant, api: Api) -> Tenant:
    """A tenant with a source that was read from the API once."""
    import_document(committed, api.body)
    change(committed, url=api.url)
    return committed


def source(tenant: Tenant) -> Source:
    with tenant_context(tenant.pk):
        found: Source = Source.objects.get()
        return found


def change(tenant: Tenant, **settings: Any) -> Source:
    with tenant_context(tenant.pk):
        return sources.update_source(pk=Source.objects.get().pk, actor="olga", **settings)


def read(tenant: Tenant) -> Sync:
    return syncs.plan_source(tenant_id=tenant.pk, source_id=source(tenant).pk, actor="olga")


def history(tenant: Tenant) -> list[tuple[str, str]]:
    with tenant_context(tenant.pk):
        return list(Sync.objects.values_list("state", "created_by"))


def wait(tenant: Tenant) -> timedelta | None:
    """How long until the source is read by itself, to the minute."""
    with tenant_context(tenant.pk):
        found = Source.objects.annotate(now=Now()).get()
    if found.next_sync_at is None:
        return None
    return timedelta(minutes=round((found.next_sync_at - found.now).total_seconds() / 60))


# --- Reading ----------------------------------------------------------------------------------------------------------
def test_syn_4_a_source_that_is_read_anew_is_planned_and_waits(shop: Tenant, api: Api) -> None:
    api.says(document("a", "b", "c", a="New."))
    with nothing_written(shop, "tools_source", "tools_sourcedocument"):
        sync = read(shop)
    assert (sync.state, sync.summary["added"], sync.summary["changed"]) == (SyncState.PLANNED, 1, 1)
    apply(shop, sync)
    assert texts(shop).keys() == {"a", "b", "c"}
    assert source(shop).synced_at is not None


def test_syn_4_a_source_that_says_the_same_is_noted_as_read_and_fills_no_history(
    shop: Tenant, api: Api
) -> None:
    before, read_before = history(shop), source(shop).synced_at
    with nothing_written(shop, "tools_source"):
        for _ in range(3):
            assert read(shop).state == SyncState.APPLIED
    assert history(shop) == before
    assert source(shop).synced_at != read_before


FAULTS: dict[str, dict[str, Any]] = {
    "an error of the server": {"status": 500},
    "a login page": {"body": b"<html><body>Please log in</body></html>"},
    "a redirect": {"status": 302},
    "nothing": {"body": b""},
    "half of it": {"cut": 100},
    "half of it in chunks": {"cut": 100, "chunked": True},
    "all but the last chunk": {"cut": 5, "chunked": True},
    "a document of nothing": {"body": b"{}"},
    "an unknown version": {"body": b'{"openapi": "9.0.0", "info": {}, "paths": {}}'},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_r16_a_reading_that_fails_removes_nothing_and_is_told(shop: Tenant, api: Api, fault: str) -> None:
    edit(shop, "a", description="Ours.")
    vars(api).update(FAULTS[fault])
    with nothing_written(shop, "tools_source"), pytest.raises(SyncFailed) as refused:
        read(shop)
    assert source(shop).last_error == str(refused.value)
    assert "\n" not in str(refused.value)
    assert source(shop).failures == 1
    assert history(shop)[0] == (SyncState.FAILED, "olga")
    with tenant_context(shop.pk):
        assert Sync.objects.filter(error=str(refused.value), document=None).count() == 1
    vars(api).update(status=200, cut=0, chunked=False)
    api.says(document("a", "b", "c"))
    apply(shop, read(shop))
    assert (source(shop).failures, source(shop).last_error) == (0, "")
    assert texts(shop) == {
        "a": "Ours.",
        "b": "Does b as the shop wants it.",
        "c": "Does c as the shop wants it.",
    }


def test_r16_a_reading_that_fails_leaves_a_plan_that_waits_as_it_is(shop: Tenant, api: Api) -> None:
    api.says(document("a", "b", a="New."))
    sync = read(shop)
    api.status = 500
    with pytest.raises(SyncFailed):
        read(shop)
    apply(shop, sync)
    assert texts(shop)["a"] == "New."


@pytest.mark.parametrize("status", [200, 500])
def test_syn_4_a_source_that_is_deleted_while_it_is_read_stays_deleted(
    shop: Tenant, api: Api, status: int
) -> None:
    def delete() -> None:
        with tenant_context(shop.pk):
            sources.delete_source(pk=Source.objects.get().pk, actor="adam")
        connection.close()

    change(shop, schedule="hourly", auto_apply=True)
    with tenant_context(shop.pk):
        job = services.start(SYNC, {"source": "shop", "apply": True}, by="olga")
    api.meanwhile, api.status = delete, status
    assert run_sync_jobs() == ["failed"]
    assert find_job(shop, job).error == "The source was deleted in the meantime."
    assert texts(shop) == {}
    with tenant_context(shop.pk):
        assert not Source.objects.exists()
        assert not Sync.objects.exists()


def test_syn_4_a_source_of_the_same_name_made_meanwhile_is_another_one(shop: Tenant, api: Api) -> None:
    def replace() -> None:
        with tenant_context(shop.pk):
            sources.delete_source(pk=Source.objects.get().pk, actor="adam")
        import_document(shop, document("other"))
        connection.close()

    api.meanwhile = replace
    with pytest.raises(Source.DoesNotExist):
        read(shop)
    assert texts(shop).keys() == {"other"}
    assert history(shop) == [(SyncState.APPLIED, "importer")]


def test_syn_4_other_warnings_of_the_same_document_write_nothing(shop: Tenant, api: Api) -> None:
    api.says(document("a", "b", "c"))
    waiting = read(shop)
    with tenant_context(shop.pk):
        Sync.objects.filter(pk=waiting.pk).update(summary={**waiting.summary, "warnings": ["Found before."]})
    with nothing_written(shop, "tools_source"):
        assert read(shop).pk == waiting.pk
    assert again(shop, waiting).summary["warnings"] == ["Found before."]


def test_syn_4_a_plan_that_waits_is_kept_while_the_source_says_the_same(shop: Tenant, api: Api) -> None:
    api.says(document("a", "b", "c", a="New."))
    waiting = read(shop)
    rows = changes(shop, waiting)
    api.says({**document("a", "b", "c", a="New."), "x-generated": "an hour later"})
    assert read(shop).pk == waiting.pk
    assert changes(shop, waiting).keys() == rows.keys()
    assert [one.pk for one in changes(shop, waiting).values()] == [
        one.pk for one in rows.values()
    ]  # as ticked
    with tenant_context(shop.pk):
        assert Sync.objects.filter(state=SyncState.PLANNED).count() == 1
        assert b"an hour later" in bytes(again(shop, waiting).document.content)
    api.says(document("a", "b", "c", a="Newer."))
    newer = read(shop)
    assert newer.pk != waiting.pk
    assert again(shop, waiting).state == SyncState.DISCARDED
    apply(shop, newer, "c")
    assert read(shop).pk != newer.pk  # what was not chosen is planned anew
    apply(shop, read(shop))
    assert texts(shop)["a"] == "Newer."


def test_syn_4_after_a_failure_a_reading_without_news_answers_with_the_last_good_sync(
    shop: Tenant, api: Api
) -> None:
    good = read(shop)
    api.status = 500
    with pytest.raises(SyncFailed):
        read(shop)
    api.status = 200
    with tenant_context(shop.pk):
        job = services.start(SYNC, {"source": "shop"}, by="olga")
    assert run_sync_jobs() == ["succeeded"]
    assert find_job(shop, job).log[-1]["text"] == "Nothing is new."
    assert find_job(shop, job).cursor == {"sync": str(good.pk)}


# --- Where it is read -------------------------------------------------------------------------------------------------
def test_syn_4_a_plan_of_what_was_read_elsewhere_ends_with_the_sources_new_address(
    shop: Tenant, api: Api
) -> None:
    api.says(document("a", "b", a="New."))
    waiting = read(shop)
    change(shop, url="https://example.com/elsewhere.json")
    assert (again(shop, waiting).state, again(shop, waiting).ended_by) == (SyncState.DISCARDED, "olga")
    with nothing_written(shop), pytest.raises(WrongSyncState):
        apply(shop, waiting)
    upload = plan(shop, document("a", "b", a="Uploaded."))
    change(shop, url=api.url)
    apply(shop, upload)
    assert (texts(shop)["a"], source(shop).url) == ("Uploaded.", api.url)


def test_syn_4_a_plan_from_another_address_moves_the_source_there_once_it_is_applied(
    shop: Tenant, api: Api
) -> None:
    def planned(name: str, url: str = "") -> Sync:
        raw = json.dumps(document("a", "b", a=name)).encode()
        return syncs.plan_document(
            IncomingDocument(raw=raw, name=name, slug="shop", url=url), tenant_id=shop.pk, actor="petra"
        )

    first, second = "https://example.com/1.json", "https://example.com/2.json"
    sync = planned(first, first)
    assert source(shop).url == api.url
    apply(shop, sync)
    assert source(shop).url == first
    sync = planned(second, second)
    change(shop, schedule="daily", url=api.url)  # who set it later decides
    apply(shop, sync)
    assert source(shop).url == api.url
    apply(shop, planned(first))  # an old document, planned again
    assert source(shop).url == api.url


def test_syn_4_an_upload_says_nothing_of_the_address_and_clears_no_failure(shop: Tenant, api: Api) -> None:
    change(shop, schedule="daily")
    api.status = 500
    with pytest.raises(SyncFailed):
        read(shop)
    before = source(shop)
    apply(shop, plan(shop, document("a", "b", "c")))
    import_document(shop, document("a", "b", "c", "d"))
    after = source(shop)
    assert texts(shop).keys() == {"a", "b", "c", "d"}
    assert (after.url, after.failures, after.last_error) == (api.url, 1, before.last_error)
    assert after.next_sync_at == before.next_sync_at


# --- By schedule ------------------------------------------------------------------------------------------------------
def start_due() -> int:
    with login("DATABASE_WORKER_URL"):
        return schedule.start_due_syncs()


def is_due(owner: Owner) -> None:
    owner.execute("UPDATE tools_source SET next_sync_at = now() - interval '3 hours' WHERE schedule <> ''")


def test_syn_4_a_source_is_read_when_it_is_due_and_not_before(
    shop: Tenant, api: Api, admin_database: Owner
) -> None:
    assert start_due() == 0  # it has no schedule
    change(shop, schedule="hourly")
    assert wait(shop) == timedelta(hours=1)
    assert start_due() == 0
    api.says(document("a", "b", a="New."))
    is_due(admin_database)
    assert start_due() == 1  # once, although three were missed
    assert start_due() == 0
    assert run_sync_jobs() == ["succeeded"]
    assert wait(shop) == timedelta(hours=1)
    assert history(shop)[0] == (SyncState.PLANNED, "schedule")
    assert texts(shop)["a"] != "New."  # somebody looks at it first


def test_syn_4_with_auto_apply_it_is_applied_by_itself_but_for_what_needs_a_person(
    shop: Tenant, api: Api, admin_database: Owner
) -> None:
    change(shop, schedule="daily", auto_apply=True)
    edit(shop, "b", description="Ours.")
    api.says(document("a", "b", a="New.", b="Theirs."))
    is_due(admin_database)
    start_due()
    assert run_sync_jobs() == ["succeeded"]
    assert texts(shop) == {"a": "New.", "b": "Ours."}
    assert history(shop)[0] == (SyncState.APPLIED, "schedule")
    api.says(document("a"))
    is_due(admin_database)
    start_due()
    assert run_sync_jobs() == ["succeeded"]
    assert history(shop)[0] == (SyncState.PLANNED, "schedule")
    assert texts(shop).keys() == {"a", "b"}
    with tenant_context(shop.pk):
        [job] = Job.objects.order_by("-created_at")[:1]
    assert any("would vanish" in line["text"] for line in job.log)


def test_syn_4_what_fails_is_tried_again_later_each_time_up_to_its_usual_interval(
    shop: Tenant, api: Api, admin_database: Owner
) -> None:
    change(shop, schedule="hourly")
    api.status = 503
    waits = []
    for _ in range(6):
        is_due(admin_database)
        assert start_due() == 1
        assert run_sync_jobs() == ["failed"]
        waits.append(wait(shop))
    assert waits == [timedelta(minutes=minutes) for minutes in (5, 10, 20, 40, 60, 60)]
    assert source(shop).failures == 6
    with tenant_context(shop.pk):
        assert {job.error for job in Job.objects.all()} == {source(shop).last_error}
    api.status = 200
    is_due(admin_database)
    start_due()
    assert run_sync_jobs() == ["succeeded"]
    assert (source(shop).failures, source(shop).last_error, wait(shop)) == (0, "", timedelta(hours=1))


def test_syn_4_one_tenants_failing_source_does_not_keep_anothers_waiting(
    shop: Tenant, api: Api, admin_database: Owner, make_tenant: Any
) -> None:
    change(shop, schedule="hourly", url="http://127.0.0.1:1/gone.json")
    other = make_tenant()
    import_document(other, api.body)
    change(other, url=api.url, schedule="hourly")
    is_due(admin_database)
    assert start_due() == 2
    assert sorted(run_sync_jobs()) == ["failed", "succeeded"]
    assert (source(shop).failures, source(other).failures) == (1, 0)


def test_a_source_without_an_address_has_no_schedule(committed: Tenant) -> None:
    import_document(committed, document("a"))
    with pytest.raises(Invalid, match="no address to be read from"):
        change(committed, schedule="daily")
