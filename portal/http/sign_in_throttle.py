"""Bounds how often a password may be tried: by account, by address, and by both together (S7).

The counts stand in the cache, shared by all processes. An attempt is counted before its password is looked at, in one step for
all three, so that attempts at the same moment cannot pass a bound together; one that succeeds is taken back. Where the cache
does not answer nobody may try: guessing must not become free because a server is down.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import math
import unicodedata
from http import HTTPStatus
from typing import Any

import redis
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.http import HttpRequest

from portal.http.rate_limits import script
from portal.http.sign_ins import record_sign_in
from portal.tenancy.models import SignInOutcome

log = logging.getLogger(__name__)

WINDOW_SECONDS = 15 * 60
# Wrong passwords in a window. An address may be that of a whole office; an account's bound is wide enough that nobody locks
# a person out from a few addresses.
OF_BOTH, OF_ACCOUNT, OF_ADDRESS = 5, 50, 50
_IPV6_NETWORK = 64

# KEYS are counted unless one of them has reached its ARGV; the last ARGV is the window. Answers the milliseconds to wait.
_TRY = """
local wait = 0
for i, key in ipairs(KEYS) do
  if tonumber(redis.call('GET', key) or 0) >= tonumber(ARGV[i]) then wait = math.max(wait, redis.call('PTTL', key), 1) end
end
if wait > 0 then return wait end
for _, key in ipairs(KEYS) do
  if redis.call('INCR', key) == 1 then redis.call('PEXPIRE', key, ARGV[#ARGV]) end
end
return 0
"""
# The first key, of account and address together, begins anew; the others lose this attempt.
_TAKE_BACK = """
redis.call('DEL', KEYS[1])
for i = 2, #KEYS do
  if tonumber(redis.call('GET', KEYS[i]) or 0) > 0 then redis.call('DECR', KEYS[i]) end
end
"""


class SignInRefused(Exception):
    """No password was looked at. The message is for the visitor; `retry_after` are the seconds to wait."""

    def __init__(self, message: str, *, status: int, retry_after: int) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class Attempt:
    """One try of a password. Making it counts it; raises SignInRefused where there were too many, or where none can be counted."""

    def __init__(self, username: str, request: HttpRequest | None) -> None:
        account = unicodedata.normalize("NFKC", username).casefold()
        address = client_network(request)
        parts = {(account, address): OF_BOTH, (account,): OF_ACCOUNT, ("", address): OF_ADDRESS}
        self._keys = [f"portal:sign-in:{_digest(part)}" for part in parts]
        wait: int = self._run(_TRY, *parts.values(), WINDOW_SECONDS * 1000)
        if wait:
            minutes = math.ceil(wait / 60_000)
            raise SignInRefused(
                f"There were too many wrong passwords. Try again in {minutes} minute{'s' if minutes > 1 else ''}.",
                status=429,
                retry_after=math.ceil(wait / 1000),
            )

    def succeeded(self) -> None:
        """The password was right: the attempt does not count."""
        self._run(_TAKE_BACK)

    def _run(self, source: str, *arguments: int) -> Any:
        try:
            return script(settings.CACHE_URL, source)(keys=self._keys, args=list(arguments))
        except redis.RedisError as error:
            log.exception("Nobody can sign in, because attempts cannot be counted.")
            raise SignInRefused(
                "Signing in is not possible just now, because attempts cannot be counted. Try again in a minute.",
                status=503,
                retry_after=60,
            ) from error


def begin_attempt(username: str, request: HttpRequest | None) -> Attempt:
    """An attempt that may go on. Raises SignInRefused; one of too many stands among the sign-ins."""
    try:
        return Attempt(username, request)
    except SignInRefused as refused:
        if refused.status == HTTPStatus.TOO_MANY_REQUESTS:
            record_sign_in(username, SignInOutcome.THROTTLED, request)
        raise


class ThrottledBackend(ModelBackend):
    """Django's accounts, with bounds on how often a password may be tried, wherever one is asked for."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        """Raises SignInRefused."""
        if username is None or password is None:
            return None
        attempt = begin_attempt(username, request)
        user = super().authenticate(request, username, password, **kwargs)
        if user is not None:
            attempt.succeeded()
        return user


def client_network(request: HttpRequest | None) -> str:
    """The address that a request comes from, of IPv6 its /64; "" if unknown."""
    text = request.META.get("REMOTE_ADDR", "") if request else ""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _IPV6_NETWORK), strict=False))
    return str(address)


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
