"""A job that enqueues embeddings and follows their tasks to the end, without a row of its own for any of them.

Its tasks are tagged with the job (queue/job_tasks.py) until a vector is stored, they fail, or a newer request takes them over.
Each transaction keeps this sum, whose last term stands in the cursor:

    total = done + failed + skipped + waiting

`waiting` is counted and `failed` are the job's own failure rows, so `done` grows by the tasks that left the first without
coming into the second: the vector was stored, an edit took the task over, or the entity was deleted. `skipped` was right
already, or is enqueued by an edit. Enqueueing, tags, counts and cursor are of one transaction, so a kill at any point leaves a
sum that holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from embeddings.backfill import scan as backfill
from embeddings.backfill.scan import EVERYTHING, Wanted
from embeddings.queue import job_tasks
from embeddings.registry import EmbeddedEntity
from portal.jobs.context import Context, Failure

QUEUEING, EMBEDDING = "queueing", "embedding"
FOLLOW_SECONDS = 0.5
BATCH_SIZE = 500
AHEAD = 2000
"""So many tasks of a job wait at a time: a cancelled one has little to take back, and a full queue is never its fault."""


@dataclass(frozen=True, slots=True)
class Work:
    """What to ask for. `ids(after, limit)` pages through the entities by id, `labels` names them for people. `rate` is entities
    a second at most; `ahead` None queues all at once."""

    entity: EmbeddedEntity
    ids: Callable[[UUID | None, int], list[UUID]]
    labels: Callable[[Collection[UUID]], Mapping[UUID, str]]
    found: Collection[str] = EVERYTHING
    refresh: bool = False
    limit: int | None = None
    rate: float | None = None
    batch_size: int = BATCH_SIZE
    ahead: int | None = AHEAD


def run(context: Context, work: Work) -> bool:
    """The `run` of a kind of job."""
    return _Run(context, work).to_its_end()


class _Run:
    def __init__(self, context: Context, work: Work) -> None:
        self.context, self.work = context, work
        self.entity, self.job_id = work.entity, context.job.pk

    @property
    def cursor(self) -> dict[str, Any]:
        return self.context.cursor

    def to_its_end(self) -> bool:
        retry = self.context.job.only_failures
        step = self._retry_batch if retry else self._scan_batch
        while not self.cursor.get("retried" if retry else "scanned"):
            if self._must_stop():
                return False
            if self.work.ahead is not None and self.cursor.get("waiting", 0) >= self.work.ahead:
                self._follow()
                self.context.wait(FOLLOW_SECONDS)
            elif (asked := step()) and self.work.rate:
                self.context.wait(asked / self.work.rate)
        while self._follow():
            if self._must_stop():
                return False
            self.context.wait(FOLLOW_SECONDS)
        with self._tenant():
            ended = {
                name: value for name, value in self.cursor.items() if name not in {"retried", "retry_after"}
            }
            self.context.batch(
                cursor=ended, log=f"{self.context.done:,} done, {self.context.failed:,} failed."
            )
        return True

    def _tenant(self) -> AbstractContextManager[None]:
        return self.context.job.in_tenant()

    def _must_stop(self) -> bool:
        why = self.context.stopping()
        if why == "cancel":
            self._untag()
        return bool(why)

    def _size(self) -> int:
        size = self.work.batch_size
        return size if self.work.rate is None else min(size, max(1, int(self.work.rate)))

    def _scan_batch(self) -> int:
        """Asks for what is wrong among the next entities; returns for how many."""
        context, cursor = self.context, self.cursor
        queued = cursor.get("queued", 0)
        limit = self.work.limit
        with self._tenant():
            ids = self.work.ids(_uuid(cursor.get("after")), self._size())
            wanted = Wanted(
                found=self.work.found,
                refresh=self.work.refresh,
                limit=None if limit is None else limit - queued,
            )
            scanned = backfill.scan(self.entity, ids, wanted, job_id=self.job_id)
            queued += len(scanned.asked)
            skipped = context.skipped + len(scanned.looked_for) - len(scanned.asked)
            waiting = cursor.get("waiting", 0) + len(scanned.asked)
            over = len(ids) < self._size() or (limit is not None and queued >= limit)
            moved = {
                **cursor, "after": str(ids[-1]) if ids else cursor.get("after"), "queued": queued, "waiting": waiting,
                "scanned": over,
            }  # fmt: skip
            context.batch(
                skipped=skipped,
                cursor=moved,
                stage=EMBEDDING if over else QUEUEING,
                retried=scanned.asked if context.failed else (),
                alone=not over,
                log=f"Queued {queued:,}; {skipped:,} need nothing." if over else "",
            )
            if over:
                context.batch(total=context.done + context.failed + context.skipped + waiting)
        return len(scanned.asked)

    def _retry_batch(self) -> int:
        """Takes up the next failures; one whose entity is gone has nothing left to do."""
        context, cursor = self.context, self.cursor
        with self._tenant():
            ids = context.failures(_uuid(cursor.get("retry_after")), self._size())
            scanned = backfill.scan(self.entity, ids, Wanted(refresh=True), job_id=self.job_id)
            context.batch(
                done=context.done + len(ids) - len(scanned.asked),
                cursor={
                    **cursor,
                    "waiting": cursor.get("waiting", 0) + len(scanned.asked),
                    "retry_after": str(ids[-1]) if ids else None,
                    "retried": len(ids) < self._size(),
                },
                stage=EMBEDDING,
                retried=ids,
                log=f"Asked again for {len(scanned.asked):,} that had failed." if ids else "",
            )
        return len(scanned.asked)

    def _follow(self) -> int:
        """Sees what has become of the tasks; returns how many are left."""
        context, cursor = self.context, self.cursor
        with self._tenant():
            failed = job_tasks.collect_failures(self.entity, self.job_id)
            waiting = job_tasks.count_waiting(self.entity, self.job_id)
            before: int = cursor.get("waiting", 0)
            if failed or waiting != before:
                labels = self.work.labels([entity_id for entity_id, _ in failed])
                context.batch(
                    done=context.done + before - waiting - len(failed),
                    cursor={**cursor, "waiting": waiting},
                    failures=[
                        Failure(entity_id, labels.get(entity_id, str(entity_id)), error)
                        for entity_id, error in failed
                    ],
                )
        return waiting

    def _untag(self) -> None:
        """Ends a cancelled job: what it has enqueued stays queued and counts as done, as the workers finish it anyway."""
        context = self.context
        self._follow()
        with self._tenant():
            left = job_tasks.untag(self.entity, self.job_id)
            context.batch(
                done=context.done + self.cursor.get("waiting", 0),
                cursor={**self.cursor, "waiting": 0},
                log=f"Cancelled. {left:,} stay queued, and the workers finish them.",
            )


def _uuid(text: str | None) -> UUID | None:
    return UUID(text) if text else None
