"""Whether an embedding provider is worth asking: a circuit of each model and purpose, shared by all processes (EMB-5, R5).

Closed, errors of the provider as a whole are counted. After `EMBEDDING_CIRCUIT_ERRORS` of them, or at one that leaves no
doubt, it opens: nobody calls until `next_try`. Then one process takes the try by moving `next_try` on, so that there is one
call in `EMBEDDING_CIRCUIT_SECONDS` however many processes there are and whichever of them dies; its success closes the
circuit.

The state stands in the database, which is up wherever there is work at all; the broker may be down with the provider. It
outlives a restart, so that starting again is no way to ask a provider that said when to come back. A closed circuit without
errors has no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection

from embeddings.providers import Kind, ProviderError

REASON_LENGTH = 500


@dataclass(frozen=True, slots=True)
class OpenCircuit:
    """An open circuit: since when the provider fails, when it is tried next, and what it said last. `purpose` tells the
    catalogue's texts from the searches' questions."""

    model: str
    purpose: Kind
    since: datetime
    next_try: datetime
    reason: str


def open_circuits() -> list[OpenCircuit]:
    """The open circuits, for those who watch. None is the usual answer."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT model, purpose, since, next_try, reason FROM embeddings_embeddingcircuit
            WHERE next_try IS NOT NULL ORDER BY model, purpose
            """
        )
        return [OpenCircuit(*row) for row in cursor.fetchall()]


def record_failure(model: str, purpose: Kind, error: ProviderError, *, at_once: bool = False) -> bool:
    """Counts an error of the provider as a whole; returns whether the circuit is open now. A Retry-After, a refusal or
    `at_once` opens it without counting, and a failed try leaves it open."""
    pause = error.retry_after or settings.EMBEDDING_CIRCUIT_SECONDS
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO embeddings_embeddingcircuit AS c (model, purpose, errors, next_try, reason)
            VALUES (%(model)s, %(purpose)s, 1, CASE WHEN %(opens)s OR %(limit)s <= 1 THEN %(pause)s END + now(), %(reason)s)
            ON CONFLICT (model, purpose) DO UPDATE SET
                errors = c.errors + 1, reason = excluded.reason,
                next_try = CASE
                    WHEN %(asked)s THEN now() + %(pause)s
                    -- Somebody's later error must not shorten the pause that the provider asked for.
                    WHEN %(opens)s OR c.next_try IS NOT NULL OR c.errors + 1 >= %(limit)s
                        THEN GREATEST(c.next_try, now() + %(pause)s) END
            RETURNING next_try IS NOT NULL
            """.replace("%(pause)s", "make_interval(secs => %(pause)s)"),
            {
                "model": model,
                "purpose": purpose,
                "asked": error.retry_after is not None,
                "opens": at_once or error.lasting or error.retry_after is not None,
                "limit": settings.EMBEDDING_CIRCUIT_ERRORS,
                "pause": pause,
                "reason": str(error)[:REASON_LENGTH],
            },
        )
        return bool(cursor.fetchone()[0])


def record_success(model: str, purpose: Kind) -> None:
    """Closes the circuit, and forgets its errors."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM embeddings_embeddingcircuit WHERE model = %s AND purpose = %s", [model, purpose]
        )


def seconds_until_trial(purpose: Kind) -> dict[str, float | None]:
    """The models with errors, each with the seconds until it is tried next; None while its circuit is closed."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT model, extract(epoch FROM next_try - now())::float8 FROM embeddings_embeddingcircuit WHERE purpose = %s
            """,
            [purpose],
        )
        return dict(cursor.fetchall())


def acquire_trial(model: str, purpose: Kind) -> bool:
    """Whether the caller is the one who tries an open circuit now; nobody else is for the next EMBEDDING_CIRCUIT_SECONDS."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE embeddings_embeddingcircuit SET next_try = now() + make_interval(secs => %s)
            WHERE model = %s AND purpose = %s AND next_try <= now()
            """,
            [settings.EMBEDDING_CIRCUIT_SECONDS, model, purpose],
        )
        return bool(cursor.rowcount)


def close_all(*, keep: Sequence[str] = ()) -> None:
    """Closes all circuits but those of these models: of models without a slot, or reached in another way than before."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM embeddings_embeddingcircuit WHERE NOT model = ANY(%s)", [list(keep)])
