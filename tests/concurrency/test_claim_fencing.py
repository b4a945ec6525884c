"""EMB-3, EMB-4, case 38: whatever order edits and workers meet in, the vector ends as that of the text now effective.

Each scenario is run again with its safety taken out of the statements, and must then fail (RELIABILITY rule 40).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, transaction

from embeddings.queue import claims
from portal.tenancy.context import tenant_context
from tests.support.database import login
from tests.support.embeddings.mutants import DO_NOTHING, NO_FENCE, mutant
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import GatedEmbedder
from tests.support.threads import in_thread
from tools.catalogue.embedding_text import ENTITY
from tools.catalogue.tools import update_tool

Scenario = Callable[[Pipeline, Any], None]


def edited_while_it_was_embedded_and_nothing_afterwards(pipeline: Pipeline, gate: GatedEmbedder) -> None:
    pk = pipeline.add("Version one.")
    with pipeline.paused_worker(gate):
        pipeline.edit(pk, "Version two.")
    # The same drain saw that its result was not wanted, wrote nothing, and did the one more job.
    pipeline.check_ready(pk)
    assert len(gate.calls) == 2


def edited_and_embedded_by_another_worker_first(pipeline: Pipeline, gate: GatedEmbedder) -> None:
    pk = pipeline.add("Version one.")
    with pipeline.paused_worker(gate):
        pipeline.edit(pk, "Version two.")
        assert pipeline.work().stored == 1
        after_two = pipeline.embedding(pk)
    assert pipeline.embedding(pk) == after_two  # xmin too: job 1 wrote nothing
    pipeline.check_ready(pk)
    assert len(gate.calls) == 2


def edited_there_and_back(pipeline: Pipeline, gate: GatedEmbedder) -> None:
    pk = pipeline.add("Version one.")
    with pipeline.paused_worker(gate):
        pipeline.edit(pk, "Version two.")
        pipeline.edit(pk, "Version one.")
        task = pipeline.task(pk)
    assert task is not None
    assert (task["status"], task["attempts"], task["claim_id"]) == ("pending", 0, None)
    pipeline.check_ready(pk)
    assert len(gate.calls) == 2  # no ping-pong: the first call is lost, the second counts


def deleted_while_it_was_embedded(pipeline: Pipeline, gate: GatedEmbedder) -> None:
    pk = pipeline.add("Version one.")
    with pipeline.paused_worker(gate):
        pipeline.delete(pk)
    assert pipeline.all("SELECT 1 FROM tools_tool UNION ALL SELECT 1 FROM tools_toolembedding") == []
    assert pipeline.tasks() == []


def deactivated_while_it_was_embedded(pipeline: Pipeline, gate: GatedEmbedder) -> None:
    pk = pipeline.add("Version one.")
    with pipeline.paused_worker(gate):
        pipeline.change(pk, active=False)
    row = pipeline.embedding(pk)
    assert (row["active"], row["vector"], pipeline.tasks()) == (False, None, [])


def refreshed_while_it_was_embedded(pipeline: Pipeline, gate: GatedEmbedder) -> None:
    pk = pipeline.add("Version one.")
    with pipeline.paused_worker(gate):
        pipeline.refresh(pk)
        pipeline.refresh(pk)
    pipeline.check_ready(pk)
    assert len(gate.calls) == 2


def two_texts_saved_while_a_slow_provider_embeds_the_first(pipeline: Pipeline, gate: GatedEmbedder) -> None:
    pk = pipeline.add("Version one.")
    with pipeline.paused_worker(gate):
        pipeline.edit(pk, "Version two.")
        pipeline.edit(pk, "Version three.")
    pipeline.check_ready(pk)
    assert [text.split("\n")[1] for text in gate.calls] == ["Version one.", "Version three."]


def its_lease_ran_out_and_another_worker_took_over(pipeline: Pipeline, gate: GatedEmbedder) -> None:
    pk = pipeline.add("Version one.")
    with pipeline.paused_worker(gate):
        pipeline.make_due()  # a worker that is stopped, or whose machine sleeps
        with login("DATABASE_WORKER_URL"):
            [taken] = claims.claim(1)
    # The late worker wrote nothing, and took nothing from the one that has the claim.
    task = pipeline.task(pk)
    assert task is not None
    assert (task["claim_id"], task["status"], task["attempts"]) == (taken.claim_id, "running", 2)
    assert pipeline.embedding(pk)["vector"] is None
    pipeline.make_due()
    pipeline.work()
    pipeline.check_ready(pk)


SCENARIOS: list[Scenario] = [
    edited_while_it_was_embedded_and_nothing_afterwards,
    edited_and_embedded_by_another_worker_first,
    edited_there_and_back,
    deleted_while_it_was_embedded,
    deactivated_while_it_was_embedded,
    refreshed_while_it_was_embedded,
    two_texts_saved_while_a_slow_provider_embeds_the_first,
    its_lease_ran_out_and_another_worker_took_over,
]

MUTANTS: list[tuple[Scenario, tuple[str, str]]] = [
    (edited_there_and_back, NO_FENCE),
    (refreshed_while_it_was_embedded, NO_FENCE),
    (its_lease_ran_out_and_another_worker_took_over, NO_FENCE),
    (edited_while_it_was_embedded_and_nothing_afterwards, DO_NOTHING),
    (edited_and_embedded_by_another_worker_first, DO_NOTHING),
    (edited_there_and_back, DO_NOTHING),
    (two_texts_saved_while_a_slow_provider_embeds_the_first, DO_NOTHING),
]


def name(value: object) -> str | None:
    if value in (NO_FENCE, DO_NOTHING):
        return {NO_FENCE: "without the fence", DO_NOTHING: "on conflict do nothing"}[value]
    return getattr(value, "__name__", None)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name)
def test_the_vector_is_that_of_the_text_now_effective_EMB_4(
    pipeline: Pipeline, use: Callable[..., Any], scenario: Scenario
) -> None:
    scenario(pipeline, use("GatedEmbedder"))
    pipeline.check_consistent()


@pytest.mark.parametrize(("scenario", "bug"), MUTANTS, ids=name)
def test_each_scenario_notices_when_its_safety_is_gone_EMB_4(
    pipeline: Pipeline, use: Callable[..., Any], scenario: Scenario, bug: tuple[str, str]
) -> None:
    with mutant(*bug), pytest.raises((AssertionError, DatabaseError)):
        scenario(pipeline, use("GatedEmbedder"))


LATE_WORDS: dict[str, Callable[[claims.Task], object]] = {
    "drop": lambda task: claims.drop([task]),
    "extend": lambda task: claims.extend([task]),
    "fail": lambda task: claims.fail(ENTITY, task, error="late"),
    "release": lambda task: claims.release([task], error="late", delay=600),
    "retry": lambda task: claims.retry_later(task, error="late", delay=600),
}


def say_late(pipeline: Pipeline, late: str) -> None:
    """A worker that has lost its claim speaks, by one of the queue's verbs; nothing may come of it."""
    pk = pipeline.add("Version one.")
    with login("DATABASE_WORKER_URL"):
        [old] = claims.claim(1)
        pipeline.make_due()
        [new] = claims.claim(1)
        before = (pipeline.task(pk), pipeline.embedding(pk))
        with tenant_context(pipeline.tenant_id):
            LATE_WORDS[late](old)
        assert (pipeline.task(pk), pipeline.embedding(pk)) == before
        with tenant_context(pipeline.tenant_id):
            LATE_WORDS[late](new)
        assert pipeline.task(pk) != before[0]


