"""Polling intervals: a fragment carries the count of its polls in its URL."""

from __future__ import annotations

from django.http import HttpRequest

from tools.web.shell.forms import number

_QUICK, _STEADY = 15, 24


def poll_count(request: HttpRequest) -> int:
    """The number of polls before this request; 0 for a page."""
    return min(number(request.GET.get("n", "")), 10_000)


def poll_seconds(count: int) -> int:
    """The seconds until the next poll: 2 for half a minute, 5 for two more minutes, then 15."""
    if count < _QUICK:
        return 2
    return 5 if count < _QUICK + _STEADY else 15
