"""Turns of requests that hash a password: one at a time in all workers, so that wrong passwords leave them free for others (S7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PATHS = {"/login/", "/password/"}
# After each the next one waits as many times as long as it took: sign-ins get a quarter of one worker at most.
PAUSE = 3
PAUSE_SECONDS = 2.0


class Turns:
    """The turn of sign-ins; all other requests go at once. Those who wait hold no worker."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn_of(self, method: bytes, path: str) -> AsyncIterator[None]:
        """Holds the turn that a request needs for the length of the block."""
        if method != b"POST" or path not in PATHS:
            yield
            return
        await self._lock.acquire()
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            loop.call_later(min(PAUSE * (loop.time() - began), PAUSE_SECONDS), self._lock.release)
