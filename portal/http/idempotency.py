"""POSTs that may be sent twice and take effect once: `Idempotency-Key`.

The answer is stored in the transaction of the effect, so a crash leaves neither. That transaction holds an advisory lock,
which PostgreSQL releases with it, so no claim can be left behind. Only successes are stored: a refusal had no effect, and
"busy" would be a wrong answer for the next 24 hours.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from django.db import connection, transaction
from django.db.models.functions import Now
from rest_framework.exceptions import ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.http.problems import Problem
from portal.tenancy.context import tenant_context, tenant_ids
from portal.tenancy.keys import Caller
from portal.tenancy.models import IDEMPOTENCY_KEY_LENGTH, IdempotencyKey

HEADER = "Idempotency-Key"
RETENTION = timedelta(hours=24)
# The headers that are stored with an answer.
_HEADERS = ("Location", "ETag", "Retry-After")

Handler = Callable[..., Response]


def idempotent(handler: Handler) -> Handler:
    """A view's `post`: with an `Idempotency-Key` it runs once per key of the API, address and body within 24 hours."""

    @functools.wraps(handler)
    def post(view: APIView, request: Request, *args: object, **kwargs: object) -> Response:
        given = request.headers.get(HEADER)
        if given is None:
            return handler(view, request, *args, **kwargs)
        key = given.strip()
        if not (key.isascii() and key.isprintable() and 0 < len(key) <= IDEMPOTENCY_KEY_LENGTH):
            sentence = f"1 to {IDEMPOTENCY_KEY_LENGTH} printable ASCII characters, please."
            raise ValidationError({HEADER: sentence})
        return _once(view, request, key, lambda: handler(view, request, *args, **kwargs))

    return marked_idempotent(post)


def marked_idempotent(handler: Handler) -> Handler:
    """Marks a view's method that takes an `Idempotency-Key`, itself or in a method that it calls."""
    vars(handler)["idempotent"] = True
    return handler


def _once(view: APIView, request: Request, key: str, run: Callable[[], Response]) -> Response:
    caller = cast(Caller, request.auth)
    # With its rights, since a key that may see less than it did is not to be told again what it was told then.
    rights = f"{caller.max_sensitivity} {' '.join(sorted(caller.scopes))}"
    target = hashlib.sha256(f"{request.method} {request.get_full_path()} {rights}".encode()).digest()
    body = _digest(request.data)  # before the lock, as the upload may be slow
    with tenant_context(caller.tenant_id):
        _lock(caller, target, key)
        same = IdempotencyKey.objects.filter(api_key_id=caller.key_id, target_digest=target, key=key)
        same.filter(created_at__lte=Now() - RETENTION).delete()
        if stored := same.first():
            if bytes(stored.body_digest) != body:
                raise Problem(
                    422,
                    f"This {HEADER} belongs to a request with another body.",
                    code="idempotency_mismatch",
                )
            return Response(
                json.loads(stored.body),
                status=stored.status,
                headers={**stored.headers, "Idempotency-Replayed": "true"},
            )
        try:
            with transaction.atomic():
                response = run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the view says what it answers; the block above undid it
            response = view.handle_exception(error)
        if 200 <= response.status_code < 300:
            IdempotencyKey.objects.create(
                api_key_id=caller.key_id,
                target_digest=target,
                key=key,
                body_digest=body,
                status=response.status_code,
                headers={name: response[name] for name in _HEADERS if name in response},
                body=JSONRenderer().render(response.data).decode(),
            )
        return response


def _lock(caller: Caller, target: bytes, key: str) -> None:
    name = f"{caller.key_id} {target.hex()} {key}"
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [number])
        if not cursor.fetchone()[0]:
            raise Problem(
                409,
                f"The first request with this {HEADER} is still running.",
                code="already_running",
                headers={"Retry-After": "1"},
            )


def _digest(data: Any) -> bytes:
    """Of what the body says, not of its bytes: a form has another boundary each time it is sent."""
    digest = hashlib.sha256()
    if hasattr(data, "lists"):
        for name, values in sorted(data.lists()):
            for value in values:
                digest.update(json.dumps(name).encode())
                if hasattr(value, "chunks"):
                    inner = hashlib.sha256()
                    for chunk in value.chunks():
                        inner.update(chunk)
                    value.seek(0)
                    digest.update(json.dumps([value.name, inner.hexdigest()]).encode())
                else:
                    digest.update(json.dumps(value).encode())
    else:
        digest.update(json.dumps(data, sort_keys=True).encode())
    return digest.digest()


def prune_idempotency_keys() -> int:
    """Deletes what is older than 24 hours in every tenant, as the worker, who alone sees them all; returns how many."""
    pruned = 0
    for tenant_id in tenant_ids():
        with tenant_context(tenant_id):
            pruned += IdempotencyKey.objects.filter(created_at__lte=Now() - RETENTION).delete()[0]
    return pruned
