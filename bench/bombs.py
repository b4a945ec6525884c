"""What hostile documents cost everybody else (S10): `python -m bench.bombs` writes bench/results/bombs.json.

One client searches, one question after the other, while another uploads the bombs of tests/support/imports/bombs.py, each
refused before the next is sent. The floor is the same searching alone, in rounds that alternate. Milliseconds as the
client sees them; `refused_s` are seconds from a bomb's first byte to its answer.
"""

from __future__ import annotations

import http.client
import itertools
import os
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from bench import corpus
from bench.latency import ok, serve, timed
from bench.quality import percentile
from bench.results import write
from bench.stack import Client, Stack, stack
from tests.support.imports.bombs import REFUSED

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SEARCHES = int(os.environ.get("BENCH_SEARCHES", "300"))
TOOLS = 1_000


def upload(portal: Stack, key: str, raw: bytes) -> int:
    """The status that an upload of this document to the API is answered with."""
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="document"; filename="bomb"\r\n\r\n'
    body = head.encode() + raw + f"\r\n--{boundary}--\r\n".encode()
    connection = http.client.HTTPConnection("127.0.0.1", portal.port, timeout=60)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": f"multipart/form-data; boundary={boundary}"}
    with suppress(
        BrokenPipeError, ConnectionResetError
    ):  # what is too large is answered before it is all there
        connection.request("POST", "/api/v1/sources", body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


class Bomber:
    """Uploads one bomb after the other, in a thread, until the block ends."""

    def __init__(self, portal: Stack, key: str, bombs: Iterator[bytes]) -> None:
        self._portal, self._key, self._bombs = portal, key, bombs
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seconds: list[float] = []
        self.statuses: set[int] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._enough.is_set():
            began = time.perf_counter()
            self.statuses.add(upload(self._portal, self._key, next(self._bombs)))
            self.seconds.append(time.perf_counter() - began)


def main() -> int:
    bombs = itertools.cycle([make() for make, _ in REFUSED.values()])
    asked = iter(corpus.questions(2 * ROUNDS * SEARCHES + 40))
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    seconds: list[float] = []
    with stack() as portal:
        key = serve(portal, {"bombed": TOOLS})["bombed"]
        client = Client(portal.port, key)

        def search() -> None:
            ok(client.call("POST", "/api/v1/tools/search", {"query": next(asked), "top_k": 20}))

        for _ in range(40):
            search()
        for _ in range(ROUNDS):
            alone.append([timed(search) for _ in range(SEARCHES)])
            with Bomber(portal, key, bombs) as bomber:
                beside.append([timed(search) for _ in range(SEARCHES)])
            seconds += bomber.seconds
            if not bomber.statuses <= {413, 422}:
                raise RuntimeError(f"a bomb was not refused: {bomber.statuses}")
    figures = {"bombs": len(seconds), "refused_s": round(max(seconds), 2)}
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        mine, bare = ([percentile(values, share) for values in rounds] for rounds in (beside, alone))
        figures[f"{name}_ms"] = round(statistics.median(mine), 2)
        figures[f"alone_{name}_ms"] = round(statistics.median(bare), 2)
        figures[f"{name}_ratio"] = round(statistics.median(a / b for a, b in zip(mine, bare, strict=True)), 3)
    print(figures)
    write("bombs", {"search_beside_bombs": figures})
    return 0


if __name__ == "__main__":
    sys.exit(main())
