"""How often tests repeat what they do."""

from __future__ import annotations

import os

SCALE = float(os.environ.get("PORTAL_TEST_SCALE", "1"))


def scaled(count: int) -> int:
    """A count of a test, times PORTAL_TEST_SCALE (`make soak` sets 10)."""
    return max(1, int(count * SCALE))
