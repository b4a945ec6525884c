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

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from uuid import UUID

from embeddings.backfill.scan import ALL_STATUSES, ScanOptions, scan
from embeddings.queue import job_tasks
from embeddings.registry import EmbeddedEntity
from portal.jobs.context import Context, Failure
from portal.json_types import JsonObject

QUEUEING, EMBEDDING = "queueing", "embedding"
FOLLOW_SECONDS = 0.5
BATCH_SIZE = 500
MAX_WAITING = 2000
"""The tasks of a job that may wait at a time, so that a job never fills the queue."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """What a job enqueues. `ids(after, limit)` returns the next ids of entities in their order. `rate` is the most entities a
    second; `max_waiting` None enqueues all at once."""

    entity: EmbeddedEntity
    ids: Callable[[UUID | None, int], list[UUID]]
    statuses: Collection[str] = ALL_STATUSES
    refresh: bool = False
    limit: int | None = None
    rate: float | None = None
    batch_size: int = BATCH_SIZE
    max_waiting: int | None = MAX_WAITING


def run_backfill(context: Context, backfill: Backfill) -> bool:
    """The `run` of a kind of job: True once every task has ended, False if the job must stop before."""
    return _Run(context, backfill).run()


class _Run:
    def __init__(self, context: Context, backfill: Backfill) -> None:
        self.context, self.backfill = context, backfill
        self.entity, self.job_id = backfill.entity, context.job.pk

    @property
    def cursor(self) -> JsonObject:
        return self.context.cursor

    def run(self) -> bool:
        if self.cursor.get("restart"):
            # The version before took its tasks back when it cancelled the job, so that it begins again.
            with self._tenant():
                self.context.batch(done=0, skipped=0, cursor={})
        retry = self.context.job.only_failures
        step = self._retry_batch if retry else self._scan_batch
        while not self.cursor.get("retried" if retry else "scanned"):
            if self._must_stop():
                return False
            if (
                self.backfill.max_waiting is not None
                and self.cursor.get("waiting", 0) >= self.backfill.max_waiting
            ):
                self._follow()
                self.context.wait(FOLLOW_SECONDS)
            elif (enqueued := step()) and self.backfill.rate:
                self.context.wait(enqueued / self.backfill.rate)
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
        size = self.backfill.batch_size
        return size if self.backfill.rate is None else min(size, max(1, int(self.backfill.rate)))

    def _scan_batch(self) -> int:
        """Enqueues what is wrong among the next entities; returns how many."""
        context, cursor = self.context, self.cursor
        queued = cursor.get("queued", 0)
        limit = self.backfill.limit
        with self._tenant():
            ids = self.backfill.ids(_uuid(cursor.get("after")), self._size())
            options = ScanOptions(
                statuses=self.backfill.statuses,
                refresh=self.backfill.refresh,
                limit=None if limit is None else limit - queued,
            )
            result = scan(self.entity, ids, options, job_id=self.job_id)
            queued += len(result.enqueued)
            skipped = context.skipped + len(result.examined) - len(result.enqueued)
            waiting = cursor.get("waiting", 0) + len(result.enqueued)
            over = len(ids) < self._size() or (limit is not None and queued >= limit)
            moved = {
                **cursor, "after": str(ids[-1]) if ids else cursor.get("after"), "queued": queued, "waiting": waiting,
                "scanned": over,
            }  # fmt: skip
            context.batch(
                skipped=skipped,
                cursor=moved,
                stage=EMBEDDING if over else QUEUEING,
                retried=result.enqueued if context.failed else (),
                alone=not over,
                log=f"Queued {queued:,}; {skipped:,} need nothing." if over else "",
            )
            if over:
                context.batch(total=context.done + context.failed + context.skipped + waiting)
        return len(result.enqueued)

    def _retry_batch(self) -> int:
        """Enqueues the next failures; one whose entity is gone counts as done."""
        context, cursor = self.context, self.cursor
        with self._tenant():
            ids = context.failures(_uuid(cursor.get("retry_after")), self._size())
            result = scan(self.entity, ids, ScanOptions(refresh=True), job_id=self.job_id)
            context.batch(
                done=context.done + len(ids) - len(result.enqueued),
                cursor={
                    **cursor,
                    "waiting": cursor.get("waiting", 0) + len(result.enqueued),
                    "retry_after": str(ids[-1]) if ids else None,
                    "retried": len(ids) < self._size(),
                },
                stage=EMBEDDING,
                retried=ids,
                log=f"Queued {len(result.enqueued):,} again that had failed." if ids else "",
            )
        return len(result.enqueued)

    def _follow(self) -> int:
        """Records which tasks have ended since the last look; returns how many are left."""
        context, cursor = self.context, self.cursor
        with self._tenant():
            failed = job_tasks.collect_failures(self.entity, self.job_id)
            waiting = job_tasks.count_waiting(self.entity, self.job_id)
            before: int = cursor.get("waiting", 0)
            if failed or waiting != before:
                labels = self.entity.labels([entity_id for entity_id, _ in failed])
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
