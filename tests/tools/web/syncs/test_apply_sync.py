"""SYN-4: ticks of a plan, and Apply with its question."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client

from portal.jobs.models import Job, JobState
from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.pages.sync_pages import agreed, ids, path_of, started
from tools.models import Sync, SyncState

HTMX = {"HX-Request": "true"}
MANY = [f"op{number:03}" for number in range(60)]


def test_SYN_4_ticks_outlive_paging_and_the_button_counts_all_of_them(
    operator_client: Client, plan: Callable[..., Sync]
) -> None:
    sync = plan(document(*MANY))
    first = operator_client.get(path_of(sync))
    assert "Apply 60 changes" in first.content.decode()
    shown = [str(row.change.pk) for row in first.context["rows"]]
    assert len(shown) == 25
    answer = operator_client.post(
        path_of(sync, "choose/"), {"shown": shown, "ticked": shown[3:]}, headers=HTMX
    ).content.decode()
    assert "Apply 57 changes" in answer
    assert "57 of 60 ticked." in answer
    second = operator_client.get(f"{path_of(sync)}?page=2").content.decode()
    assert "Apply 57 changes" in second
    assert second.count("checked") == 25
    assert operator_client.get(path_of(sync)).content.decode().count("checked") == 22
    job = started(agreed(operator_client, sync))
    assert len(job.args["changes"]) == 57
    assert not set(job.args["changes"]) & set(shown[:3])


def test_SYN_4_a_whole_kind_is_unticked_at_once_on_every_page(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    import_document(tenant, document("gone", *MANY))
    sync = plan(document(*MANY, "new"))
    answer = operator_client.post(path_of(sync, "choose/"), {"every": "unticked", "show": "remove"})
    assert answer["Location"] == f"{path_of(sync)}?show=remove"
    assert "Apply 1 change<" in operator_client.get(path_of(sync)).content.decode()
    job = started(agreed(operator_client, sync))
    assert job.args["changes"] == ids(sync, "new")


def test_SYN_4_all_ticked_is_said_as_all(operator_client: Client, plan: Callable[..., Sync]) -> None:
    sync = plan(document(*MANY))
    operator_client.post(path_of(sync, "choose/"), {"every": "unticked"})
    operator_client.post(path_of(sync, "choose/"), {"every": "ticked"})
    assert started(agreed(operator_client, sync)).args["changes"] is None


def test_SYN_4_without_javascript_the_question_counts_what_was_unticked_just_now(
    operator_client: Client, plan: Callable[..., Sync]
) -> None:
    sync = plan(document("orders", "prices"))
    shown, ticked = ids(sync, "orders", "prices"), ids(sync, "orders")
    page = operator_client.post(path_of(sync, "apply/"), {"shown": shown, "ticked": ticked}).content.decode()
    assert "<html" in page
    assert "Apply 1 of 2 changes to shop?" in page
    assert not Job.objects.exists()


def test_SYN_4_a_choice_that_has_changed_since_the_question_is_asked_about_again(
    operator_client: Client, plan: Callable[..., Sync]
) -> None:
    sync = plan(document("orders", "prices"))
    asked = operator_client.post(path_of(sync, "apply/"))
    operator_client.post(path_of(sync, "choose/"), {"shown": ids(sync, "orders"), "ticked": []})
    answer = operator_client.post(
        path_of(sync, "apply/"), {"choice": dict(asked.context["hidden"])["choice"]}
    )
    assert answer.status_code == 422
    assert "The ticks have changed since you were asked" in answer.content.decode()
    assert not Job.objects.exists()


def test_nothing_ticked_is_nothing_to_apply(operator_client: Client, plan: Callable[..., Sync]) -> None:
    sync = plan(document("orders"))
    operator_client.post(path_of(sync, "choose/"), {"every": "unticked"})
    assert "disabled>" in operator_client.get(path_of(sync)).content.decode()
    answer = agreed(operator_client, sync)
    assert answer.status_code == 422
    assert "Nothing is ticked" in answer.content.decode()
    assert not Job.objects.exists()


def test_SYN_4_removals_of_more_than_a_fifth_need_a_tick_that_counts_them(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    import_document(tenant, document("a", "b", "c", "d"))
    sync = plan(document("a", "b", "c"))
    question = operator_client.post(path_of(sync, "apply/"), headers=HTMX).content.decode()
    assert "1 of 4 tools would be removed." in question
    answer = agreed(operator_client, sync)
    assert answer.status_code == 422
    assert not Job.objects.exists()
    assert started(agreed(operator_client, sync, confirm_removals="yes")).args["confirm_removals"] is True


def test_SYN_4_fewer_removals_need_none(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    import_document(tenant, document("a", "b", "c", "d", "e"))
    sync = plan(document("a", "b", "c", "d"))
    assert started(agreed(operator_client, sync)).args["confirm_removals"] is False


def test_a_plan_that_is_being_applied_cannot_be_changed_and_leads_to_its_job(
    operator_client: Client, plan: Callable[..., Sync]
) -> None:
    sync = plan(document("orders"))
    job = started(agreed(operator_client, sync))
    Sync.objects.update(job_id=job.pk)
    page = operator_client.get(path_of(sync)).content.decode()
    assert "This plan is being applied." in page
    assert "checkbox" not in page
    assert started(agreed(operator_client, sync)).pk == job.pk


def test_SYN_4_an_outgrown_plan_says_why_it_was_not_applied_and_offers_a_new_one(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    sync = plan(document("orders"))
    job = started(agreed(operator_client, sync))
    import_document(tenant, document("orders", orders="Other words."))
    refused = "The catalogue has changed since this plan was made."
    Job.objects.filter(pk=job.pk).update(state=JobState.FAILED, error=refused)
    Sync.objects.filter(pk=sync.pk).update(job_id=job.pk)
    page = operator_client.get(path_of(sync)).content.decode()
    assert "The last attempt to apply it failed." in page
    assert refused in page
    assert "This plan may be out of date." in page
    answer = operator_client.post(path_of(sync, "again/"))
    newer = Sync.objects.exclude(pk=sync.pk).filter(state=SyncState.PLANNED).get()
    assert answer["Location"] == path_of(newer)
    assert "Discarded" in operator_client.get(path_of(sync)).content.decode()


def test_SYN_4_the_session_keeps_what_was_unticked_of_plans_that_wait_and_nothing_else(
    operator_client: Client, tenant: Tenant, plan: Callable[..., Sync]
) -> None:
    key = f"sync_choices {tenant.pk}"
    sync = plan(document("orders", "prices"))
    both = {"shown": ids(sync, "orders", "prices")}
    operator_client.post(path_of(sync, "choose/"), {**both, "ticked": both["shown"]})
    assert key not in operator_client.session
    operator_client.post(path_of(sync, "choose/"), {**both, "ticked": ids(sync, "orders")})
    assert operator_client.session[key] == {str(sync.pk): {"add": {"on": True, "but": ids(sync, "prices")}}}
    # A later plan of the source ends this one.
    later = plan(document("orders", "prices", "refunds"))
    operator_client.post(path_of(later, "choose/"), {"shown": ids(later, "refunds")})
    assert set(operator_client.session[key]) == {str(later.pk)}
    operator_client.post(path_of(later, "choose/"), {"every": "ticked"})
    assert operator_client.session[key] == {}
