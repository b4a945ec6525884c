"""How many requests a key has per minute, counted in the cache and shared by all processes.

A window is fixed: it begins with a key's first request and lasts a minute, so around the end of one a key may have
twice its rate. A key without a rate is not counted at all. Only requests that the key may make are counted.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from portal.tenancy.keys import Caller

log = logging.getLogger(__name__)

WINDOW_SECONDS = 60
TIMEOUT_SECONDS = 1
# One step, so that requests at the same moment cannot all read the count before any of them adds to it.
_COUNT = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {count, redis.call('PTTL', KEYS[1])}
"""


class Counter:
    """Counts requests in the server. If it does not answer in time, counting pauses, and no request is refused."""

    PAUSE_SECONDS = 30

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed_until = 0.0

    def count(self, key_id: UUID) -> tuple[int, float] | None:
        """The requests of this key in its window, this one included, and the window's remaining seconds; None: unknown."""
        if time.monotonic() < self._closed_until:
            return None
        try:
            count, left = script(settings.CACHE_URL, _COUNT)(
                keys=[f"portal:rate:{key_id}"], args=[WINDOW_SECONDS * 1000]
            )
        except redis.RedisError as error:
            self._give_up(error)
            return None
        return count, max(left, 0) / 1000

    def _give_up(self, error: Exception) -> None:
        with self._lock:
            now = time.monotonic()
            if now >= self._closed_until:
                log.warning("Rates are not counted for %s s: %s", self.PAUSE_SECONDS, error)
            self._closed_until = now + self.PAUSE_SECONDS


@functools.lru_cache
def script(url: str, source: str) -> Any:
    """A script in Lua that runs in the cache's server at this URL, which has a second to answer."""
    client = redis.Redis.from_url(
        url,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
    return client.register_script(source)


counter = Counter()


@dataclass(frozen=True, slots=True)
class Rate:
    """The state of a key's window after a request: `counted` requests of `limit`; the window ends in `seconds`."""

    limit: int
    counted: int
    seconds: float

    @property
    def exceeded(self) -> bool:
        return self.counted > self.limit

    @property
    def retry_after(self) -> int:
        """Seconds to wait, at least one."""
        return math.ceil(max(self.seconds, 1))

    @property
    def headers(self) -> dict[str, str]:
        """draft-ietf-httpapi-ratelimit-headers-11, and the older form that most clients know."""
        remaining, reset = max(self.limit - self.counted, 0), math.ceil(self.seconds)
        return {
            "RateLimit-Policy": f'"key";q={self.limit};w={WINDOW_SECONDS}',
            "RateLimit": f'"key";r={remaining};t={reset}',
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(remaining),
            "X-RateLimit-Reset": str(reset),
        }


def take_from_rate(caller: Caller) -> Rate | None:
    """Counts one request of this key. None for a key without a rate, and where counting is not possible."""
    if caller.requests_per_minute is None:
        return None
    counted = counter.count(caller.key_id)
    return Rate(caller.requests_per_minute, *counted) if counted else None


class KeyRate(BaseThrottle):
    """Every view's throttle: the rate of the key that asks. Leaves headers for ApiProblemMiddleware to send."""

    def __init__(self) -> None:
        self._rate: Rate | None = None

    def allow_request(self, request: Request, view: object) -> bool:
        self._rate = take_from_rate(request.auth) if isinstance(request.auth, Caller) else None
        if self._rate is not None:
            vars(request._request)["rate_headers"] = self._rate.headers  # noqa: SLF001 - the middleware sees Django's request
        return self._rate is None or not self._rate.exceeded

    def wait(self) -> float:
        return self._rate.retry_after if self._rate else 1
