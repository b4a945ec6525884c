"""Circuit breakers of outside services, shared by all processes: whether a service is worth calling (EMB-5, R5).

A circuit is known by its `name` and a `purpose`; an embedding provider has one by its model for the catalogue's texts
(`passage`) and one for the searches' questions (`query`). Its states:

    closed --record_failure (EMBEDDING_CIRCUIT_ERRORS of them, or one that leaves no doubt)--> open
    open --acquire_trial (after `next_try`; one process gets it, `next_try` moves on)--> half open
    half open --record_success--> closed        half open --record_failure--> open

So an open circuit costs one call in EMBEDDING_CIRCUIT_SECONDS, however many processes there are and whichever of them dies.

The state stands in the database, which is up wherever there is work at all; the broker may be down with the service. It
outlives a restart, so a restart does not call a service that sent a Retry-After. A closed circuit without errors has no row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.conf import settings
from django.db import connection

from portal.error_text import shorten
from portal.resilience.models import Circuit
from portal.service_error import ServiceError

Result = TypeVar("Result")

# models.Circuit: the column `model` holds the name of the circuit.
_RECORD_FAILURE = """
    INSERT INTO embeddings_embeddingcircuit AS c (model, purpose, errors, next_try, reason)
    VALUES (%(name)s, %(purpose)s, 1,
        CASE WHEN %(opens)s OR %(limit)s <= 1 THEN now() + make_interval(secs => %(pause)s) END, %(reason)s)
    ON CONFLICT (model, purpose) DO UPDATE SET
        errors = c.errors + 1, reason = excluded.reason,
        next_try = CASE
            WHEN %(has_retry_after)s THEN now() + make_interval(secs => %(pause)s)
            -- A later error of another process must not shorten the pause that the service asked for.
            WHEN %(opens)s OR c.next_try IS NOT NULL OR c.errors + 1 >= %(limit)s
                THEN GREATEST(c.next_try, now() + make_interval(secs => %(pause)s)) END
    RETURNING next_try IS NOT NULL
"""


class CircuitOpen(Exception):
    """The service is not called, since it failed before."""


def open_circuits() -> list[Circuit]:
    """All open circuits, by name and purpose."""
    return list(Circuit.objects.exclude(next_try=None).order_by("name", "purpose"))


def record_failure(name: str, purpose: str, error: ServiceError, *, at_once: bool = False) -> bool:
    """Counts an error; returns whether the circuit is open now. A Retry-After, a lasting error or `at_once` opens it without
    counting. A failed trial leaves it open."""
    with connection.cursor() as cursor:
        cursor.execute(
            _RECORD_FAILURE,
            {
                "name": name,
                "purpose": purpose,
                "has_retry_after": error.retry_after is not None,
                "opens": at_once or error.lasting or error.retry_after is not None,
                "limit": settings.EMBEDDING_CIRCUIT_ERRORS,
                "pause": error.retry_after or settings.EMBEDDING_CIRCUIT_SECONDS,
                "reason": shorten(error.public),
            },
        )
        return bool(cursor.fetchone()[0])


def record_success(name: str, purpose: str) -> None:
    """Closes the circuit and deletes its errors."""
    Circuit.objects.filter(name=name, purpose=purpose).delete()


def call(name: str, purpose: str, service: Callable[[], Result], *, slow_seconds: float) -> Result:
    """Calls the service unless its circuit is open, and records how it went. A failure that took `slow_seconds` opens the circuit at
    once, since somebody waits for each (R11). Raises CircuitOpen, and what the service raises."""
    waits = seconds_until_trial(purpose)
    wait = waits.get(name)
    if wait is not None and (wait > 0 or not acquire_trial(name, purpose)):
        raise CircuitOpen(f"the circuit of {name} ({purpose}) is open")
    started = time.monotonic()
    try:
        result = service()
    except ServiceError as error:
        if not error.permanent:
            record_failure(name, purpose, error, at_once=time.monotonic() - started >= slow_seconds)
        raise
    if name in waits:
        record_success(name, purpose)
    return result


def seconds_until_trial(purpose: str) -> dict[str, float | None]:
    """The circuits with errors by name, each with the seconds until its next trial; None while it is closed."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT model, extract(epoch FROM next_try - now())::float8 FROM embeddings_embeddingcircuit WHERE purpose = %s
            """,
            [purpose],
        )
        return dict(cursor.fetchall())


def acquire_trial(name: str, purpose: str) -> bool:
    """Whether the caller may make the trial call of an open circuit; no other process may for EMBEDDING_CIRCUIT_SECONDS."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE embeddings_embeddingcircuit SET next_try = now() + make_interval(secs => %s)
            WHERE model = %s AND purpose = %s AND next_try <= now()
            """,
            [settings.EMBEDDING_CIRCUIT_SECONDS, name, purpose],
        )
        return bool(cursor.rowcount)


def close_all(*, keep: Sequence[str] = ()) -> None:
    """Closes every circuit except those of the names in `keep`."""
    Circuit.objects.exclude(name__in=keep).delete()
