"""What the embedding pipeline costs: `python -m bench.queue` writes bench/results/queue.json and prints a table.

- backfill: tools a second through two workers of the product, against two processes of the bare model, each with half of
  the texts, in the same batches;
- tasks: tasks a second through two workers with a provider that costs nothing, against two processes of bare SQL that take
  32 rows at a time and write their vectors, without claim, lease, fence or compare-and-set;
- wakeup, poll: from a save's answer to its claim, in milliseconds, by a Celery worker with the broker and by `embed_worker`
  alone, whose poll is EMBEDDING_POLL seconds;
- saves_beside_backfill: a save's time while the product's processes embed a catalogue with the real model, against one of the
  same processes when they have nothing to do; and the time from a save's answer to its vector meanwhile.

It fails where a figure in BOUNDS is not reached.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import psycopg

from bench.latency import load, ok, tenant_id
from bench.quality import percentile
from bench.results import write
from bench.stack import ROOT, Client, Stack, stack

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
BACKFILL = int(os.environ.get("BENCH_BACKFILL", "1600"))
TASKS = int(os.environ.get("BENCH_TASKS", "10000"))
SAVES = int(os.environ.get("BENCH_SAVES", "40"))
WORKERS = 2
BATCH = 32
BOUNDS = {
    # The figures of RELIABILITY R8 and R9: at least so many tasks a second, at most so many milliseconds, or times as long.
    ("tasks", "tasks_per_s"): (2000, None),
    ("wakeup", "p95_ms"): (None, 300),
    ("poll", "p95_ms"): (None, 5000),
    ("saves_beside_backfill", "p95_ratio"): (None, 1.2),
    ("saves_beside_backfill", "ready_most_ms"): (None, 5000),
}

# Every script prints when it began and ended by the machine's clock; the slowest of a pair counts.
_BARE_MODEL = """
import django, json, sys, time; django.setup()
from portal.tenancy.context import tenant_context
from tools.catalogue.embedding_text import load_texts
from tools.models import Tool
from embeddings.providers import get_provider
tenant, part, parts, batch = sys.argv[1], *map(int, sys.argv[2:])
with tenant_context(tenant):
    texts = list(load_texts(Tool.objects.order_by('pk').values_list('pk', flat=True)).values())[part::parts]
provider = get_provider(); provider.embed(texts[:batch], 'passage')
print('ready', flush=True); sys.stdin.readline(); began = time.time()
for i in range(0, len(texts), batch): provider.embed(texts[i:i+batch], 'passage')
print(json.dumps({'done': len(texts), 'began': began, 'ended': time.time()}))
"""
WORKER = """
import django, json, time, sys; django.setup()
from embeddings.providers import get_provider
from embeddings.queue.worker import drain
get_provider().embed(['warm-up'] * 32, 'passage')
print('ready', flush=True); sys.stdin.readline(); began = time.time()
done = drain()
print(json.dumps({'done': done.stored, 'began': began, 'ended': time.time()}))
"""
_BARE_SQL = """
import django, json, os, sys, time, psycopg; django.setup()
from bench.providers import Instant
provider, done = Instant(dimension=384), 0
connection = psycopg.connect(os.environ['DATABASE_ADMIN_URL'], autocommit=True)
print('ready', flush=True); sys.stdin.readline(); began = time.time()
while True:
    with connection.transaction():
        rows = connection.execute(
            "DELETE FROM embeddings_embeddingtask WHERE id IN (SELECT id FROM embeddings_embeddingtask WHERE tenant_id = %s "
            "ORDER BY priority, next_attempt_at LIMIT 32 FOR UPDATE SKIP LOCKED) RETURNING entity_id, source_hash", [sys.argv[1]]
        ).fetchall()
        vectors = provider.embed([source for _, source in rows], 'passage') if rows else []
        connection.execute(
            "UPDATE tools_toolembedding AS e SET vector = r.vector::vector, vector_hash = e.source_hash, status = 'ready' "
            "FROM unnest(%s::uuid[], %s::text[]) AS r(id, vector) WHERE e.entity_id = r.id AND e.tenant_id = %s AND e.slot = 0",
            [[pk for pk, _ in rows], ['[' + ','.join(map('{:.9g}'.format, v)) + ']' for v in vectors], sys.argv[1]],
        )
    done += len(rows)
    if not rows: break
