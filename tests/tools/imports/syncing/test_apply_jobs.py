"""SYN-4: a plan is applied as a job: it ends with a sentence where it is refused, and applies nothing where it is cancelled."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from portal.jobs import services
from portal.jobs.models import Job
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import document, import_document
from tests.support.imports.syncs import (
    again,
    find_job,
    nothing_written,
    plan,
    run_sync_jobs,
    texts,
    tool,
)
from tests.support.threads import in_thread
from tests.support.waiting import wait_until_blocks
from tools.imports.syncing import service as syncs
from tools.imports.syncing.jobs import APPLY
from tools.models import Sync, SyncState

Owner = psycopg.Connection[Any]


pytestmark = pytest.mark.usefixtures("parse_in_process")


def start(tenant: Tenant, sync: Sync, **args: Any) -> Job:
    with tenant_context(tenant.pk):
        return services.start(APPLY, {"sync": str(sync.pk), **args}, by="anton")


def test_syn_4_a_plan_is_applied_as_a_job_by_who_asked_for_it(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    sync = plan(committed, document("a", "b", "c", a="New."))
    job = start(committed, sync)
    assert run_sync_jobs() == ["succeeded"]
    assert (find_job(committed, job).done, find_job(committed, job).total) == (2, 2)
    assert texts(committed)["a"] == "New."
    over = again(committed, sync)
    assert (over.state, over.ended_by, over.job_id) == (SyncState.APPLIED, "anton", job.pk)


def test_syn_4_a_job_that_is_refused_ends_with_the_sentence_and_the_plan_waits(committed: Tenant) -> None:
    import_document(committed, document("a", "b"))
    sync = plan(committed, document("a"))
    job = start(committed, sync)
    with nothing_written(committed):
        assert run_sync_jobs() == ["failed"]
    assert find_job(committed, job).error.startswith(
        "1 of 2 tools would vanish (50%), so nothing was applied."
    )
    assert again(committed, sync).state == SyncState.PLANNED
    start(committed, sync, confirm_removals=True)
    assert run_sync_jobs() == ["succeeded"]
    assert texts(committed).keys() == {"a"}


def cancelling_rolls_back(tenant: Tenant, owner: Owner) -> None:
    """It is cancelled while it has written some tools, and waits for one that another write holds."""
    import_document(tenant, document("a", "b"))
    sync = plan(tenant, document("a", "b", "c", "d", a="New.", b="New."))
    job = start(tenant, sync)
    held = threading.Event()
    with nothing_written(tenant):
        with in_thread(lambda: held.wait(20) and run_sync_jobs()), owner.transaction():
            owner.execute("SELECT FROM tools_tool WHERE id = %s FOR UPDATE", [tool(tenant, "b").pk])
            held.set()
            wait_until_blocks(owner.info.backend_pid, owner, "the sync waits for the tool")
            with tenant_context(tenant.pk):
                services.cancel(job.pk)
        assert find_job(tenant, job).effective_state == "cancelled"
    assert again(tenant, sync).state == SyncState.PLANNED
    with tenant_context(tenant.pk):
        services.resume(job.pk)
    assert run_sync_jobs() == ["succeeded"]
    assert texts(tenant) == {
        "a": "New.", "b": "New.", "c": "Does c as the shop wants it.", "d": "Does d as the shop wants it.",
    }  # fmt: skip


def test_syn_4_a_cancelled_job_has_applied_nothing_and_can_go_on(
    committed: Tenant, admin_database: Owner
) -> None:
    cancelling_rolls_back(committed, admin_database)


def test_the_test_of_the_cancel_notices_a_job_that_does_not_ask(
    committed: Tenant, admin_database: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_sync = syncs.apply_sync
    monkeypatch.setattr(
        syncs, "apply_sync", lambda progress, **options: apply_sync(**options)  # nobody is told of progress
    )  # fmt: skip
    with pytest.raises(AssertionError):
        cancelling_rolls_back(committed, admin_database)
