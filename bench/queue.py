"""What the embedding pipeline costs: `python -m bench.queue` writes bench/results/queue.json and prints a table.

- backfill: tools a second through two workers of the product, against two processes of the bare model, each with half of
  the texts, in the same batches;
- tasks: tasks a second through two workers with a provider that costs nothing, against two processes of bare SQL that take
  32 rows at a time and write their vectors, without claim, lease, fence or compare-and-set. Both pay for the vector index,
  which is most of it: `tasks_without_index` is the queue alone;
- wakeup, poll: from a save's answer to its claim, in milliseconds, by a Celery worker with the broker and by `embed_worker`
  alone, whose poll is EMBEDDING_POLL seconds.
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
SAVES = 40
WORKERS = 2
BATCH = 32

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


def requeue_all(portal: Stack, slug: str) -> None:
    """Makes every embedding of a tenant wanted once more, as a backfill finds it after a failure."""
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"], autocommit=True) as owner:
        owner.execute(
            "UPDATE tools_toolembedding SET status = 'failed', vector = NULL, vector_hash = NULL WHERE tenant_id = %s",
            [tenant_id(portal, slug)],
        )
        owner.execute("DELETE FROM embeddings_embeddingtask")
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
    load(portal, "backfill", BACKFILL)
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


def drop_vector_indexes(portal: Stack) -> None:
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"], autocommit=True) as owner:
        owner.execute("DROP INDEX IF EXISTS tools_toolembedding_hnsw_0, tools_toolembedding_hnsw_1")


def lag(portal: Stack, key: str, pause: float) -> dict[str, float]:
    """Saves one tool after the other, at random moments, and watches the table for the claim of each."""
    client = Client(portal.port, key)
    draw = random.Random(0)
    rows = ok(client.call("GET", f"/api/v1/tools?limit={SAVES}"))["results"]
    waits = []
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"], autocommit=True) as owner:
        for number, tool in enumerate(rows):
            time.sleep(draw.uniform(0, pause))
            change = {"description": f"Watched at {time.time()}, number {number}."}
            ok(
                client.call(
                    "PATCH", f"/api/v1/tools/{tool['id']}", change, {"If-Match": f'"v{tool["version"]}"'}
                )
            )
            began = time.perf_counter()
            while owner.execute(
                "SELECT 1 FROM embeddings_embeddingtask WHERE entity_id = %s AND status = 'pending'",
                [tool["id"]],
            ).fetchone():
                time.sleep(0.002)
            waits.append((time.perf_counter() - began) * 1000)
    return {"p50_ms": round(percentile(waits, 0.5), 1), "p95_ms": round(percentile(waits, 0.95), 1)}


def main() -> int:
    results: dict[str, Any] = {}
    with stack() as portal:
        results["backfill"] = backfill(portal)
        print(f"backfill      {results['backfill']}", flush=True)
    instant = {"EMBEDDING_PROVIDER": "bench.providers.Instant", "EMBEDDING_MODEL": "instant"}
    with stack(**instant) as portal:
        key = load(portal, "tasks", TASKS)
        for name in ("tasks", "tasks_without_index"):
            results[name] = tasks(portal)
            print(f"{name:13} {results[name]}", flush=True)
            drop_vector_indexes(portal)
        portal.start("web")
        portal.start("embeddings")
        time.sleep(5)  # Celery connects
        results["wakeup"] = lag(portal, key, 0.5)
        print(f"wakeup        {results['wakeup']}", flush=True)
        portal.stop("embeddings")
        portal.spawn("alone", [sys.executable, "manage.py", "embed_worker"], PORTAL_DB_ROLE="worker")
        time.sleep(5)
        results["poll"] = lag(portal, key, 3)
        print(f"poll          {results['poll']}", flush=True)
    write("queue", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
