"""Requests that wait for strangers, or read their documents, take turns, so that one worker of the web is always left for
everything else.

Each of gunicorn's workers answers one request at a time. The turns are locks of places in a file that is opened before the
workers are forked: what a process holds ends with it, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

WORKERS = int(os.environ.get("WEB_CONCURRENCY") or max(2, len(os.sched_getaffinity(0))))
"""Processes of the web; where there is only one, it takes every turn."""
RETRY_SECONDS = 5
with tempfile.TemporaryFile() as _file:
    _FILE = os.dup(_file.fileno())  # open as long as the process lives


class NoTurn(Exception):
    """All turns are taken. Its text is for who asked."""

    def __init__(self) -> None:
        super().__init__(
            "Other imports are being read just now. Nothing was done; try again in a few seconds."
        )


@contextmanager
def turn() -> Iterator[None]:
    """One of the turns for the length of the block. Raises NoTurn, without waiting for one."""
    place = _take()
    try:
        yield
    finally:
        fcntl.lockf(_FILE, fcntl.LOCK_UN, 1, place)


def _take() -> int:
    for place in range(max(1, WORKERS - 1)):
        try:
            fcntl.lockf(_FILE, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            continue
        return place
    raise NoTurn
