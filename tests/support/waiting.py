"""Waits for a condition instead of a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


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
