"""Forks processes of `manage.py` for tests that kill them faster than Python starts.

Each line on stdin names a command (`embed_worker`), and is answered by the pid of one more process of it, forked from this
one, which has everything imported. They are processes of the real command; only the start-up is shared. Ends with its stdin, and its children with it.

TEST_MUTANT gives them a bug (mutants.py). TEST_CLAIM_LOG is a file to which each of them adds, for every claim, the time of
day and the seconds that it took.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def measure_claims(log: Path) -> None:
    from embeddings.queue import claims

    claim = claims.claim

    def measured(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        tasks = claim(*arguments, **options)
        took = time.perf_counter() - began
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{time.time()} {took}\n")
        return tasks

    claims.claim = measured


def main() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from embeddings.providers import get_provider

    get_provider()
    if mutant := os.environ.get("TEST_MUTANT"):
        from tests.support.faults.mutants import MUTANTS

        MUTANTS[mutant]()
    if log := os.environ.get("TEST_CLAIM_LOG"):
        measure_claims(Path(log))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no orphan works on
            sys.stdin.close()
            call_command(line.strip())
            os._exit(0)
        print(pid, flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
