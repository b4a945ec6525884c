"""R2: what looks for wrong embeddings leaves those alone that an edit or a worker is at. A text that was enqueued again while a worker
has it in hand would be given to the provider twice, with nobody killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from embeddings.backfill.scan import ScanOptions, scan
from embeddings.queue.reconcile import reconcile
from embeddings.text import source_hash
from portal.tenancy.context import tenant_context
from tests.support.database import login
from tests.support.embeddings.pipeline import Pipeline
from tests.support.threads import in_thread
from tools.catalogue.embedding_text import ENTITY

READS_TEXTS = 'LEFT OUTER JOIN "tools_endpoint"'
READS_TASKS = "embeddings_embeddingtask"


@contextmanager
def before_the_first(part: str, work: Callable[[], object]) -> Iterator[None]:
    """Does the work, in another session, before this one's first SELECT with this part; it must have one."""
    done: list[str] = []

    def watch(execute: Any, sql: str, *rest: Any) -> Any:
        if not done and part in sql and sql.lstrip().startswith("SELECT"):
            done.append(sql)
            with in_thread(work):
                pass
        return execute(sql, *rest)

    with connection.execute_wrapper(watch):
        yield
    assert done, f"nothing was read with {part}"


def reconciled(pipeline: Pipeline, part: str, work: Callable[[], object]) -> None:
    with login("DATABASE_WORKER_URL"), before_the_first(part, work):
        reconcile()


def scanned(pipeline: Pipeline, part: str, work: Callable[[], object]) -> None:
    ids = [row["entity_id"] for row in pipeline.all("SELECT entity_id FROM tools_toolembedding")]
    with tenant_context(pipeline.tenant_id), before_the_first(part, work):
        scan(ENTITY, ids, ScanOptions(), job_id=uuid4())


@pytest.mark.parametrize("look", [reconciled, scanned])
@pytest.mark.parametrize("is_embedded", [True, False], ids=["embedded", "enqueued"])
def test_an_edit_between_the_reading_of_its_row_and_of_its_text_is_left_to_its_own_task_R2(
    pipeline: Pipeline, embedder: Any, look: Callable[..., None], *, is_embedded: bool
) -> None:
    pk = pipeline.add("One.")
    pipeline.work()
    written: list[Any] = []

    def edit() -> None:
        pipeline.edit(pk, "Two.")
        if is_embedded:
            pipeline.work()
        written.extend([pipeline.embedding(pk)["written"], pipeline.tasks()])

    look(pipeline, READS_TEXTS, edit)
    assert [pipeline.embedding(pk)["written"], pipeline.tasks()] == written
    pipeline.work()
    given = [source_hash(text) for text in embedder.calls]
    assert sorted(given) == sorted(set(given))
    pipeline.check_ready(pk)


def test_a_vector_that_is_stored_while_a_scan_reads_is_not_made_again_R2(
    pipeline: Pipeline, embedder: Any
) -> None:
    pk = pipeline.add("One.")
    scanned(pipeline, READS_TASKS, pipeline.work)
    pipeline.work()
    assert len(embedder.calls) == 1
    pipeline.check_ready(pk)
