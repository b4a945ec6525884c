"""What statistics say of a tool, as numbers between 0 and 1: pure functions, with a prior where nothing is known."""

from __future__ import annotations

PRIOR = 0.5
"""Quality and recency of a tool that was never called: neither better nor worse than the others (SRC-3)."""
HALF_LIFE_DAYS = 7


def quality(calls: int, measured: float | None) -> float:
    """The measured quality, or the prior for a tool without calls or without a judgement."""
    return PRIOR if not calls or measured is None else measured


def recency(calls: int, days_since_success: float | None) -> float:
    """1 for a tool whose last successful call is of now, half of it a week later; 0 for one that was called and never succeeded."""
    if not calls:
        return PRIOR
    return 0.0 if days_since_success is None else 2.0 ** (-max(days_since_success, 0.0) / HALF_LIFE_DAYS)
