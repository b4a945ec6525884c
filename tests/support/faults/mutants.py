"""Bugs that the workers of a fork_server may have, by their names in TEST_MUTANT: a gate that does not notice them proves nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db.backends.utils import CursorWrapper

from embeddings.queue import claims, sql
from portal.resilience import circuit_breaker


def own_clock() -> None:
    """Leases and schedules by the clock of the worker instead of the database's."""
    execute = CursorWrapper.execute

    def rewritten(self: CursorWrapper, sql: Any, params: Any = None) -> Any:
        return execute(self, sql.replace("now()", f"'{datetime.now(UTC).isoformat()}'::timestamptz"), params)

    CursorWrapper.execute = rewritten


def no_heartbeat() -> None:
    claims.extend = lambda tasks: None


def everybody_tries() -> None:
    """Each process asks a provider in trouble, as if its circuit were its own."""
    circuit_breaker.acquire_trial = lambda model, purpose: True


def of_any_type() -> None:
    """Tasks that this process cannot do are claimed all the same, as if a queue were a list."""
    text = sql.text
    rule, no_rule = "task.entity_type = ANY(%(types)s)", "%(types)s::text[] IS NOT NULL"
    assert rule in text("claims.claim")
    sql.text = lambda *names: text(*names).replace(rule, no_rule)


MUTANTS = {mutant.__name__: mutant for mutant in (own_clock, no_heartbeat, everybody_tries, of_any_type)}
