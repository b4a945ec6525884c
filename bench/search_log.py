"""What the log of searches costs a search: `python -m bench.search_log` writes bench/results/search_log.json and prints it.

Two webs of the same code over the same 1,000 tools, one with SEARCH_LOG=full, one with SEARCH_LOG=off, asked in turns by one
client. Times are milliseconds as the client sees them; `cpu_ms` is the processor time of a web's processes for each search, the
log's thread included.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psycopg

from bench import corpus
from bench.latency import ROUNDS, SEARCHES, compared, load, ok, timed, vacuum
from bench.results import write
from bench.stack import Client, Stack, stack

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def processor_ms(pid: int) -> float:
    """The processor time of a process and of those that it has started."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return (int(fields[11]) + int(fields[12])) * TICK_MS + sum(processor_ms(int(child)) for child in children)


def measure(portal: Stack, key: str) -> dict[str, float]:
    clients = {
        "on": Client(portal.start_second_web("on", SEARCH_LOG="full"), key),
        "off": Client(portal.start_second_web("off", SEARCH_LOG="off"), key),
    }
    asked = iter(corpus.questions(2 * (ROUNDS * SEARCHES + 40)))
    took: dict[str, list[list[float]]] = {name: [] for name in clients}
    spent = dict.fromkeys(clients, 0.0)

    def search(client: Client) -> None:
        ok(client.call("POST", "/api/v1/tools/search", {"query": next(asked), "top_k": 20}))

    for client in clients.values():
        for _ in range(40):
            search(client)
    for number in range(ROUNDS):
        for name in sorted(clients, reverse=bool(number % 2)):
            before = processor_ms(portal.processes[name].pid)
            took[name].append([timed(lambda: search(clients[name])) for _ in range(SEARCHES)])  # noqa: B023 - called here
            spent[name] += processor_ms(portal.processes[name].pid) - before
    figures = compared(took["on"], took["off"])
    searches = ROUNDS * SEARCHES
    return {name.replace("floor", "off"): value for name, value in figures.items()} | {
        "cpu_ms": round(spent["on"] / searches, 3),
        "off_cpu_ms": round(spent["off"] / searches, 3),
    }


def main() -> int:
    with stack() as portal:
        key = load(portal, "tools", 1000)
        portal.start("embeddings", EMBEDDING_THREADS="2")
        portal.await_ready("tools")
        portal.stop("embeddings")
        vacuum(portal)
        results = measure(portal, key)
        for name in ("on", "off"):
            portal.stop(name)  # a web that ends writes what has gathered
        with psycopg.connect(portal.environment["DATABASE_ADMIN_URL"]) as owner:
            row = owner.execute("SELECT count(*) FROM metrics_loggedsearch").fetchone()
        assert row == (ROUNDS * SEARCHES + 40,), row
    print(results)
    write("search_log", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
