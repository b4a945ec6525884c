"""Where the tests of backfills begin: tools in some state, and a job that got so far."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from portal.jobs.context import Context
from portal.jobs.models import Job
from tests.support.embeddings.pipeline import Pipeline
from tests.support.jobs.harness import JobHarness


def ready_tools(pipeline: Pipeline, count: int) -> list[uuid.UUID]:
    """Tools with their vectors, in the order in which a scan meets them."""
    pks = sorted(pipeline.add(f"Text {number}.") for number in range(count))
    pipeline.work()
    return pks


def poisoned(
    harness: JobHarness, pipeline: Pipeline, use: Callable[..., Any]
) -> tuple[uuid.UUID, list[uuid.UUID]]:
    """A job that ended with one failure of three."""
    pks = [pipeline.add("Good."), pipeline.add("Good too."), pipeline.add("A permanent poison.")]
    pipeline.owner.execute("TRUNCATE tools_toolembedding, embeddings_embeddingtask")
    use("PoisonEmbedder")
    pk = harness.start()
    assert harness.finish(pk) == "partial"
    return pk, pks


def queued_by(harness: JobHarness, pipeline: Pipeline, **resting: Sequence[uuid.UUID]) -> uuid.UUID:
    """A job that has queued all and been given back, with nobody embedding."""
    for status, pks in resting.items():
        harness.make(status, *pks)
    pk = harness.start(batch_size=2)
    harness.run_until_queued()
    return pk


def once_committed(look: Callable[[Context], None]) -> Callable[[Context], None]:
    def on_progress(context: Context) -> None:
        # The row is the runner's until its transaction ends.
        from django.db import transaction

        transaction.on_commit(lambda: look(context))

    return on_progress


CLAIMED = {"running", "cancelling"}


def put(harness: JobHarness, state: str, **columns: Any) -> Job:
    """A begun job in this state, with a failure in it."""
    pk = harness.start()
    values = {"started_at": "now", "heartbeat_at": "now", "failed": 1, "scope": None, **columns}
    claim = uuid.uuid4() if state in CLAIMED else None
    harness.pipeline.owner.execute(
        f"UPDATE jobs_job SET state = %s, claim_id = %s, {', '.join(f'{name} = %s' for name in values)} WHERE id = %s",
        [state, claim, *values.values(), pk],
    )
    return harness.find(pk)
