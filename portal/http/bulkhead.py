"""A bulkhead: requests that wait for other servers, or parse documents, may not take the last worker of the web.

Each of gunicorn's workers answers one request at a time. A place in the bulkhead is a lock of one byte of a file that is
opened before the workers are forked, so that the kernel frees the places of a process however it ends.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

RETRY_SECONDS = 5
with tempfile.TemporaryFile() as _file:
    _FILE = os.dup(_file.fileno())  # open as long as the process lives


class TooBusy(Exception):
    """All places are taken. The message is for the caller."""

    def __init__(self) -> None:
        super().__init__(
            "Other imports are being read just now. Nothing was done; try again in a few seconds."
        )


@contextmanager
def bulkhead() -> Iterator[None]:
    """Holds one of the places for the length of the block. Raises TooBusy, without waiting for one."""
    place = _lock_place()
    try:
        yield
    finally:
        fcntl.lockf(_FILE, fcntl.LOCK_UN, 1, place)


def _lock_place() -> int:
    for place in range(max(1, settings.WEB_CONCURRENCY - 1)):
        try:
            fcntl.lockf(_FILE, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            continue
        return place
    raise TooBusy
