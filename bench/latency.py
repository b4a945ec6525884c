"""What the portal's manners cost: `python -m bench.latency` writes bench/results/latency.json and prints a table.

Everything is a ratio against a floor or a peer of the same run, because the machine is noisy: rounds alternate between the
two, and the median round counts. Times are milliseconds as the client sees them, at concurrency 1.

- search: the real endpoint against bench/floor.py, over 1,000, 10,000 and 100,000 tools, with questions that no cache has
  seen; the 100,000 are the 10,000 ten times, with vectors a little apart, since embedding as many would take most of an hour;
- save: PATCH of a description with the embedding pipeline on, against one with EMBEDDING_PROVIDER=disabled.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import psycopg

from bench import corpus
from bench.quality import percentile
from bench.results import write
from bench.stack import Client, Stack, stack
from embeddings.providers.onnx_model import MODEL

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SEARCHES = int(os.environ.get("BENCH_SEARCHES", "300"))  # of each side in a round
SAVES = int(os.environ.get("BENCH_SAVES", "100"))
SIZES = (1_000, 10_000)
LARGE = 100_000


def timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def compared(ours: list[list[float]], floor: list[list[float]]) -> dict[str, float]:
    """Medians over the rounds of p50 and p99 of both sides, and of each round's ratio."""
    figures = {}
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        mine = [percentile(values, share) for values in ours]
        bare = [percentile(values, share) for values in floor]
        figures[f"{name}_ms"] = round(statistics.median(mine), 2)
        figures[f"floor_{name}_ms"] = round(statistics.median(bare), 2)
        figures[f"{name}_ratio"] = round(statistics.median(a / b for a, b in zip(mine, bare, strict=True)), 3)
    return figures


def load(portal: Stack, slug: str, count: int) -> str:
    """A tenant with `count` tools, which wait for their embeddings; returns its key."""
    key = portal.new_tenant(slug)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for tool in corpus.tools(count):
            file.write(json.dumps(tool) + "\n")
        file.flush()
        portal.manage("import_tools", file.name, "--tenant", slug, "--source", "bench")
    return key


def serve(portal: Stack, tenants: Mapping[str, int]) -> dict[str, str]:
    """The web over tenants of so many tools each, all of them embedded; returns a key of each."""
    keys = {slug: load(portal, slug, count) for slug, count in tenants.items()}
    portal.start("embeddings", EMBEDDING_THREADS="2")
    for slug in tenants:
        portal.await_ready(slug)
    portal.stop("embeddings")
    vacuum(portal)
    portal.start("web")
    return keys


def multiply(portal: Stack, slug: str, larger_slug: str, times: int) -> str:
    """A tenant with every tool of another `times` times; returns its key. A copy's vector is turned away from the
    first one's by some 25 degrees (cosine 0.9), each into another direction, as tools of one kind stand to each other."""
    key = portal.new_tenant(larger_slug)
    tenant, larger = tenant_id(portal, slug), tenant_id(portal, larger_slug)
    draw = np.random.default_rng(0)
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"]) as owner:
        names = _columns(
            owner, "tools_tool", besides=("id", "tenant_id", "tool_id", "source_id", "endpoint_id")
        )
        vectors = dict(
            owner.execute(
                "SELECT tool.tool_id, vector::text FROM tools_tool AS tool JOIN tools_toolembedding ON entity_id = tool.id "
                "WHERE tool.tenant_id = %s AND slot = 0 AND status = 'ready'",
                [tenant],
            ).fetchall()
        )
        for copy in range(times):
            made = owner.execute(
                f"INSERT INTO tools_tool (id, tenant_id, tool_id, {names}) "  # noqa: S608 - names of our own columns
                f"SELECT gen_random_uuid(), %s, tool_id || '-' || %s, {names} FROM tools_tool WHERE tenant_id = %s "
                "RETURNING id, tool_id",
                [larger, copy, tenant],
            ).fetchall()
            with owner.cursor().copy(
                "COPY tools_toolembedding (id, tenant_id, entity_id, slot, active, status, source_hash, vector_hash, vector, "
                "model, dimension, truncated, error) FROM STDIN"
            ) as rows:
                for pk, tool_id in made:
                    original = np.array(json.loads(vectors[tool_id.rpartition("-")[0]]))
                    aside = draw.standard_normal(len(original))
                    aside -= (aside @ original) * original
                    vector = 0.9 * original + (1 - 0.9**2) ** 0.5 * aside / np.linalg.norm(aside)
                    text = "[" + ",".join(f"{value:.7g}" for value in vector) + "]"
                    rows.write_row(
                        [
                            uuid.uuid4(),
                            larger,
                            pk,
                            0,
                            True,
                            "ready",
                            "0" * 64,
                            "0" * 64,
                            text,
                            MODEL,
                            len(vector),
                            False,
                            "",
                        ]
                    )
            owner.commit()
            print(f"  {(copy + 1) * len(made):,d} tools", flush=True)
    return key


