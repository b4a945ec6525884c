"""What stands at the port: `python -m bench.port` writes bench/results/port.json and prints a table.

`web` is the web as it is started; `bare` are gunicorn's sync workers without the proxy before them. Times are milliseconds as
the client sees them, over BENCH_TOOLS tools with questions that no cache has seen. Rounds alternate between the two, because
the machine is noisy, and the median round counts:

- search at 1, 4 and 16 parallel clients;
- search at one client, and the slowest of 20 `/livez`, beside what bench/attackers.py does: 300 silent and 300 dripping
  connections with 50 slow readers, and then eight parallel loops of wrong passwords.
"""

from __future__ import annotations

import http.client
import math
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench import corpus
from bench.latency import ok, serve, timed
from bench.quality import percentile
from bench.results import write
from bench.stack import ROOT, Client, Stack, stack

TOOLS = int(os.environ.get("BENCH_TOOLS", "2000"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
PARALLEL = (1, 4, 16)
SLOW = ("silent=300", "dripping=300", "slow_readers=50")
LOGINS = ("logins=8",)


def search(port: int, key: str, asked: Iterator[str], parallel: int) -> dict[str, float]:
    """Requests a second and percentiles of so many clients that ask one question after the other."""
    times: list[float] = []
    lock = threading.Lock()
    until = time.monotonic() + SECONDS

    def ask() -> None:
        client = Client(port, key)
        while time.monotonic() < until:
            with lock:
                question = next(asked)
            body = {"query": question, "top_k": 20}
            times.append(timed(lambda: ok(client.call("POST", "/api/v1/tools/search", body))))  # noqa: B023

    threads = [threading.Thread(target=ask) for _ in range(parallel)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shares = {f"p{round(100 * share)}_ms": round(percentile(times, share), 1) for share in (0.5, 0.95, 0.99)}
    return {"per_second": round(len(times) / SECONDS, 1), **shares}


def livez(port: int, timeout: float) -> float:
    """Milliseconds until its answer; `timeout` in seconds. Raises TimeoutError."""

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        try:
            connection.request("GET", "/livez")
            assert connection.getresponse().status == 200
        finally:
            connection.close()

    return timed(ask)


def slowest_livez(port: int, count: int = 20) -> float:
    """Milliseconds of the slowest of these; infinite where one has no answer within 10 s."""
    try:
        return round(max(livez(port, 10) for _ in range(count)), 1)
    except OSError:
        return math.inf


@contextmanager
def attacked(port: int, counts: tuple[str, ...]) -> Iterator[None]:
    attackers = subprocess.Popen(
        [sys.executable, "-m", "bench.attackers", str(port), *counts],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert attackers.stdout is not None
        assert attackers.stdout.readline() == "ready\n"
        yield
    finally:
        attackers.kill()
        attackers.communicate()


def beside(port: int, key: str, asked: Iterator[str], counts: tuple[str, ...]) -> dict[str, Any]:
    with attacked(port, counts):
        found: dict[str, Any] = {"livez_ms": slowest_livez(port)}
        if found["livez_ms"] != math.inf:
            found |= search(port, key, asked, 1)
        return found


def median(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(one[name] for one in rounds), 1) for name in rounds[0]}


def start_bare(portal: Stack) -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    bind = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "gunicorn", "portal.wsgi", "-c", "portal/gunicorn.py", "--bind", bind]
    portal.spawn("bare", command, PORTAL_DB_ROLE="app")
    portal.await_port(port)
    return port


def main() -> int:
    results: dict[str, Any] = {"tools": TOOLS}
    with stack() as portal:
        key = serve(portal, {"tools": TOOLS})["tools"]
        ports = {"web": portal.port, "bare": start_bare(portal)}
        asked = iter(corpus.questions(20_000))
        for port in ports.values():
            search(port, key, asked, 4)  # both workers warm
        for parallel in PARALLEL:
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in ports}
            for _ in range(ROUNDS):
                for name, port in ports.items():
                    rounds[name].append(search(port, key, asked, parallel))
            for name, found in rounds.items():
                results[f"{name}_{parallel}"] = median(found)
                print(f"{name:5s}{parallel:3d} parallel      {results[f'{name}_{parallel}']}", flush=True)
        for name, counts in (("slow_clients", SLOW), ("login_loops", LOGINS)):
            results[name] = beside(portal.port, key, asked, counts)
            print(f"web beside {name:12s} {results[name]}", flush=True)
        results["bare_slow_clients"] = beside(ports["bare"], key, asked, SLOW)
        print(f"bare beside slow_clients {results['bare_slow_clients']}", flush=True)
    write("port", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
