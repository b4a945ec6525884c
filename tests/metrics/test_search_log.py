"""The log of searches (SRC-9): what it holds, and that a search neither waits for it nor fails with it.

How to see it fail: with `write` called in `SearchLog.add`, the search of the locked table waits for the lock; without the queue's
maxlen the bound is passed; without the hook at exit the last searches of a process are missing.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from metrics import search_log as module
from metrics.models import LoggedSearch
from metrics.search_log import SearchLog, new_search_id, search_log, write
from metrics.tasks import prune_searches
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.database import login
from tests.support.processes import ROOT, process_environment
from tests.support.search import ask, place, toward
from tests.support.searches import entry
from tests.support.waiting import wait_until
from tools.catalogue.tools import create_tool
from tools.models import Tool
from tools.search import log as log_of_search

QUESTION = "send a mail to a customer"
MakeTool = Callable[..., Tool]


def test_a_search_is_logged_with_what_was_asked_and_answered_SRC_9(
    tenant: Tenant, make_tool: MakeTool
) -> None:
    for number, cosine in enumerate((0.7, 0.4)):
        tool = make_tool(tool_id=f"mail-{number}", category="office")
        place(tool, toward(QUESTION, cosine, number))
    answer = ask(tenant.pk, QUESTION, 5, category=("office",))
    assert search_log.flush() == 1
    row = LoggedSearch.objects.get(pk=answer.search_id)
    assert (row.query, row.mode, row.degraded, row.reranked) == (QUESTION, answer.mode, [], False)
    assert row.results == [hit.tool["id"] for hit in answer.hits]
    assert (row.top_score, row.took_ms, row.top_k) == (answer.hits[0].score, answer.took_ms, 5)
    assert row.best_similarity == pytest.approx(0.7, abs=1e-3)
    assert (row.filters, row.timings, row.asked_by) == ({"category": ["office"]}, answer.timings, "test")
    assert (row.selected_tool, row.selected_rank, row.selected_at) == (None, None, None)


def test_a_search_by_keyword_alone_has_no_similarity_SRC_9(
    tenant: Tenant, make_tool: MakeTool, settings: Any
) -> None:
    settings.SEARCH_SEMANTIC = False
    make_tool(tool_id="mail", description="Sends a mail.")
    ask(tenant.pk, "mail")
    search_log.flush()
    row = LoggedSearch.objects.get()
    assert (row.mode, row.degraded, row.best_similarity) == ("keyword", ["semantic_search_off"], None)


def test_the_log_may_be_off_or_without_words_SRC_9(tenant: Tenant, settings: Any) -> None:
    settings.SEARCH_LOG = "off"
    ask(tenant.pk, QUESTION)
    assert (search_log.flush(), LoggedSearch.objects.count()) == (0, 0)
    settings.SEARCH_LOG = "redacted"
    for _ in range(2):
        ask(tenant.pk, QUESTION)
    search_log.flush()
    first, second = LoggedSearch.objects.values_list("query", flat=True)
    assert first == second
    assert "mail" not in first
    assert "6 words" in first


def test_a_filter_with_a_thousand_names_is_logged_in_part_SRC_9(tenant: Tenant) -> None:
    ask(tenant.pk, QUESTION, names=tuple(f"tool-{number}" for number in range(1000)))
    search_log.flush()
    assert len(LoggedSearch.objects.get().filters["names"]) == log_of_search.FILTER_VALUES


def test_what_no_column_can_hold_is_replaced_and_the_other_searches_are_logged_SRC_9(tenant: Tenant) -> None:
    write([entry(tenant.pk, query="a\x00b \ud800 c"), entry(tenant.pk)])
    assert set(LoggedSearch.objects.values_list("query", flat=True)) == {"a\ufffdb ? c", "send a mail"}


def test_an_entry_that_comes_twice_is_logged_once_SRC_9(tenant: Tenant) -> None:
    one = entry(tenant.pk)
    for _ in range(2):
        write([one])
    assert LoggedSearch.objects.count() == 1


def test_each_search_has_an_id_of_its_own_SRC_9(tenant: Tenant) -> None:
    ids = {new_search_id(tenant.pk) for _ in range(20_000)}
    assert len(ids) == 20_000
    assert all(len(one) == 32 for one in ids)


def test_a_search_does_not_wait_for_a_log_that_cannot_be_written_SRC_9(
    committed: Tenant,
    admin_database: psycopg.Connection[Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.01)
    own = SearchLog()  # with its thread
    monkeypatch.setattr(log_of_search, "search_log", own)
    ask(committed.pk, QUESTION)  # whatever is done once
    wait_until(lambda: not own._entries)
    with admin_database.transaction():
        admin_database.execute("LOCK TABLE metrics_loggedsearch")
        began = time.perf_counter()
        ask(committed.pk, QUESTION)
        assert time.perf_counter() - began < 1  # a lock is waited for LOCK_TIMEOUT_SECONDS, 2
        wait_until(lambda: "Not logged" in caplog.text, seconds=10)
    answer = ask(committed.pk, QUESTION)

    def is_there() -> bool:
        with tenant_context(committed.pk):
            return LoggedSearch.objects.filter(pk=answer.search_id).exists()

    wait_until(is_there, seconds=10)


def test_the_queue_is_bounded_and_says_what_it_drops_SRC_9(
    tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(module.QUEUE_LENGTH + 100):
        search_log.add(entry(tenant.pk))
    assert len(search_log._entries) == module.QUEUE_LENGTH
    with caplog.at_level(logging.WARNING):
        assert search_log.flush() == module.QUEUE_LENGTH
    assert "Not logged, 100 of the searches" in caplog.text


def test_what_one_tenant_cannot_have_written_the_others_can_SRC_9(
    committed: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    search_log.add(entry(uuid.uuid4()))  # of a tenant that is deleted since
    search_log.add(entry(committed.pk))
    assert search_log.flush() == 1
    assert "Not logged, 1 of the searches" in caplog.text
    with tenant_context(committed.pk):
        assert LoggedSearch.objects.count() == 1


def test_a_process_that_ends_writes_what_has_gathered_SRC_9(committed: Tenant) -> None:
    program = (
        "import django; django.setup()\n"
        "from uuid import UUID\n"
        "from metrics.search_log import search_log\n"
        "from tests.support.searches import entry\n"
        f"search_log.add(entry(UUID('{committed.pk}')))\n"
    )
    environment = process_environment({"SEARCH_LOG": "full", "DJANGO_SETTINGS_MODULE": "portal.settings"})
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True, timeout=60)
    with tenant_context(committed.pk):
        assert LoggedSearch.objects.count() == 1


def test_old_searches_are_deleted_in_every_tenant_by_the_worker_alone_SRC_9(
    committed: Tenant,
    make_tenant: Callable[..., Tenant],
    admin_database: psycopg.Connection[Any],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PRUNE_BATCH", 2)
    other = make_tenant()
    for one in (committed, other):
        write(
            [
                entry(one.pk, query=str(days), asked_at=time.monotonic() - days * 86_400)
                for days in (89, 91, 92, 93, 94, 95)
            ]
        )
    with login("DATABASE_WORKER_URL"):
        prune_searches()
    for one in (committed, other):
        with tenant_context(one.pk):
            assert list(LoggedSearch.objects.values_list("query", flat=True)) == ["89"]
            with pytest.raises(Exception, match="permission denied"), tenant_context(one.pk):
                LoggedSearch.objects.all().delete()
    plan = settings.CELERY_BEAT_SCHEDULE["prune-searches"]
    assert (plan["task"], plan["schedule"]) == (prune_searches.name, 86_400)


def test_the_statistics_of_a_tool_end_with_it_SRC_3(tenant: Tenant) -> None:
    from metrics.models import ToolStatistics
    from tools.catalogue.tools import delete_tool

    tools = [create_tool(actor="test", tool_id=name, name=name, description="x") for name in ("a", "b")]
    for tool in tools:
        ToolStatistics.objects.create(tool_id=tool.pk, calls=3, successes=2)
    delete_tool(pk=tools[0].pk, actor="test")
    row = ToolStatistics.objects.get()
    assert (row.tool_id, row.success_rate) == (tools[1].pk, 0.6)
