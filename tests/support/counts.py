"""How often tests repeat what they do: a tenth in the quick suite, all of it in the long one, ten times that in `make soak`."""

from __future__ import annotations

import os

import pytest

SCALE = float(os.environ.get("PORTAL_TEST_SCALE", "1"))
SOAK = SCALE >= 10
"""Whether figures in milliseconds are asserted, too: they are those of a machine that does nothing else."""


def scaled(count: float) -> int:
    """The count times PORTAL_TEST_SCALE, at least 1."""
    return max(1, int(count * SCALE))


def share_of_full_count(*marks: pytest.MarkDecorator) -> pytest.MarkDecorator:
    """Runs a test twice: with `share` 0.1 in the quick suite and with `share` 1 in the long one, there with these marks."""
    full = pytest.param(1, id="full", marks=[pytest.mark.slow, *marks])
    return pytest.mark.parametrize("share", [pytest.param(0.1, id="tenth"), full])
