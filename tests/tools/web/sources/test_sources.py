"""The pages of sources: the list, and one of them with its settings, documents and what it no longer offers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models.functions import Now
from django.test import Client

from portal.jobs.models import Job
from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.pages.web import SHOP_DOCUMENT, seen
from tools.catalogue import sources
from tools.catalogue.overrides import keep_many
from tools.catalogue.tools import update_tool
from tools.models import ManualOverride, Source, Sync, Tool, ToolEmbedding

RAW = (SHOP_DOCUMENT % "Lists orders.").encode()
HTMX = {"HX-Request": "true"}
SETTINGS = {
    "title": "The shop",
    "url": "https://api.example.org/v2.json",
    "schedule": "daily",
    "auto_apply": "on",
}


def upload(raw: bytes = RAW, name: str = "shop.yaml") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, raw)


@pytest.fixture
def web_source(tenant: Tenant) -> Source:
    """A source that has a URL, and so can be read anew."""
    import_document(tenant, document("orders", "prices"))
    Source.objects.update(url="https://api.example.org/shop.json")
    source: Source = Source.objects.get()
    return source


def test_the_list_tells_three_kinds_of_empty_apart_UI_3_0(
    operator_client: Client, viewer_client: Client, tenant: Tenant
) -> None:
    nothing_yet = operator_client.get("/sources/").content.decode()
    assert "No sources yet" in nothing_yet
    assert "Add a source" in nothing_yet
    not_allowed = viewer_client.get("/sources/").content.decode()
    assert "requires the role operator; you are viewer" in not_allowed
    assert "Add a source" not in not_allowed
    import_document(tenant, document("orders"))
    no_match = operator_client.get("/sources/?q=zebra&kind=mcp").content.decode()
    assert "No source matches" in no_match
    assert "Filtered by “zebra”, MCP." in no_match


def test_the_list_shows_the_last_sync_the_next_one_and_what_fails_UI_3_4(
    operator_client: Client, web_source: Source
) -> None:
    Source.objects.update(
        failures=3, last_error="The server answered 503.", next_sync_at=Now(), schedule="daily"
    )
    import_document(Tenant(pk=web_source.tenant_id), document("orders", "refunds"), confirm_removals=True)
    Source.objects.update(
        failures=3, last_error="The server answered 503.", next_sync_at=Now(), schedule="daily"
    )
    html = operator_client.get("/sources/").content.decode()
    assert "Failed 3 times in a row: The server answered 503." in html
    assert "Next try" in html
    assert "1 inactive" in html
    assert "Every day" in html
    counts = html[html.index('class="changed"') :][:400]
    assert counts.index("1<span") < counts.index("added") < counts.index("0<span") < counts.index("removed")
    assert "shop" in operator_client.get("/sources/?state=failing").content.decode()
    assert "No source matches" in operator_client.get("/sources/?state=planned").content.decode()


def test_the_list_counts_conflicts_as_they_are_now_and_forgets_those_that_were_decided_SYN_5(
    operator_client: Client, tenant: Tenant
) -> None:
    import_document(tenant, document("orders", "prices"))
    edit = {"changes": {"description": "Ours."}, "expected_version": 1, "actor": "olga"}
    update_tool(pk=Tool.objects.get(name="orders").pk, **edit)
    assert "in conflict" not in operator_client.get("/sources/").content.decode()
    import_document(tenant, document("orders", "prices", orders="Theirs."))
    source, sync = Source.objects.get(), Sync.objects.latest("created_at")
    counted = '<a class="missing small text-nowrap" href="/overrides/?source=shop&amp;conflicts=1">1 in conflict</a>'
    assert counted in operator_client.get("/sources/").content.decode()
    pages = ("/sources/", f"/sources/{source.pk}/", f"/sources/{source.pk}/syncs/{sync.pk}/")
    keep_many(overrides=list(ManualOverride.objects.values_list("pk", flat=True)), actor="olga")
    for path in pages:
        assert "1 in conflict" not in operator_client.get(path).content.decode(), path
    assert "shows those that are still in conflict" in operator_client.get(pages[-1]).content.decode()


def test_the_list_asks_the_same_questions_however_many_sources_there_are(
    operator_client: Client, tenant: Tenant, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for slug in ("one", "two", "three", "four"):
        import_document(tenant, document("orders"), slug)
    with django_assert_max_num_queries(12):
        assert operator_client.get("/sources/").status_code == 200


def test_SYN_4_the_button_starts_a_job_that_reads_the_source_anew(
    operator_client: Client, viewer_client: Client, web_source: Source
) -> None:
    path = f"/sources/{web_source.pk}/sync/"
    assert viewer_client.post(path).status_code == 403
    answer = operator_client.post(path)
    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.pk}/"
    assert (job.kind, job.args["source"], job.args["apply"]) == ("sync_source", "shop", False)
    again = operator_client.post(path)
    assert again["Location"] == f"/jobs/{job.pk}/"
    assert Job.objects.count() == 1


def test_a_source_without_an_address_says_so(operator_client: Client, imported_tool: Tool) -> None:
    page = operator_client.post(f"/sources/{imported_tool.source_id}/sync/", follow=True).content.decode()
    assert "no address to sync from" in page
    assert not Job.objects.exists()


def test_SYN_5_settings_are_saved_and_sync_wins_is_announced(
    operator_client: Client, viewer_client: Client, imported_tool: Tool
) -> None:
    update_tool(pk=imported_tool.pk, expected_version=1, changes={"description": "Mine."}, actor="x")
    path = f"/sources/{imported_tool.source_id}/settings/"
    assert viewer_client.post(path, SETTINGS).status_code == 403
    page = operator_client.get(f"/sources/{imported_tool.source_id}/").content.decode()
    assert "The next sync would remove the overrides of 1 tool." in page
    here = f"/sources/{imported_tool.source_id}/"
    operator_client.post(path, {**SETTINGS, **seen(operator_client, here), "sync_wins": "on"})
    source = Source.objects.get()
    assert (source.title, source.url, source.schedule) == ("The shop", SETTINGS["url"], "daily")
    assert source.auto_apply
    assert source.sync_wins
    assert source.next_sync_at is not None
    operator_client.post(path, {**SETTINGS, **seen(operator_client, here), "auto_apply": ""})
    source.refresh_from_db()
    assert not source.sync_wins


def test_a_schedule_without_an_address_is_refused_beside_its_field(
    operator_client: Client, imported_tool: Tool
) -> None:
    here = f"/sources/{imported_tool.source_id}/"
    fields = {"title": "Shop", "schedule": "hourly", **seen(operator_client, here)}
    answer = operator_client.post(f"{here}settings/", fields)
    assert answer.status_code == 422
    assert "no address to be read from" in answer.content.decode()
    assert Source.objects.get().schedule == ""


def test_R16_a_stale_form_of_settings_unschedules_nothing_and_says_who_changed_what(
    operator_client: Client, web_source: Source
) -> None:
    here = f"/sources/{web_source.pk}/"
    opened = seen(operator_client, here)
    sources.update_source(pk=web_source.pk, actor="olga", schedule="hourly", title="Their shop")
    fields = {"title": "Mine", "url": web_source.url, "schedule": ""}
    answer = operator_client.post(f"{here}settings/", {**fields, **opened})
    html = answer.content.decode()
    assert answer.status_code == 409
    web_source.refresh_from_db()
    assert (web_source.title, web_source.schedule) == ("Their shop", "hourly")
    assert (
        "olga changed these settings while you were editing them. Your changes have not been saved yet."
        in html
    )
    assert html.count("both of you changed it") == 1
    assert "<del>Their shop</del><ins>Mine</ins>" in html
    assert "Taken from their version, because you had not changed it: sync schedule." in html
    form = answer.context["form"]
    assert (form["title"].value(), form["schedule"].value()) == ("Mine", "hourly")
    # Saved again with what is seen now, it is said over theirs.
    again = {"title": "Mine", "url": web_source.url, "schedule": "hourly", "seen": form["seen"].value()}
    assert operator_client.post(f"{here}settings/", again).status_code == 302
    web_source.refresh_from_db()
    assert (web_source.title, web_source.schedule) == ("Mine", "hourly")


def test_R16_a_form_that_says_not_what_it_has_seen_is_a_stale_one(
    operator_client: Client, web_source: Source
) -> None:
    answer = operator_client.post(f"/sources/{web_source.pk}/settings/", {"title": "Mine"})
    assert answer.status_code == 409
    assert not Source.objects.exclude(title="").exists()


def test_R16_what_a_sync_notes_of_a_source_makes_no_form_stale(
    operator_client: Client, web_source: Source
) -> None:
    here = f"/sources/{web_source.pk}/"
    fields = {"title": "Mine", "url": web_source.url, **seen(operator_client, here)}
    Source.objects.update(synced_at=Now(), document_title="As the document says", updated_at=Now())
    assert operator_client.post(f"{here}settings/", fields).status_code == 302


def test_SYN_4_the_settings_of_a_source_on_a_host_without_a_dot_can_be_saved(
    operator_client: Client, web_source: Source
) -> None:
    Source.objects.update(url="http://billing:8000/openapi.json")
    here = f"/sources/{web_source.pk}/"
    fields = {"title": "Billing", "url": "http://billing:8000/v2.json", "schedule": "daily"}
    operator_client.post(f"{here}settings/", {**fields, **seen(operator_client, here)})
    web_source.refresh_from_db()
    assert (web_source.title, web_source.url, web_source.schedule) == tuple(fields.values())


def test_SEC_2_a_source_s_url_holds_no_password(operator_client: Client, web_source: Source) -> None:
    here = f"/sources/{web_source.pk}/"
    for url in ("https://ada:pw@api.example.org/shop.json", "ftp://api.example.org/shop.json"):
        answer = operator_client.post(f"{here}settings/", {"url": url, **seen(operator_client, here)})
        assert answer.status_code == 422
        assert "holds no user or password" in answer.context["form"].errors["url"][0]
        asked = operator_client.post("/sources/import/", {"url": url, "plan": "1"})
        assert "holds no user or password" in asked.context["form"].errors["url"][0]
        for page in (answer, asked):
            assert "pw@" not in page.content.decode()
            assert "api.example.org/shop.json" in page.content.decode()
    web_source.refresh_from_db()
    assert web_source.url == "https://api.example.org/shop.json"


def test_viewers_see_the_settings_and_no_form(viewer_client: Client, web_source: Source) -> None:
    page = viewer_client.get(f"/sources/{web_source.pk}/").content.decode()
    assert "https://api.example.org/shop.json" in page
    assert "Changing them requires the role operator" in page
    assert "Save settings" not in page
    assert "/sync/" not in page


def test_SYN_3_a_document_is_downloaded_to_the_byte_and_never_shown(operator_client: Client) -> None:
    raw = RAW + b"# <script>alert(1)</script>\n"
    operator_client.post(
        "/sources/import/", {"document": upload(raw, "a “b”.html"), "source": "shop", "plan": "1"}
    )
    source = Source.objects.get()
    path = f"/sources/{source.pk}/documents/{source.documents.get().pk}/"
    answer = operator_client.get(path)
    assert answer.content == raw
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == 'attachment; filename="a-b-.html"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert operator_client.get(f"/sources/{source.pk}/documents/{source.pk}/").status_code == 404


def test_what_is_no_longer_offered_is_listed_with_since_when_UI_3_4(
    operator_client: Client, web_source: Source, tenant: Tenant
) -> None:
    import_document(tenant, document("orders"), confirm_removals=True)
    page = operator_client.get(f"/sources/{web_source.pk}/").content.decode()
    assert "No longer offered" in page
    gone = page[page.index("No longer offered") :]
    assert "prices" in gone
    assert "no longer offered since <time" in gone


def test_the_history_of_syncs_is_paged(operator_client: Client, web_source: Source) -> None:
    for number in range(30):
        Sync.objects.create(source=web_source, state="failed", error=f"Refused {number}.", created_by="beat")
    first = operator_client.get(f"/sources/{web_source.pk}/").content.decode()
    assert "31 in all" in first
    assert "Refused 29." in first
    assert "Refused 2." not in first
    second = operator_client.get(f"/sources/{web_source.pk}/?page=2").content.decode()
    assert "Refused 2." in second


def test_the_source_page_counts_edits_and_leads_to_them(operator_client: Client, imported_tool: Tool) -> None:
    update_tool(pk=imported_tool.pk, expected_version=1, changes={"description": "Mine."}, actor="x")
    page = operator_client.get(f"/sources/{imported_tool.source_id}/").content.decode()
    assert "1 overridden" in page
    assert "/overrides/?source=shop" in page


def test_a_source_is_deleted_with_its_tools_after_a_question_that_counts_them(
    admin_client: Client, operator_client: Client, imported_tool: Tool
) -> None:
    path = f"/sources/{imported_tool.source_id}/delete/"
    assert operator_client.post(path).status_code == 403
    assert "Its 1 tool<" in admin_client.get(path).content.decode()
    undecided = admin_client.post(path)
    assert undecided.status_code == 422
    assert "Choose what becomes of its tools." in undecided.content.decode()
    assert Source.objects.exists()
    assert admin_client.post(path, {"tools": "delete"}).status_code == 302
    assert not Tool.objects.exists()
    assert admin_client.get(path).status_code == 404


def test_the_tools_of_a_source_that_is_deleted_can_be_kept_inactive_with_their_texts(
    admin_client: Client, imported_tool: Tool
) -> None:
    update_tool(pk=imported_tool.pk, expected_version=1, changes={"description": "Ours."}, actor="olga")
    path = f"/sources/{imported_tool.source_id}/delete/"
    assert "but no overrides (of 1 tool)" in admin_client.get(path).content.decode()
    answer = admin_client.post(path, {"tools": "deactivate"}, follow=True)
    assert "The source shop was deleted, and its 1 tool deactivated." in answer.content.decode()
    assert not Source.objects.exists()
    kept = Tool.objects.get()
    assert (kept.pk, kept.active, kept.description, kept.source_id, kept.endpoint_id) == (
        imported_tool.pk, False, "Ours.", None, None,
    )  # fmt: skip
    html = admin_client.get(f"/tools/{kept.pk}/").content.decode()
    assert "written by hand" in html
    assert "Ours" in admin_client.get(f"/tools/{kept.pk}/history/").content.decode()
    # It is a tool like any other by hand: it can be edited, brought back and deleted.
    update_tool(pk=kept.pk, expected_version=kept.version, changes={"active": True}, actor="olga")
    assert ToolEmbedding.objects.get().active
    assert admin_client.post(f"/tools/{kept.pk}/delete/").status_code == 302
    assert not Tool.objects.exists()


def test_CAT_8_the_history_of_settings_shows_who_changed_what_and_fills_the_form_again(
    operator_client: Client, web_source: Source
) -> None:
    path = f"/sources/{web_source.pk}/"
    sources.update_source(pk=web_source.pk, actor="olga", title="Another shop", schedule="daily")
    page = operator_client.get(path).content.decode()
    assert "<ins>Another shop</ins>" in page
    assert "olga" in page
    assert "<ins>daily</ins>" in page
    (event, *_) = re.findall(r"\?restore=(\d+)", page)
    restored = operator_client.get(f"{path}?restore={event}").context["form"]
    assert (restored["title"].value(), restored["schedule"].value()) == ("", "")
    web_source.refresh_from_db()
    assert web_source.title == "Another shop"  # until it is saved
    for nonsense in ("0", "x", "9" * 40):
        assert (
            operator_client.get(f"{path}?restore={nonsense}").context["form"]["title"].value()
            == "Another shop"
        )
