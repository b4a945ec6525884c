"""Waits for a condition instead of a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg


def wait_until(
    condition: Callable[[], Any], what: str = "the condition holds", *, seconds: float = 60
) -> Any:
    """The condition's first true value, asked for every 20 ms; an AssertionError after `seconds`, which nothing waits for unless it hangs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds:g} s: {what}")


def wait_until_blocks(pid: int, owner: psycopg.Connection[Any], what: str) -> None:
    """Until somebody waits for a lock that this session holds. Waits of other tests are in the same server's view of locks."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND %s = ANY (pg_blocking_pids(pid))"
    wait_until(lambda: owner.execute(waiting, [pid]).fetchone() == (1,), what)
