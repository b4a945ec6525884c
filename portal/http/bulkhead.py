"""A bulkhead: requests that wait for other servers, or parse documents, may not take the last worker of the web; and no tenant
keeps its places from a neighbour (SEC-5).

A worker answers one request at a time, so nobody can wait for a place here: a request that finds none is refused, and its
tenant's turn is kept for TURN_SECONDS. Until then no tenant that asked later gets a place. Where there are several places, a
tenant that holds one does not get the last free one.

A place is a lock of one byte of a file that is opened before the workers are forked, so that the kernel frees the places of a
process however it ends. The file also holds the tenant of each place, and the turns.
"""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.conf import settings

RETRY_SECONDS = 5
TURN_SECONDS = 3 * RETRY_SECONDS
"""How long a tenant's turn is kept after its last request."""
MOST_TURNS = 200
_GUARD_AT = 1 << 20  # a byte behind those of all places
_TENANTS_AT, _TURNS_AT = 0, 1 << 16
_TURN = struct.Struct("=16sd")  # a tenant, and when it asked last by the clock that all processes share
with tempfile.TemporaryFile() as _file:
    _FILE = os.dup(_file.fileno())  # open as long as the process lives
# The kernel's locks are of the process; these two are of its threads.
_thread_lock = threading.Lock()
_places_of_this_process: set[int] = set()


class TooBusy(Exception):
    """There is no place for this tenant now. The message is for the caller."""

    def __init__(self, *, own: bool = False) -> None:
        super().__init__(
            "Another import of yours is being read just now. Nothing was done; try again when it has ended."
            if own
            else "Other imports are being read just now. Nothing was done; try again in a few seconds. "
            f"Your turn is kept for {TURN_SECONDS} seconds."
        )


@contextmanager
def bulkhead(tenant_id: UUID) -> Iterator[None]:
    """Holds one of the places for this tenant for the length of the block. Raises TooBusy, without waiting for one."""
    with _guard():
        place = _take_place(tenant_id)
    try:
        yield
    finally:
        with _thread_lock:
            _places_of_this_process.discard(place)
            fcntl.lockf(_FILE, fcntl.LOCK_UN, 1, place)


@contextmanager
def _guard() -> Iterator[None]:
    """Only one thread of all processes is in this block, for microseconds."""
    with _thread_lock:
        fcntl.lockf(_FILE, fcntl.LOCK_EX, 1, _GUARD_AT)
        try:
            yield
        finally:
            fcntl.lockf(_FILE, fcntl.LOCK_UN, 1, _GUARD_AT)


def _take_place(tenant_id: UUID) -> int:
    places = range(max(1, settings.WEB_CONCURRENCY - 1))
    free = [place for place in places if _is_free(place)]
    holds_one = tenant_id in {_tenant_at(place) for place in places if place not in free}
    if holds_one and len(places) > 1 and len(free) <= 1:
        raise TooBusy(own=True)
    turns = _read_turns()
    before = list(turns).index(tenant_id) if tenant_id in turns else len(turns)
    if len(free) <= before:
        if len(turns) < MOST_TURNS or tenant_id in turns:
            _write_turns({**turns, tenant_id: time.monotonic()})
        raise TooBusy
    fcntl.lockf(_FILE, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, free[0])
    _places_of_this_process.add(free[0])
    os.pwrite(_FILE, tenant_id.bytes, _TENANTS_AT + 16 * free[0])
    _write_turns({tenant: asked for tenant, asked in turns.items() if tenant != tenant_id})
    return free[0]


def _is_free(place: int) -> bool:
    if place in _places_of_this_process:
        return False
    try:
        fcntl.lockf(_FILE, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except OSError:
        return False
    fcntl.lockf(_FILE, fcntl.LOCK_UN, 1, place)
    return True


def _tenant_at(place: int) -> UUID:
    return UUID(bytes=os.pread(_FILE, 16, _TENANTS_AT + 16 * place))


def _read_turns() -> dict[UUID, float]:
    """The tenants that were refused, in the order of their turns, each with the time of its last request."""
    alive = time.monotonic() - TURN_SECONDS
    stored = os.pread(_FILE, MOST_TURNS * _TURN.size, _TURNS_AT)
    return {UUID(bytes=tenant): asked for tenant, asked in _TURN.iter_unpack(stored) if asked > alive}


def _write_turns(turns: dict[UUID, float]) -> None:
    written = b"".join(_TURN.pack(tenant.bytes, asked) for tenant, asked in turns.items())
    os.pwrite(_FILE, written.ljust(MOST_TURNS * _TURN.size, b"\0"), _TURNS_AT)
