"""What a write costs the database: `python -m bench.writes` writes bench/results/writes.json and prints a table.

Of an edit over the API, of one task (claimed, its vector stored) and of one tool of a first import: bytes of write-ahead log,
which do not depend on what else the machine does, and milliseconds, which do. Index by index, this is what one more costs.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import psycopg

from bench.latency import load, ok
from bench.queue import WORKER, rate, requeue_all
from bench.results import write
from bench.stack import Client, Stack, stack

TOOLS = int(os.environ.get("BENCH_WRITES", "2000"))
EDITS = 100
INSTANT = {"EMBEDDING_PROVIDER": "bench.providers.Instant", "EMBEDDING_MODEL": "instant"}


def cost(owner: psycopg.Connection[Any], count: int, work: Callable[[], object]) -> dict[str, float]:
    """Of one of `count` things that `work` does."""
    start, began = _position(owner), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    return {"wal_bytes": round((_position(owner) - start) / count), "ms": round(seconds * 1000 / count, 2)}


def _position(owner: psycopg.Connection[Any]) -> int:
    row = owner.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
    return int(row[0]) if row else 0


def edit(portal: Stack, key: str, owner: psycopg.Connection[Any]) -> dict[str, float]:
    client = Client(portal.port, key)
    tools = ok(client.call("GET", f"/api/v1/tools?limit={EDITS}"))["results"]

    def work() -> None:
        for number, tool in enumerate(tools):
            change = {"description": f"The text of edit {number}, which nobody has written before."}
            ok(
                client.call(
                    "PATCH", f"/api/v1/tools/{tool['id']}", change, {"If-Match": f'"v{tool["version"]}"'}
                )
            )

    return cost(owner, len(tools), work)


def main() -> int:
    results: dict[str, Any] = {}
    with (
        stack(**INSTANT) as portal,
        psycopg.connect(portal.environment["DATABASE_ADMIN_URL"], autocommit=True) as owner,
    ):
        # What is logged of whole pages depends on when the last checkpoint was.
        owner.execute("ALTER SYSTEM SET full_page_writes = off")
        owner.execute("SELECT pg_reload_conf()")
        keys: list[str] = []
        results["import"] = cost(owner, TOOLS, lambda: keys.append(load(portal, "writes", TOOLS)))
        tasks = []
        for _ in range(3):
            requeue_all(portal, "writes")
            tasks.append(cost(owner, TOOLS, lambda: rate(portal, WORKER, "worker", [[]])))
        results["task"] = {name: statistics.median(one[name] for one in tasks) for name in tasks[0]}
        portal.start("web")
        results["edit"] = edit(portal, keys[0], owner)
    for name, figures in results.items():
        print(f"{name:8} {figures}", flush=True)
    write("writes", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