print(json.dumps({'done': done, 'began': began, 'ended': time.time()}))
"""


def rate(
    portal: Stack, code: str, role: str, arguments: Sequence[Sequence[str]], **environment: str
) -> float:
    """Things done a second by one process for each of `arguments`, which begin together."""
    environment = {
        **portal.environment,
        "PORTAL_DB_ROLE": role,
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        **environment,
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, *own],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for own in arguments
    ]
    for process in processes:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("a measured process did not start; its error stands above")
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate()[0] for process in processes]
    figures = [json.loads(output) for output in outputs]
    seconds = max(one["ended"] for one in figures) - min(one["began"] for one in figures)
    return float(sum(one["done"] for one in figures) / seconds)


def want_all(portal: Stack, slug: str) -> None:
    """Makes every embedding of a tenant one that a backfill finds wrong, as after a failure."""
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"], autocommit=True) as owner:
        owner.execute(
            "UPDATE tools_toolembedding SET status = 'failed', vector = NULL, vector_hash = NULL WHERE tenant_id = %s",
            [tenant_id(portal, slug)],
        )
        owner.execute("DELETE FROM embeddings_embeddingtask")
        owner.execute("VACUUM (ANALYZE) tools_toolembedding, embeddings_embeddingtask")


def requeue_all(portal: Stack, slug: str) -> None:
    """Makes every embedding of a tenant wanted once more, and a task of each."""
    want_all(portal, slug)
    portal.manage("backfill_embeddings", "--tenant", slug, "--no-progress", "--json")
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"], autocommit=True) as owner:
        owner.execute("VACUUM (ANALYZE) tools_toolembedding, embeddings_embeddingtask")


def compared(ours: list[float], floor: list[float], unit: str) -> dict[str, float]:
    """Medians over the rounds, and of each round's ratio."""
    return {
        unit: round(statistics.median(ours), 1),
        f"floor_{unit}": round(statistics.median(floor), 1),
        "ratio": round(statistics.median(a / b for a, b in zip(ours, floor, strict=True)), 3),
    }


def backfill(portal: Stack) -> dict[str, float]:
    tenant = tenant_id(portal, "backfill")
    ours, floor = [], []
    for _ in range(ROUNDS):
        parts = [[tenant, str(part), str(WORKERS), str(BATCH)] for part in range(WORKERS)]
        floor.append(rate(portal, _BARE_MODEL, "app", parts))
        requeue_all(portal, "backfill")
        ours.append(rate(portal, WORKER, "worker", [[]] * WORKERS))
    return compared(ours, floor, "tools_per_s")


def tasks(portal: Stack) -> dict[str, float]:
    instant = {"EMBEDDING_PROVIDER": "bench.providers.Instant", "EMBEDDING_MODEL": "instant"}
    ours, floor = [], []
    for _ in range(ROUNDS):
        requeue_all(portal, "tasks")
        floor.append(rate(portal, _BARE_SQL, "admin", [[tenant_id(portal, "tasks")]] * WORKERS))
        requeue_all(portal, "tasks")
        ours.append(rate(portal, WORKER, "worker", [[]] * WORKERS, **instant))
    return compared(ours, floor, "tasks_per_s")


def saves_beside_backfill(portal: Stack, slug: str, key: str) -> dict[str, float]:
    """Rounds of saves, with a backfill of the whole catalogue beside them and without one."""
    for name in ("web", "embeddings", "worker"):
        portal.start(name)
    time.sleep(5)  # Celery connects
    client = Client(portal.port, key)
    tools = ok(client.call("GET", f"/api/v1/tools?limit={SAVES}"))["results"]
    beside, alone, waits = [], [], []
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"], autocommit=True) as owner:
        edits(client, tools)
        for _ in range(ROUNDS):
            portal.await_ready(slug)
            alone.append(edits(client, tools))
            want_all(portal, slug)
            portal.manage("backfill_embeddings", "--tenant", slug, "--no-progress", "--detach")
            while _waiting(owner) < BATCH:
                time.sleep(0.05)
            beside.append(edits(client, tools))
            for tool in tools[:5]:
                edits(client, [tool])
                waits.append(until_none(owner, "tools_toolembedding", "<> 'ready'", tool["id"]))
            if _waiting(owner) == 0:
                raise RuntimeError(
                    "the backfill was over before the saves beside it: more tools in BENCH_BACKFILL"
                )
    for name in ("worker", "embeddings", "web"):
        portal.stop(name)
    mine, idle = ([percentile(one, 0.95) for one in rounds] for rounds in (beside, alone))
    return {
        "p95_ms": round(statistics.median(mine), 1),
        "idle_p95_ms": round(statistics.median(idle), 1),
        "p95_ratio": round(statistics.median(a / b for a, b in zip(mine, idle, strict=True)), 3),
        "ready_most_ms": round(max(waits), 1),
    }


