"""R7: somebody's long transaction, a backup for example, keeps every dead row of the queue from being cleaned away. At 200
tasks a second the workers keep up all the same, and recover when it ends."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from portal.tenancy.context import tenant_context
from tests.support.counts import scaled
from tests.support.database import login
from tests.support.faults.portal import Portal
from tests.support.waiting import wait_until
from tools.catalogue.tools import sync_embeddings
from tools.models import Tool

TOOLS, AT_ONCE, A_SECOND, MOST_WAITING = 1000, 40, 200, 400
SECONDS = 60


def feed(tools: list[Tool], number: int) -> None:
    """New descriptions of a few tools, in one commit: that many tasks."""
    for tool in tools:
        tool.description = f"Text {number} of {tool.pk}."
    with tenant_context(tools[0].tenant_id):
        Tool.objects.bulk_update(tools, ["description"])
        sync_embeddings(tools)


def waiting(portal: Portal) -> int:
    [row] = portal.rows("SELECT count(*) AS n FROM embeddings_embeddingtask")
    return int(row["n"])


@pytest.mark.slow
def test_the_queue_keeps_up_while_somebody_holds_a_snapshot_R7(
    portal: Portal, tmp_path: Path, seen: Callable[..., None]
) -> None:
    log = tmp_path / "claims"
    portal.fill(*(f"First text {number}." for number in range(TOOLS)))
    url = portal.servers.urls["DATABASE_URL"]
    with portal.without_vector_index(), portal.fork_server(TEST_CLAIM_LOG=str(log)) as fork_server:
        fork_server.fork()
        fork_server.fork()
        portal.wait_until_all_ready(60)
        with (
            psycopg.connect(portal.servers.urls["DATABASE_ADMIN_URL"]) as holder,
            login("DATABASE_URL", url=url),
        ):
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT count(*) FROM embeddings_embeddingtask")
            with tenant_context(portal.tenant_id):
                tools = list(Tool.objects.select_related("endpoint", "source"))
            some = itertools.cycle([tools[start : start + AT_ONCE] for start in range(0, TOOLS, AT_ONCE)])
            began, began_at = time.monotonic(), time.time()
            fed: list[float] = []
            backlogs: list[int] = []
            while (now := time.monotonic() - began) < scaled(SECONDS):
                # A machine that cannot do 200 a second is given what it can do.
                if len(fed) * AT_ONCE < now * A_SECOND and (backlog := waiting(portal)) <= MOST_WAITING:
                    backlogs.append(backlog)
                    feed(next(some), len(fed))
                    fed.append(now)
                else:
                    time.sleep(0.01)
            held = portal.rows(
                "SELECT n_dead_tup AS n FROM pg_stat_user_tables WHERE relname = 'embeddings_embeddingtask'"
            )
        released = time.monotonic()
        wait_until(portal.settled, seconds=60, what="the queue is empty")
        recovered = time.monotonic() - released
    third = scaled(SECONDS) / 3
    rates = [
        sum(AT_ONCE for at in fed if part * third <= at < (part + 1) * third) / third for part in range(3)
    ]
    seen(
        tasks_a_second_by_thirds=[round(rate) for rate in rates],
        backlog_most=max(backlogs),
        backlog_median=statistics.median(backlogs),
        dead_rows=held[0]["n"],
        recovered_after_seconds=f"{recovered:.1f}",
    )
    claims = [tuple(map(float, line.split())) for line in log.read_text(encoding="utf-8").splitlines()]
    for start in range(0, scaled(SECONDS), 10):
        took = sorted(seconds for at, seconds in claims if start <= at - began_at < start + 10)
        if took:
            seen(
                from_second=start,
                claims=len(took),
                p50_ms=f"{took[len(took) // 2] * 1000:.1f}",
                p99_ms=f"{took[len(took) * 99 // 100] * 1000:.1f}",
            )
    # Dead rows that every claim must step over would make it slower and slower.
    assert rates[-1] >= rates[0] / 2
    assert rates[-1] >= A_SECOND / 10
