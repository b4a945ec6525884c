"""A harness for jobs: starts one, runs it as the worker does, and reads what it left."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from embeddings.backfill.job import EMBEDDING
from portal.jobs import runner, services
from portal.jobs.context import Context
from portal.jobs.models import Job
from portal.tenancy.context import tenant_context
from tests.support.database import login
from tests.support.embeddings.pipeline import Pipeline
from tests.support.processes import ROOT, process_environment
from tests.support.threads import in_thread
from tests.support.waiting import wait_until
from tools.catalogue.embedding_jobs import BACKFILL

# Of a process: short pauses, and the provider of the tests.
QUICK = {
    "EMBEDDING_PROVIDER": "tests.support.embeddings.providers.HashEmbedder",
    "EMBEDDING_MODEL": "model-1",
    "EMBEDDING_POLL": "0.2",
    "JOB_LOST_SECONDS": "3",
    "JOB_POLL": "0.2",
}


def spawn(*command: str, **environment: str) -> subprocess.Popen[str]:
    """`python COMMAND`, with what it says in `communicate()`."""
    return subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=process_environment({**QUICK, **environment}),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@dataclass(slots=True)
class JobHarness:
    """Jobs of the pipeline's tenant."""

    pipeline: Pipeline

    def start(self, kind: str = BACKFILL, **args: Any) -> UUID:
        with self.in_tenant():
            return services.start(kind, args, by="the test").pk  # type: ignore[no-any-return]

    def in_tenant(self) -> Any:
        return tenant_context(self.pipeline.tenant_id)

    def do(self, verb: Callable[[UUID], Job], pk: UUID) -> Job:
        with self.in_tenant():
            return verb(pk)

    def find(self, pk: UUID) -> Job:
        return self.do(services.find, pk)

    def state(self, pk: UUID) -> str:
        return self.find(pk).effective_state

    def counts(self, pk: UUID) -> tuple[int | None, int, int, int]:
        """Total, done, failed and skipped."""
        job = self.find(pk)
        return job.total, job.done, job.failed, job.skipped

    def claim(self) -> Job:
        """By the worker's login, as a runner does."""
        with login("DATABASE_WORKER_URL"):
            job: Job = Job.all_tenants.claim(kinds=["backfill_embeddings", "refresh_embeddings"])
        return job

    def run(
        self, stop: threading.Event | None = None, on_progress: Callable[[Context], None] = lambda _: None
    ) -> None:
        """A runner that claims one job and works on it, in this thread, as the worker's login."""
        with login("DATABASE_WORKER_URL"):
            job = Job.all_tenants.claim(kinds=["backfill_embeddings", "refresh_embeddings"])
            runner.run(job, stop or threading.Event(), on_progress)

    def run_until_queued(self) -> None:
        """The runner is told to end once it has asked for all: the job waits for another one, with nobody embedding."""
        stop = threading.Event()
        self.run(stop, lambda context: stop.set() if context.stage == EMBEDDING else None)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A runner beside the block, which must end the job by the end of it."""
        with in_thread(self.run):
            yield

    def work_until_over(self, pk: UUID) -> str:
        """Embeds what is due until the job is over; its state then."""

        def over() -> str:
            self.pipeline.work()
            job = self.find(pk)
            return "" if job.is_active else job.effective_state

        return str(wait_until(over, "the job is over"))

    def finish(self, pk: UUID) -> str:
        """Runs the job with everything that it needs."""
        with self.running():
            return self.work_until_over(pk)

    def silence_runners(self) -> None:
        """As if every runner had been silent for an hour."""
        self.pipeline.owner.execute(
            "UPDATE jobs_job SET heartbeat_at = now() - interval '1 hour' WHERE state IN ('running', 'cancelling')"
        )

    def tagged(self) -> int:
        [row] = self.pipeline.all(
            "SELECT count(*) AS n FROM embeddings_embeddingtask WHERE job_id IS NOT NULL"
        )
        return int(row["n"])

    def make(self, status: str, *pks: UUID) -> None:
        """Embeddings that rest in this status, as a worker or a switched off provider left them."""
        owner = self.pipeline.owner
        if status == "failed":
            self.pipeline.refresh(*pks)
            owner.execute(
                "UPDATE embeddings_embeddingtask SET status = 'failed', last_error = 'old' WHERE entity_id = ANY(%s)",
                [list(pks)],
            )
        owner.execute(
            "UPDATE tools_toolembedding SET status = %s, vector = NULL, vector_hash = NULL WHERE entity_id = ANY(%s)",
            [status, list(pks)],
        )

    def snapshot(self) -> list[dict[str, Any]]:
        """Every row of embeddings and their tasks, to the transaction that wrote it."""
        return self.pipeline.all(
            "SELECT id, xmin::text, ctid::text FROM tools_toolembedding "
            "UNION ALL SELECT id, xmin::text, ctid::text FROM embeddings_embeddingtask ORDER BY id"
        )
