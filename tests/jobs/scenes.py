"""Where the tests of backfills begin: tools in some state, and a job that got so far."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from portal.jobs.context import Context
from tests.embeddings.pipeline import Pipeline
from tests.jobs.desk import Desk


def ready_tools(pipeline: Pipeline, count: int) -> list[uuid.UUID]:
    """Tools with their vectors, in the order in which a scan meets them."""
    pks = sorted(pipeline.add(f"Text {number}.") for number in range(count))
    pipeline.work()
    return pks


def poisoned(desk: Desk, pipeline: Pipeline, use: Callable[..., Any]) -> tuple[uuid.UUID, list[uuid.UUID]]:
    """A job that ended with one failure of three."""
    pks = [pipeline.add("Good."), pipeline.add("Good too."), pipeline.add("A permanent poison.")]
    pipeline.owner.execute("TRUNCATE tools_toolembedding, embeddings_embeddingtask")
    use("PoisonEmbedder")
    pk = desk.start()
    assert desk.finish(pk) == "partial"
    return pk, pks


def queued_by(desk: Desk, pipeline: Pipeline, **resting: Sequence[uuid.UUID]) -> uuid.UUID:
    """A job that has queued all and been given back, with nobody embedding."""
    for status, pks in resting.items():
        desk.make(status, *pks)
    pk = desk.start(batch_size=2)
    desk.run_until_queued()
    return pk


def once_committed(look: Callable[[Context], None]) -> Callable[[Context], None]:
    def on_progress(context: Context) -> None:
        # The row is the runner's until its transaction ends.
        from django.db import transaction

        transaction.on_commit(lambda: look(context))

    return on_progress
