"""EMB-11: the machinery knows an entity by its type and id. Notes are a second type, with tables of their own."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import psycopg
import pytest
from django.db import connection, models

from embeddings import registry
from embeddings.backfill.kinds import backfill_kind, refresh_kind
from embeddings.backfill.scan import ScanOptions, count_by_status, scan
from embeddings.models import EntityEmbedding
from embeddings.queue.enqueue import EmbeddingRequest, delete_tasks, enqueue
from embeddings.queue.reconcile import reconcile
from embeddings.registry import EmbeddedEntity
from portal.jobs import kinds, runner, services
from portal.jobs.kinds import JobKind
from portal.jobs.models import Job
from portal.tenancy.context import tenant_context
from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey
from portal.tenancy.models import TenantModel
from portal.tenancy.rls import isolate
from tests.support.database import login
from tests.support.embeddings.pipeline import Pipeline, check_in_step
from tests.support.embeddings.providers import HashEmbedder
from tests.support.threads import in_thread
from tests.support.waiting import wait_until


class Note(TenantModel):
    body = models.TextField()
    active = models.BooleanField(default=True)

    class Meta(TenantModel.Meta):
        app_label = "notes"


class NoteEmbedding(EntityEmbedding):
    entity = TenantForeignKey(Note, on_delete=models.CASCADE, related_name="+")

    class Meta(EntityEmbedding.Meta):
        app_label = "notes"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *EntityEmbedding.Meta.constraints,
            CompositeForeignKey(
                column="entity_id", table="notes_note", name="note_embedding_note", on_delete="CASCADE"
            ),
        ]


def load_texts(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    return dict(Note.objects.filter(pk__in=list(ids), active=True).values_list("pk", "body"))


NOTES = EmbeddedEntity(type="note", rows=Note, model=NoteEmbedding, load_texts=load_texts, label_field="body")


@pytest.fixture
def notes(pipeline: Pipeline) -> Iterator[EmbeddedEntity]:
    """Registered, with tables as a migration would make them: of the owner, under forced row-level security."""
    with connection.schema_editor(collect_sql=True) as editor:
        for model in (Note, NoteEmbedding):
            editor.create_model(model)
    isolation: Sequence[Any] = [isolate("notes_note", worker="SELECT"), isolate("notes_noteembedding")]
    for statement in [*editor.collected_sql, *(one.sql for one in isolation)]:
        pipeline.owner.execute(re.sub(r"^--.*$", "", statement, flags=re.MULTILINE) or "SELECT 1")
    registry.register(NOTES)
    yield NOTES
    del registry._entities["note"]
    connection.close()
    pipeline.owner.execute("DROP TABLE notes_noteembedding, notes_note")


def save(pipeline: Pipeline, body: str, pk: uuid.UUID | None = None) -> uuid.UUID:
    """A write path of notes, as its own services module would have it."""
    with tenant_context(pipeline.tenant_id):
        note, _ = Note.objects.update_or_create(pk=pk or uuid.uuid4(), defaults={"body": body})
        enqueue(NOTES, [EmbeddingRequest(note.pk, body)])
    return note.pk  # type: ignore[no-any-return]


def row(pipeline: Pipeline, pk: uuid.UUID) -> dict[str, Any]:
    [found] = pipeline.all(
        "SELECT *, vector::text AS vector FROM notes_noteembedding WHERE entity_id = %s", pk
    )
    return found


def test_one_worker_and_one_table_serve_tools_and_notes_EMB_11(
    pipeline: Pipeline, notes: EmbeddedEntity, embedder: HashEmbedder
) -> None:
    tool = pipeline.add("A tool.")
    note, empty = save(pipeline, "A note."), save(pipeline, "")
    assert {(task["entity_type"], task["entity_id"]) for task in pipeline.tasks()} == {
        ("tool", tool),
        ("note", note),
    }
    done = pipeline.work()
    assert (done.claimed, done.stored) == (2, 2)
    pipeline.check_ready(tool)
    check_in_step(row(pipeline, note), "A note.")
    assert row(pipeline, empty)["status"] == "blank"

    save(pipeline, "Another text.", note)
    save(pipeline, "No more empty.", empty)
    pipeline.work()
    check_in_step(row(pipeline, note), "Another text.")
    check_in_step(row(pipeline, empty), "No more empty.")
    assert len(embedder.calls) == 4


def test_ids_that_two_types_share_are_two_entities_EMB_11(pipeline: Pipeline, notes: EmbeddedEntity) -> None:
    tool = pipeline.add("A tool.")
    save(pipeline, "A note.", tool)
    assert len(pipeline.tasks()) == 2
    pipeline.work()
    pipeline.check_ready(tool)
    check_in_step(row(pipeline, tool), "A note.")
    with tenant_context(pipeline.tenant_id):
        enqueue(NOTES, [EmbeddingRequest(tool, "Other.")])
        delete_tasks("note", [tool])
    pipeline.check_ready(tool)


def test_backfill_counts_and_reconciler_work_for_notes_EMB_11(
    pipeline: Pipeline, notes: EmbeddedEntity
) -> None:
    with tenant_context(pipeline.tenant_id):
        pk = Note.objects.create(body="Written by a path that forgot to ask.").pk
        assert count_by_status(NOTES).missing == 1
        assert scan(NOTES, [pk], ScanOptions(), job_id=uuid.uuid4()).enqueued == {pk}
    pipeline.owner.execute("TRUNCATE embeddings_embeddingtask")
    with login("DATABASE_WORKER_URL"):
        assert reconcile() == 1
    pipeline.work()
    check_in_step(row(pipeline, pk), "Written by a path that forgot to ask.")
    with tenant_context(pipeline.tenant_id):
        assert count_by_status(NOTES).as_dict() == {
            "total": 1, "ready": 1, "pending": 0, "failed": 0, "disabled": 0, "blank": 0, "missing": 0,
        }  # fmt: skip


@pytest.fixture
def note_kinds(notes: EmbeddedEntity) -> Iterator[tuple[JobKind, JobKind]]:
    """The backfill and the refresh of notes, registered as an AppConfig would."""
    found = backfill_kind(notes, name="backfill_notes"), refresh_kind(notes, name="refresh_notes")
    for kind in found:
        kinds.register(kind)
    yield found
    for kind in found:
        del kinds._kinds[kind.name]


def run_job(pipeline: Pipeline, kind: JobKind, **args: Any) -> Job:
    """The job at its end, with a worker that embeds beside its runner."""
    with tenant_context(pipeline.tenant_id):
        pk = services.start(kind.name, args, by="test").pk

    def run() -> None:
        with login("DATABASE_WORKER_URL"):
            job = Job.all_tenants.claim(kinds=[kind.name])
            assert job is not None
            runner.run(job, threading.Event())

    def over() -> Job | None:
        pipeline.work()
        with tenant_context(pipeline.tenant_id):
            job = services.find(pk)
        return None if job.is_active else job

    with in_thread(run):
        job: Job = wait_until(over, "the job is over")
    return job


def test_a_backfill_of_notes_embeds_what_is_wrong_and_leaves_tools_alone_EMB_8_EMB_11(
    pipeline: Pipeline, note_kinds: tuple[JobKind, JobKind]
) -> None:
    tool = pipeline.add("A tool.")
    right = save(pipeline, "A note.")
    pipeline.work()
    written = pipeline.embedding(tool)["written"]
    with tenant_context(pipeline.tenant_id):
        missing = Note.objects.create(body="Written by a path that forgot to enqueue.").pk
        found = services.estimate("backfill_notes", {})
    assert (found.total, found.to_do) == (2, 1)
    job = run_job(pipeline, note_kinds[0], batch_size=1)
    assert (job.title, job.effective_state) == ("Backfill of all embeddings", "succeeded")
    assert (job.total, job.done, job.failed, job.skipped) == (2, 1, 0, 1)
    check_in_step(row(pipeline, missing), "Written by a path that forgot to enqueue.")
    check_in_step(row(pipeline, right), "A note.")
    assert pipeline.embedding(tool)["written"] == written


def test_a_failed_note_is_named_by_its_own_label_EMB_8_EMB_11(
    pipeline: Pipeline, note_kinds: tuple[JobKind, JobKind], use: Any
) -> None:
    use("PoisonEmbedder")
    with tenant_context(pipeline.tenant_id):
        pk = Note.objects.create(body="A permanent poison.").pk
    job = run_job(pipeline, note_kinds[0])
    assert (job.effective_state, job.failed) == ("partial", 1)
    with tenant_context(pipeline.tenant_id):
        [failure] = services.failures(job.pk)
    assert (failure.item_id, failure.label) == (pk, "A permanent poison.")


def test_a_refresh_of_notes_gives_the_chosen_ones_new_vectors_EMB_9_EMB_11(
    pipeline: Pipeline, note_kinds: tuple[JobKind, JobKind], embedder: HashEmbedder
) -> None:
    chosen, other = save(pipeline, "One."), save(pipeline, "Two.")
    pipeline.work()
    before, calls = row(pipeline, other)["embedded_at"], len(embedder.calls)
    job = run_job(pipeline, note_kinds[1], ids=[str(chosen)])
    assert (job.title, job.effective_state, job.done) == ("Refresh of 1 note", "succeeded", 1)
    assert len(embedder.calls) == calls + 1
    check_in_step(row(pipeline, chosen), "One.")
    assert row(pipeline, other)["embedded_at"] == before


def test_the_tables_constraints_come_with_the_base_class_EMB_11(
    pipeline: Pipeline, notes: EmbeddedEntity
) -> None:
    save(pipeline, "A note.")
    with pytest.raises(psycopg.errors.CheckViolation, match="noteembedding_ready_is_current"):
        pipeline.owner.execute("UPDATE notes_noteembedding SET status = 'ready'")
    for number in ("0", "0.9"):
        with pytest.raises(psycopg.errors.CheckViolation, match="noteembedding_vector_normalised"):
            pipeline.owner.execute(
                f"UPDATE notes_noteembedding SET vector = array_fill({number}, ARRAY[384])::vector"
            )
    [names] = pipeline.all(
        "SELECT array_agg(conname::text ORDER BY conname) AS names FROM pg_constraint WHERE convalidated AND contype = 'c' "
        "AND conrelid IN ('notes_noteembedding'::regclass, 'tools_toolembedding'::regclass) AND conname ~ 'vector'"
    )
    assert names["names"] == [
        "noteembedding_vector_normalised", "noteembedding_vector_whole",
        "toolembedding_vector_normalised", "toolembedding_vector_whole",
    ]  # fmt: skip


def test_a_type_is_registered_once_EMB_11(pipeline: Pipeline, notes: EmbeddedEntity) -> None:
    registry.register(NOTES)
    assert registry.get("note") is NOTES
    with pytest.raises(ValueError, match="'note' is registered already"):
        registry.register(
            EmbeddedEntity(type="note", rows=Note, model=NoteEmbedding, load_texts=lambda _: {})
        )