@pytest.mark.parametrize("late", LATE_WORDS)
def test_no_verb_of_a_worker_without_the_claim_has_an_effect_R2(pipeline: Pipeline, late: str) -> None:
    say_late(pipeline, late)


@pytest.mark.parametrize("late", LATE_WORDS)
def test_each_verb_has_a_fence_of_its_own_R2(pipeline: Pipeline, late: str) -> None:
    fence = " AND claim_id = %(claim)s" if late in {"fail", "retry"} else NO_FENCE[0]
    without = " AND %(claim)s::uuid IS NOT NULL" if late in {"fail", "retry"} else ""
    with pytest.raises(AssertionError), mutant(fence, without):
        say_late(pipeline, late)


class TestClaims:
    def together(self, pipeline: Pipeline, workers: int, limit: int) -> list[list[claims.Task]]:
        """What several workers claim at the same moment, each in one transaction until all have claimed."""
        barrier = threading.Barrier(workers)
        taken: list[list[claims.Task]] = []

        def claim() -> None:
            with login("DATABASE_WORKER_URL"), transaction.atomic():
                barrier.wait(4)
                taken.append(claims.claim(limit))
                barrier.wait(4)

        with ExitStack() as threads:
            for _ in range(workers):
                threads.enter_context(in_thread(claim))
        return taken

    def test_are_exclusive_and_wait_for_nobody_EMB_4(self, pipeline: Pipeline) -> None:
        for number in range(40):
            pipeline.add(f"Text {number}.")
        taken = self.together(pipeline, workers=4, limit=10)
        assert [len(tasks) for tasks in taken] == [10, 10, 10, 10]
        assert len({task.id for tasks in taken for task in tasks}) == 40

    def test_without_skip_locked_the_workers_stand_in_line_EMB_4(self, pipeline: Pipeline) -> None:
        for number in range(8):
            pipeline.add(f"Text {number}.")
        everybody_waits = ("lane.share FOR UPDATE SKIP LOCKED", "lane.share FOR UPDATE")
        with pytest.raises((threading.BrokenBarrierError, DatabaseError)), mutant(*everybody_waits):
            self.together(pipeline, workers=2, limit=4)

    def test_one_tenants_backfill_does_not_hold_up_anothers_EMB_4(
        self, pipeline: Pipeline, make_tenant: Callable[..., Any]
    ) -> None:
        other = Pipeline(make_tenant().pk, pipeline.owner)
        for number in range(40):
            pipeline.add(f"Text {number}.")
        late = [other.add(f"Text {number}.") for number in range(3)]
        pipeline.owner.execute("UPDATE embeddings_embeddingtask SET priority = 10")

        def claim() -> list[UUID]:
            with login("DATABASE_WORKER_URL"), transaction.atomic():
                tasks = [task.entity_id for task in claims.claim(8)]
                transaction.set_rollback(True)
            return tasks

        # In the order of their asking all eight would be the first tenant's.
        assert set(late) <= set(claim())
        with mutant("/ count(*) OVER () AS share", "* 5 AS share"), pytest.raises(AssertionError):
            for _ in range(20):  # which tenant comes first is drawn
                assert set(late) <= set(claim())
        # An edit is before all backfills: those of its own tenant wait, of the others' it is the first in the claim.
        pipeline.edit(edited := pipeline.add("Edited."), "Again.")
        assert (claim()[0], set(claim())) == (edited, {edited, *late})

    def test_a_stream_of_one_tenants_edits_does_not_hold_up_anothers_backfill_SEC_5(
        self, pipeline: Pipeline, make_tenant: Callable[..., Any]
    ) -> None:
        other = Pipeline(make_tenant().pk, pipeline.owner)
        imported = other.add("Imported.")
        pipeline.owner.execute("UPDATE embeddings_embeddingtask SET priority = 10")
        for number in range(40):
            pipeline.add(f"Edited {number}.")
        with login("DATABASE_WORKER_URL"):
            claimed = [task.entity_id for task in claims.claim(8)]
        assert len(claimed) == 5, "half of a claim for each, and the neighbour has one"
        assert imported in claimed

    def test_a_claim_is_for_one_lease_and_due_tasks_only_EMB_4(
        self, pipeline: Pipeline, settings: Any
    ) -> None:
        settings.EMBEDDING_LEASE = 60
        due, later = pipeline.add("Due."), pipeline.add("Later.")
        pipeline.owner.execute(
            "UPDATE embeddings_embeddingtask SET next_attempt_at = now() + interval '1 s' WHERE entity_id = %s",
            [later],
        )
        with login("DATABASE_WORKER_URL"):
            [task] = claims.claim(10)
            assert task.entity_id == due
            assert claims.claim(10) == []
        [row] = pipeline.all(
            "SELECT extract(epoch FROM next_attempt_at - now())::float AS left FROM embeddings_embeddingtask WHERE entity_id = %s",
            due,
        )
        assert 55 < row["left"] <= 60


