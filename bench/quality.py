"""Search quality on labelled sets, asked of the real endpoint: `python -m bench.quality DIR [SETTINGS ...]`.

Every folder of DIR with tools.jsonl and queries.jsonl is a set. It is loaded into a tenant of its own, embedded by the
product's worker, and asked every query with top_k 10; so is the demo catalogue, with its own questions. Writes bench/results/quality.json and prints a table.
Then all is asked again with each of SETTINGS, such as "SEARCH_SENTENCES=0 SEARCH_NAME_MATCH=0", and printed.

Measures, each the mean over all queries (binary gain; an `equivalent` id serves for the relevant one it stands under, once):
recall@k; nDCG@10 (Järvelin and Kekäläinen 2002); mean reciprocal rank of the first hit (Voorhees 1999). Latencies are the
client's, in milliseconds, at concurrency 1.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.results import write
from bench.stack import ROOT, Client, Stack, stack

DEMO_QUESTIONS = ROOT / "tools" / "demo" / "questions.jsonl"
TOP_K = 10
MAX_QUERY = 2000


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def sets_in(folder: Path) -> Iterator[Path]:
    for one in sorted(folder.iterdir()):
        if (one / "tools.jsonl").is_file() and (one / "queries.jsonl").is_file():
            yield one


def gains(query: dict[str, Any], ranked: list[str]) -> list[int]:
    """1 or 0 for each place of the ranking; a need that was served already gives no second gain and no place."""
    need_of: dict[str, int] = {}
    for number, relevant in enumerate(query["relevant"]):
        for tool in (relevant, *query.get("equivalent", {}).get(relevant, ())):
            need_of.setdefault(tool, number)
    served: set[int] = set()
    result = []
    for tool in dict.fromkeys(ranked):
        need = need_of.get(tool)
        if need in served:
            continue
        result.append(int(need is not None))
        if need is not None:
            served.add(need)
    return result


def measures(query: dict[str, Any], ranked: list[str]) -> dict[str, float]:
    """The five figures of one query."""
    found, wanted = gains(query, ranked), len(query["relevant"])
    ideal = sum(1 / math.log2(place + 2) for place in range(min(wanted, TOP_K)))
    return {
        "recall@1": sum(found[:1]) / wanted,
        "recall@5": sum(found[:5]) / wanted,
        "recall@10": sum(found[:10]) / wanted,
        "ndcg@10": sum(gain / math.log2(place + 2) for place, gain in enumerate(found[:TOP_K])) / ideal,
        "mrr": next((1 / (place + 1) for place, gain in enumerate(found) if gain), 0.0),
    }


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ask(client: Client, queries: list[dict[str, Any]], **options: Any) -> dict[str, float]:
    rows, latencies = [], []
    for query in queries:
        began = time.perf_counter()
        status, answer = client.call(
            "POST",
            "/api/v1/tools/search",
            {"query": query["query"][:MAX_QUERY], "top_k": TOP_K, **options},
        )
        latencies.append((time.perf_counter() - began) * 1000)
        if status != 200:
            raise RuntimeError(f"query {query['qid']}: {status}: {answer}")
        if answer["metadata"]["degraded"]:
            raise RuntimeError(
                f"query {query['qid']} was answered degraded: {answer['metadata']['degraded']}"
            )
        rows.append(measures(query, [hit["tool"]["tool_id"] for hit in answer["results"]]))
    figures = {name: round(statistics.fmean(row[name] for row in rows), 4) for name in rows[0]}
    return {
        **figures,
        "p50_ms": round(percentile(latencies, 0.5), 2),
        "p99_ms": round(percentile(latencies, 0.99), 2),
    }


def show(name: str, results: dict[str, dict[str, float]], figures: dict[str, float]) -> None:
    results[name] = figures
    print(f"{name:12s} " + "  ".join(f"{measure} {value}" for measure, value in figures.items()), flush=True)


def load(portal: Stack, folder: Path) -> Client:
    key = portal.new_tenant(folder.name)
    portal.manage("import_tools", str(folder / "tools.jsonl"), "--tenant", folder.name)
    portal.await_ready(folder.name)
    return Client(portal.port, key)


def load_demo(portal: Stack) -> Client:
    """The demo catalogue as `make up` makes it, in the default tenant."""
    with tempfile.TemporaryDirectory() as state:
        portal.environment["PORTAL_STATE"] = state
        portal.manage("first_run")
        key = json.loads((Path(state) / "first-run.json").read_text(encoding="utf-8"))["api_key"]
        del portal.environment["PORTAL_STATE"]
    portal.await_ready("default")
    return Client(portal.port, key)


def main(folder: Path, trials: Sequence[str]) -> int:
    found = list(sets_in(folder))
    if not found:
        print(f"{folder} holds no folder with tools.jsonl and queries.jsonl.", file=sys.stderr)
        return 2
    results: dict[str, dict[str, float]] = {}
    with stack() as portal:
        portal.start("web")
        portal.start("embeddings", EMBEDDING_THREADS="2")
        asked = [("demo", load_demo(portal), lines(DEMO_QUESTIONS))]
        show("demo", results, ask(*asked[0][1:]))
        for one in found:
            asked.append((one.name, load(portal, one), lines(one / "queries.jsonl")))
            show(one.name, results, ask(*asked[-1][1:]))
        for trial in trials:
            print(trial)
            portal.stop("web")
            portal.start("web", **dict(setting.split("=", 1) for setting in trial.split()))
            for name, client, queries in asked:
                show(name, {}, ask(client, queries))
    write("quality", results)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/retrieval"), sys.argv[2:]))
