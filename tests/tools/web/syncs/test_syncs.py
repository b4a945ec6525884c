"""A sync's page: the plan, Discard and Plan again, and the finished sync."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from django.test import Client

from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.pages.sync_pages import agreed, path_of, started
from tools.catalogue.tools import update_tool
from tools.imports.syncing import service as syncs
from tools.imports.syncing.documents import tool_file
from tools.models import Source, Sync, SyncState, Tool

HTMX = {"HX-Request": "true"}
MANY = [f"op{number:03}" for number in range(60)]


def test_SYN_1_the_summary_adds_up_and_what_was_left_out_has_its_reason(
    operator_client: Client, plan: Callable[..., Sync]
) -> None:
    content = document("orders", "prices")
    content["paths"]["/upload"] = {"post": "not an operation"}
    sync = plan(content)
    page = operator_client.get(path_of(sync)).content.decode()
    summary = page[page.index('class="sum-line"') :]
    assert (
        "<strong>3</strong> operations in the document = <strong>2</strong> tools + <strong>1</strong> left out"
        in summary
    )
    rows = operator_client.get(f"{path_of(sync)}?show=left_out").content.decode()
    assert "/upload" in rows
    assert sync.summary["left_out"][0]["reason"] in rows


def test_SYN_4_a_plan_shows_each_field_s_difference_by_words(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    import_document(tenant, document("orders", "prices", orders="Lists the open orders."))
    page = operator_client.get(
        path_of(plan(document("orders", "prices", orders="Lists the paid orders.")))
    ).content.decode()
    assert "<del>open</del><ins>paid</ins>" in page
    assert "prices" not in page[page.index('class="changes"') :]


def test_SYN_5_kept_overrides_and_new_conflicts_are_said_and_conflicts_stand_first(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    import_document(tenant, document("orders", "prices", "users"))
    for name in ("prices", "users"):
        tool = Tool.objects.get(name=name)
        update_tool(pk=tool.pk, expected_version=1, changes={"description": "Mine."}, actor="ann")
    content = document("orders", "prices", "users", "alpha", prices="Lists all prices.")
    content["paths"]["/users"]["get"]["tags"] = ["people"]
    sync = plan(content)
    page = operator_client.get(path_of(sync)).content.decode()
    rows = page[page.index('class="changes"') :]
    assert "Override in conflict" in rows
    assert "Override kept: description" in rows
    assert rows.index(">prices<") < rows.index(">alpha<")
    tab = operator_client.get(f"{path_of(sync)}?show=conflicts", headers=HTMX).content.decode()
    assert "<html" not in tab
    assert ">prices<" in tab
    assert ">alpha<" not in tab


def test_SYN_5_a_source_whose_syncs_win_says_which_edits_are_overwritten(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    import_document(tenant, document("orders", "prices"))
    tool = Tool.objects.get(name="prices")
    update_tool(pk=tool.pk, expected_version=1, changes={"description": "Mine."}, actor="ann")
    Source.objects.update(sync_wins=True)
    sync = plan(document("orders", "prices", prices="Lists all prices."))
    page = operator_client.get(path_of(sync)).content.decode()
    assert "overrides of 1 tool are removed" in page
    assert "Override is removed" in page
    assert "Overrides of 1 tool are removed" in operator_client.post(path_of(sync, "apply/")).content.decode()


def test_SYN_4_what_changed_in_a_schema_is_told_in_lines(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    import_document(tenant, document("orders"))
    content = document("orders")
    content["paths"]["/orders"]["get"]["parameters"] = [
        {"name": "page", "in": "query", "schema": {"type": "integer"}}
    ]
    page = operator_client.get(path_of(plan(content))).content.decode()
    assert "Input schema" in page
    assert "<li>added properties/page</li>" in page


def test_SYN_4_an_empty_plan_says_that_there_is_nothing_to_do(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    import_document(tenant, document("orders"))
    sync = plan(document("orders"))
    page = operator_client.get(path_of(sync)).content.decode()
    assert "Nothing was changed" in page
    assert "Apply" not in page[page.index("<main") :].replace("Applied", "")


def test_SYN_4_a_plan_that_would_take_much_away_says_so_before_anybody_applies_it(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    import_document(tenant, document(*"abcde"))
    page = operator_client.get(path_of(plan(document(*"abc")))).content.decode()
    assert "2 of 5 tools would be removed." in page
    assert "would be removed." not in operator_client.get(path_of(plan(document(*"abcd")))).content.decode()


def test_API_3_a_viewer_sees_that_a_plan_waits_and_neither_its_tools_nor_its_document(
    viewer_client: Client, plan: Callable[..., Sync]
) -> None:
    sync = plan(document("orders"))
    for page in ("/sources/", f"/sources/{sync.source_id}/"):
        html = viewer_client.get(page).content.decode()
        assert "Planned" in html
        assert path_of(sync) not in html
        assert "/documents/" not in html
    assert viewer_client.get(path_of(sync)).status_code == 403
    document_path = f"/sources/{sync.source_id}/documents/{sync.document_id}/"
    assert viewer_client.get(document_path).status_code == 403
    for step in ("choose/", "apply/", "discard/", "again/"):
        assert viewer_client.post(path_of(sync, step)).status_code == 403


def test_a_sync_of_another_source_or_none_is_not_found(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    sync = plan(document("orders"))
    import_document(tenant, document("a"), "other")
    other = Source.objects.get(slug="other")
    assert operator_client.get(f"/sources/{other.pk}/syncs/{sync.pk}/").status_code == 404
    assert operator_client.get(f"/sources/{sync.source_id}/syncs/{uuid4()}/").status_code == 404


def test_the_same_page_shows_what_was_applied_and_what_was_not_chosen(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    sync = plan(document("orders", "prices"))
    chosen = set(sync.changes.filter(name="orders").values_list("pk", flat=True))
    syncs.apply_sync(tenant_id=tenant.pk, sync_id=sync.pk, actor="ann", chosen=chosen)
    page = operator_client.get(path_of(sync)).content.decode()
    assert "Applied <time" in page
    assert page.count("Not selected") == 1
    assert "checkbox" not in page
    assert (
        operator_client.post(path_of(sync, "apply/"), follow=True)
        .content.decode()
        .count("This sync has already ended")
        == 1
    )


def test_SYN_3_an_older_document_is_planned_again_to_go_back_to_it(
    operator_client: Client, tenant: Tenant
) -> None:
    import_document(tenant, document("orders", "prices"))
    older = Sync.objects.get()
    import_document(tenant, document("orders", "prices", "oops"))
    assert "Plan this document again" in operator_client.get(path_of(older)).content.decode()
    operator_client.post(path_of(older, "again/"))
    back = Sync.objects.get(state=SyncState.PLANNED)
    assert [(one.action, one.name) for one in back.changes.all()] == [("remove", "oops")]


def test_SYN_3_a_file_of_tools_is_not_planned_again_and_no_button_offers_it(
    operator_client: Client, tenant: Tenant
) -> None:
    syncs.import_document(
        tool_file(raw=b'{"id": "add", "name": "add", "description": "Adds."}', name="mine.jsonl"),
        tenant_id=tenant.pk,
        actor="ann",
    )
    sync = Sync.objects.get()
    assert sync.document is not None
    assert path_of(sync, "again/") not in operator_client.get(path_of(sync)).content.decode()
    page = operator_client.post(path_of(sync, "again/"), follow=True).content.decode()
    assert "A file of tools cannot be planned." in page
    assert Sync.objects.count() == 1


def test_a_failed_sync_shows_its_error_and_offers_to_try_again(
    operator_client: Client, tenant: Tenant
) -> None:
    import_document(tenant, document("orders"))
    Source.objects.update(url="https://api.example.org/shop.json")
    sync = Sync.objects.create(
        source=Source.objects.get(), state="failed", error="The server answered 503.", created_by="beat"
    )
    page = operator_client.get(path_of(sync)).content.decode()
    assert "The server answered 503." in page
    assert "Try again" in page


def test_SYN_4_a_discarded_plan_stays_in_the_history_and_changes_nothing(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    import_document(tenant, document("orders"))
    sync = plan(document("orders", "prices"))
    assert "the plan stays in its history" in operator_client.get(path_of(sync, "discard/")).content.decode()
    assert operator_client.post(path_of(sync, "discard/"))["Location"] == f"/sources/{sync.source_id}/"
    assert Tool.objects.count() == 1
    assert "Discarded" in operator_client.get(path_of(sync)).content.decode()


def test_SYN_4_a_new_source_goes_with_its_only_plan(
    operator_client: Client, plan: Callable[..., Sync]
) -> None:
    sync = plan(document("orders"))
    assert "is deleted too" in operator_client.get(path_of(sync, "discard/")).content.decode()
    assert operator_client.post(path_of(sync, "discard/"))["Location"] == "/sources/"
    assert not Source.objects.exists()


def test_a_job_of_a_sync_leads_back_to_it(operator_client: Client, plan: Callable[..., Sync]) -> None:
    sync = plan(document("orders"))
    job = started(agreed(operator_client, sync))
    page = operator_client.get(f"/jobs/{job.pk}/").content.decode()
    assert path_of(sync) in page


def test_a_plan_of_many_changes_asks_as_few_questions_as_one_of_few(
    operator_client: Client, plan: Callable[..., Sync], django_assert_max_num_queries: Callable[..., Any]
) -> None:
    sync = plan(document(*(f"op{number}" for number in range(500))))
    with django_assert_max_num_queries(16):
        assert operator_client.get(f"{path_of(sync)}?rows=100").status_code == 200
