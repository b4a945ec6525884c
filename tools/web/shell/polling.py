"""How often a waiting fragment asks again: the count of its polls travels in its own URL (UI.md 3.0)."""

from __future__ import annotations

from django.http import HttpRequest

_QUICK, _STEADY = 15, 24


def poll_count(request: HttpRequest) -> int:
    """How many polls came before this request; 0 for a page."""
    given = request.GET.get("n", "")
    return min(int(given), 10_000) if given.isascii() and given.isdigit() and len(given) < 6 else 0


def poll_seconds(count: int) -> int:
    """Every 2 s for half a minute, every 5 s for two more, then every 15 s."""
    if count < _QUICK:
        return 2
    return 5 if count < _QUICK + _STEADY else 15
