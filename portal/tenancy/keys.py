"""API keys: how one is made, read and found again.

A key is `tp_` + 43 base62 characters (256 random bits) + 6 of CRC-32, so that a mistyped key is refused without asking
the database and a secret scanner can be exact (the pattern that GitHub's tokens follow).
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from portal.tenancy.context import current_tenant
from portal.tenancy.models import ApiKey, Sensitivity

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PREFIX = "tp_"

DEFAULT_LIFETIME, MAX_LIFETIME = timedelta(days=90), timedelta(days=365)
MAX_OVERLAP = timedelta(hours=24)
"""How long the old secret of a rotated key works beside the new one, at most."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, by which key: what authentication learns before a tenant is known."""

    key_id: UUID
    key_name: str
    tenant_id: UUID
    scopes: frozenset[str]
    max_sensitivity: str
    requests_per_minute: int | None
    use_is_stale: bool  # last_used_at is older than a minute


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), 6)


def generate() -> str:
    """A new secret key."""
    body = _base62(secrets.randbits(256), 43)
    return f"{_PREFIX}{body}{_checksum(body)}"


def well_formed(key: str) -> bool:
    """Whether `key` has the shape and checksum of a key of ours."""
    body, checksum = key[len(_PREFIX) : -6], key[-6:]
    return key.startswith(_PREFIX) and len(body) == 43 and key.isascii() and _checksum(body) == checksum


def digest(key: str) -> bytes:
    """SHA-256; a plain hash is enough for 256 random bits."""
    return hashlib.sha256(key.encode()).digest()


def create_api_key(
    *,
    name: str,
    scopes: Iterable[str],
    max_sensitivity: str = Sensitivity.RESTRICTED,
    expires_in: timedelta = DEFAULT_LIFETIME,
    requests_per_minute: int | None = None,
) -> tuple[ApiKey, str]:
    """Stores a new key in the current tenant; returns the row and the secret, which is not kept.

    Raises ValidationError for a name, scope, sensitivity, rate or lifetime that there cannot be, and for a name that is taken.
    """
    secret = generate()
    expires_at = _expiry(expires_in)
    row = ApiKey(
        tenant_id=current_tenant(),
        name=name,
        prefix=secret[:8],
        digest=digest(secret),
        scopes=sorted(set(scopes)),
        max_sensitivity=max_sensitivity,
        expires_at=expires_at,
        requests_per_minute=requests_per_minute,
    )
    row.full_clean()
    row.save(force_insert=True)
    return row, secret


def rotate_api_key(
    *, name: str, expires_in: timedelta = DEFAULT_LIFETIME, overlap: timedelta = MAX_OVERLAP
) -> tuple[ApiKey, str]:
    """Gives a key of the current tenant a new secret, which expires anew; returns the row and the secret, which is not kept.

    The key stays the same one: its scopes, its rate, its history and its answers to an `Idempotency-Key`. Its old secret works
    for `overlap` more, but never longer than it would have. Raises ApiKey.DoesNotExist, and ValidationError for a key that was
    revoked and for a lifetime or an overlap that there cannot be.
    """
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        raise ValidationError(
            f"The old secret may work for {MAX_OVERLAP // timedelta(hours=1)} more hours at most."
        )
    expires_at = _expiry(expires_in)
    secret = generate()
    with transaction.atomic():
        row = ApiKey.objects.select_for_update(no_key=True).get(name=name)
        if row.revoked_at is not None:
            raise ValidationError("This key was revoked. Create a new one.")
        row.previous_digest, row.previous_expires_at = (
            row.digest,
            min(row.expires_at, timezone.now() + overlap),
        )
        row.digest, row.prefix, row.expires_at = digest(secret), secret[:8], expires_at
        row.save(update_fields=["digest", "prefix", "expires_at", "previous_digest", "previous_expires_at"])
    return row, secret


def revoke_api_key(*, name: str) -> ApiKey:
    """Ends a key of the current tenant with both of its secrets, for ever: each request asks the database, so from its commit on. A
    key that was revoked stays as it is. Raises ApiKey.DoesNotExist."""
    with transaction.atomic():
        row = ApiKey.objects.select_for_update(no_key=True).get(name=name)
        if row.revoked_at is None:
            row.revoked_at = timezone.now()
            row.save(update_fields=["revoked_at"])
    return row


def _expiry(lifetime: timedelta) -> datetime:
    if lifetime > MAX_LIFETIME:
        raise ValidationError(f"A key expires after {MAX_LIFETIME.days} days at most.")
    return timezone.now() + lifetime


def find_caller(key: str) -> Caller | None:
    """The caller of a live key, or None for one that is malformed, unknown, expired or revoked: no telling which."""
    if not well_formed(key):
        return None
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM portal_find_key(%s)", [digest(key)])
        row = cursor.fetchone()
    if row is None:
        return None
    key_id, name, tenant_id, scopes, *rest = row
    return Caller(key_id, name, tenant_id, frozenset(scopes), *rest)


def note_use(caller: Caller) -> None:
    """Records that the key is in use, at most once a minute, inside the caller's tenant_context.

    Of concurrent requests one writes and none waits, since an edit of the key must not delay its use.
    """
    stale = Q(last_used_at=None) | Q(last_used_at__lt=Now() - timedelta(minutes=1))
    free = ApiKey.objects.filter(stale, pk=caller.key_id).select_for_update(skip_locked=True, no_key=True)
    ApiKey.objects.filter(pk__in=free.values("pk")).update(last_used_at=Now())