class TestLocks:
    """A write may lock rows in any order and for long; a worker neither stops it nor is lost by it."""

    def test_a_write_in_progress_delays_only_its_own_rows_EMB_4(
        self, pipeline: Pipeline, settings: Any
    ) -> None:
        held, free = pipeline.add("Held."), pipeline.add("Free.")
        with pipeline.owner.transaction():
            pipeline.owner.execute(
                "SELECT 1 FROM tools_toolembedding WHERE entity_id = %s FOR UPDATE", [held]
            )
            pipeline.work(batches=1)  # waits its lock_timeout for the held row, then leaves it to the lease
            assert pipeline.status(free) == "ready"
        assert pipeline.status(held) == "pending"
        pipeline.make_due()
        pipeline.work()
        pipeline.check_ready(held)

    def test_a_short_write_is_waited_for_and_costs_no_second_call_EMB_4(
        self, pipeline: Pipeline, embedder: Any
    ) -> None:
        pk = pipeline.add("Held for a moment.")
        with in_thread(pipeline.work), pipeline.owner.transaction():
            pipeline.owner.execute("SELECT 1 FROM tools_toolembedding WHERE entity_id = %s FOR UPDATE", [pk])
            pipeline.owner.execute("SELECT pg_sleep(0.5)")
        pipeline.check_ready(pk)
        assert len(embedder.calls) == 1

    @pytest.mark.parametrize("first", [0, 1])
    def test_a_write_in_parts_and_a_worker_with_a_batch_never_deadlock_EMB_4(
        self, pipeline: Pipeline, use: Callable[..., Any], first: int
    ) -> None:
        # An import writes in chunks, so its order of locks is not the worker's.
        gate = use("GatedEmbedder")
        pks = sorted([pipeline.add("One."), pipeline.add("Two.")])
        with pipeline.paused_worker(gate), tenant_context(pipeline.tenant_id):
            update_tool(pk=pks[first], expected_version=1, changes={"description": "Three."}, actor="import")
            gate.go_on.set()
            while pipeline.status(pks[1 - first]) != "ready":  # the worker stores the other one, and waits
                pass
            update_tool(
                pk=pks[1 - first], expected_version=1, changes={"description": "Four."}, actor="import"
            )
        pipeline.work()
        for pk in pks:
            pipeline.check_ready(pk)