def _waiting(owner: psycopg.Connection[Any]) -> int:
    row = owner.execute("SELECT count(*) FROM embeddings_embeddingtask WHERE status <> 'failed'").fetchone()
    return int(row[0]) if row else 0


def edits(client: Client, tools: Sequence[dict[str, Any]], pause: float = 0.05) -> list[float]:
    """Saves a new description of each tool, one after the other; returns the milliseconds until each answer."""
    took = []
    for tool in tools:
        time.sleep(pause)
        change = {"description": f"The text of {tool['tool_id']} at {time.time()}."}
        began = time.perf_counter()
        saved = ok(
            client.call("PATCH", f"/api/v1/tools/{tool['id']}", change, {"If-Match": f'"v{tool["version"]}"'})
        )
        took.append((time.perf_counter() - began) * 1000)
        tool["version"] = saved["version"]
    return took


def until_none(owner: psycopg.Connection[Any], table: str, status: str, entity_id: str) -> float:
    """Milliseconds until a tool has no row with this status in the table."""
    began = time.perf_counter()
    statement = f"SELECT 1 FROM {table} WHERE entity_id = %s AND status {status}"  # noqa: S608 - our own words
    while owner.execute(statement, [entity_id]).fetchone():
        time.sleep(0.002)
    return (time.perf_counter() - began) * 1000


def lag(portal: Stack, key: str, pause: float) -> dict[str, float]:
    """Saves one tool after the other, at random moments, and watches the table for the claim of each."""
    client = Client(portal.port, key)
    draw = random.Random(0)
    rows = ok(client.call("GET", f"/api/v1/tools?limit={SAVES}"))["results"]
    waits = []
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"], autocommit=True) as owner:
        for tool in rows:
            edits(client, [tool], draw.uniform(0, pause))
            waits.append(until_none(owner, "embeddings_embeddingtask", "= 'pending'", tool["id"]))
    return {"p50_ms": round(percentile(waits, 0.5), 1), "p95_ms": round(percentile(waits, 0.95), 1)}


def missed(results: dict[str, Any]) -> list[str]:
    """The figures that do not reach their bounds."""
    found = []
    for (name, figure), (least, most) in BOUNDS.items():
        value = results[name][figure]
        if least is not None and value < least:
            found.append(f"{name}: {figure} is {value}, at least {least} is promised")
        if most is not None and value > most:
            found.append(f"{name}: {figure} is {value}, at most {most} is promised")
    return found


def main() -> int:
    results: dict[str, Any] = {}

    def measure(name: str, figures: dict[str, float]) -> None:
        results[name] = figures
        print(f"{name:21} {figures}", flush=True)

    with stack() as portal:
        key = load(portal, "backfill", BACKFILL)
        measure("backfill", backfill(portal))
        measure("saves_beside_backfill", saves_beside_backfill(portal, "backfill", key))
    instant = {"EMBEDDING_PROVIDER": "bench.providers.Instant", "EMBEDDING_MODEL": "instant"}
    with stack(**instant) as portal:
        key = load(portal, "tasks", TASKS)
        measure("tasks", tasks(portal))
        portal.start("web")
        portal.start("embeddings")
        time.sleep(5)  # Celery connects
        measure("wakeup", lag(portal, key, 0.5))
        portal.stop("embeddings")
        portal.spawn("alone", [sys.executable, "manage.py", "embed_worker"], PORTAL_DB_ROLE="worker")
        time.sleep(5)
        measure("poll", lag(portal, key, 3))
        portal.stop("alone")
    write("queue", results)
    for line in missed(results):
        print(f"Not reached: {line}.", file=sys.stderr)
    return 1 if missed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
