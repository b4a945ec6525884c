"""What all processes remember of searches, in CACHE_URL. It is kept for each audience apart, because what is remembered comes sooner,
and that would tell whoever measures the time what others have asked (S4)."""

from __future__ import annotations

import hashlib
import json
import logging

from django.core.cache import cache  # noqa: TID251 - keyed by the audience
from redis.exceptions import RedisError

from portal.tenancy.rights import Audience

log = logging.getLogger(__name__)


def key_of(audience: Audience, what: str, parts: object) -> str:
    """The key of `what` for this audience, by all parts that it depends on."""
    tenant, scopes, sensitivity, member = audience
    asked = json.dumps(
        [str(tenant), sorted(scopes), sensitivity, member, parts], ensure_ascii=False, default=str
    )
    return f"{what}:{hashlib.sha256(asked.encode()).hexdigest()}"


def remembered(key: str) -> object:
    """What was stored under the key; None if nothing is, or the cache does not answer."""
    try:
        found: object = cache.get(key)
    except (RedisError, OSError) as error:
        log.warning("The cache of searches cannot be read: %s", error)
        return None
    return found


def remember(key: str, value: object, *, seconds: int) -> None:
    """Stores the value if the cache answers."""
    try:
        cache.set(key, value, seconds)
    except (RedisError, OSError) as error:
        log.warning("The cache of searches cannot be written: %s", error)
