"""Bugs in the statements of the queue: a test that does not notice them proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from django.db.backends.utils import CursorWrapper


@contextmanager
def mutant(old: str, new: str) -> Iterator[None]:
    """The product with a bug: `old` becomes `new` in every statement. It is an error if no statement holds `old`."""
    execute = CursorWrapper.execute
    applied = 0

    def rewritten(self: CursorWrapper, sql: Any, params: Any = None) -> Any:
        nonlocal applied
        applied += old in sql
        return execute(self, sql.replace(old, new), params)

    try:
        with mock.patch.object(CursorWrapper, "execute", rewritten):
            yield
    finally:
        if not applied:
            # No AssertionError, which is what tests of mutants expect.
            raise LookupError(f"no statement holds {old!r}: the mutant is none")


# The bugs that the scenarios of tests/concurrency must notice (RELIABILITY rules 2 to 4 and 40).
NO_FENCE = (" AND t.claim_id = r.claim_id", "")
NO_COMPARE_AND_SET = (" AND e.source_hash = r.source_hash", "")
DO_NOTHING = (
    """DO UPDATE SET
    source_hash = excluded.source_hash, source_version = excluded.source_version,
    status = 'pending', attempts = 0, claim_id = NULL, last_error = '', job_id = NULL,
    next_attempt_at = excluded.next_attempt_at, wanted_at = excluded.wanted_at,
    priority = CASE t.status WHEN 'failed' THEN excluded.priority ELSE LEAST(t.priority, excluded.priority) END""",
    "DO NOTHING",
)