def _columns(owner: psycopg.Connection[Any], table: str, *, besides: tuple[str, ...]) -> str:
    rows = owner.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_generated = 'NEVER' "
        "AND column_name <> ALL(%s)",
        [table, list(besides)],
    ).fetchall()
    return ", ".join(name for (name,) in rows)


def vacuum(portal: Stack) -> None:
    """What autovacuum does within a minute of a load: statistics, and the map that index-only scans need."""
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"], autocommit=True) as owner:
        owner.execute("VACUUM (ANALYZE) tools_tool, tools_toolembedding, tools_posting")


def start_floor(portal: Stack) -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "bench.floor:application",
        "-b",
        f"127.0.0.1:{port}",
        "-w",
        "2",
    ]
    portal.spawn("floor", command)
    portal.await_port(port)
    return port


def tenant_id(portal: Stack, slug: str) -> str:
    with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"]) as owner:
        row = owner.execute("SELECT id FROM tenancy_tenant WHERE slug = %s", [slug]).fetchone()
    assert row is not None
    return str(row[0])


def search(portal: Stack, slug: str, key: str, floor_port: int, asked: Iterator[str]) -> dict[str, float]:
    """`asked` is shared by all sizes: a question that comes again has its vector in the cache."""
    ours, floor = Client(portal.port, key), Client(floor_port, "")
    tenant = tenant_id(portal, slug)
    for _ in range(40):  # both workers of both servers warm
        ours.call("POST", "/api/v1/tools/search", {"query": next(asked), "top_k": 20})
        floor.call("POST", "/search", {"query": next(asked), "top_k": 20, "tenant": tenant})
    mine: list[list[float]] = []
    bare: list[list[float]] = []

    def search_ours(question: str) -> None:
        ok(ours.call("POST", "/api/v1/tools/search", {"query": question, "top_k": 20}))

    def search_floor(question: str) -> None:
        ok(floor.call("POST", "/search", {"query": question, "top_k": 20, "tenant": tenant}))

    # One side after the other, not question by question: the two would take the model from each other's caches.
    for _ in range(ROUNDS):
        mine.append([timed(lambda: search_ours(next(asked))) for _ in range(SEARCHES)])
        bare.append([timed(lambda: search_floor(next(asked))) for _ in range(SEARCHES)])
    return compared(mine, bare)


def ok(answer: tuple[int, Any]) -> Any:
    status, body = answer
    assert status == 200, f"{status}: {body}"
    return body


def save(portal: Stack, key: str) -> dict[str, float]:
    """Alternating PATCHes of two tools of one size, through two webs of the same code."""
    on = Client(portal.port, key)
    port = portal.start_second_web("off", EMBEDDING_PROVIDER="disabled")
    off = Client(port, key)
    rows = ok(on.call("GET", "/api/v1/tools?limit=2"))["results"]
    state = {id(client): dict(row) for client, row in zip((on, off), rows, strict=True)}

    def patch(client: Client, number: int) -> float:
        tool = state[id(client)]
        text = f"Round {number}: lists what is overdue, by customer and by the date it was due."
        began = time.perf_counter()
        status, body = client.call(
            "PATCH",
            f"/api/v1/tools/{tool['id']}",
            {"description": text},
            {"If-Match": f'"v{tool["version"]}"'},
        )
        spent = (time.perf_counter() - began) * 1000
        assert status == 200, body
        tool["version"] = body["version"]
        return spent

    for number in range(30):
        patch(on, -number - 1)
        patch(off, -number - 1)
    with_pipeline: list[list[float]] = []
    without: list[list[float]] = []
    for round_number in range(ROUNDS):
        pairs = [
            (patch(on, n), patch(off, n)) for n in range(round_number * SAVES, (round_number + 1) * SAVES)
        ]
        with_pipeline.append([pair[0] for pair in pairs])
        without.append([pair[1] for pair in pairs])
    return compared(with_pipeline, without)


def main() -> int:
    results: dict[str, Any] = {"corpus": "../shared/retrieval" if corpus.REAL.is_dir() else "made up"}
    with stack() as portal:
        keys = serve(portal, {f"tools-{size}": size for size in SIZES})
        floor_port = start_floor(portal)
        asked = iter(corpus.questions((len(SIZES) + 1) * (2 * ROUNDS * SEARCHES + 80)))
        for size in (*SIZES, LARGE):
            slug = f"tools-{size}"
            if size == LARGE:
                keys[slug] = multiply(portal, f"tools-{SIZES[-1]}", slug, size // SIZES[-1])
                vacuum(portal)
            results[f"search_{size}"] = search(portal, slug, keys[slug], floor_port, asked)
            print(f"search {size:7,d} {results[f'search_{size}']}", flush=True)
        results["save"] = save(portal, keys[f"tools-{SIZES[0]}"])
        print(f"save          {results['save']}", flush=True)
    write("latency", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
