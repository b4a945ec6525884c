"""R2: any order of edits, claims, results, deaths and switches leaves a catalogue that is consistent at every step, and
complete once the workers have come to rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from embeddings import queue
from embeddings.text import source_hash
from portal.tenancy.context import tenant_context
from tests.conftest import scaled
from tests.embeddings.pipeline import DO_NOTHING, Pipeline, login, mutant
from tests.providers import hash_vector
from tools.embedding import ENTITY, load_texts

FEW_TEXTS = st.sampled_from(["A.", "B.", "C."])
WHICH = st.integers(min_value=0, max_value=100)


def machine(pipeline: Pipeline) -> type[RuleBasedStateMachine]:
    class Catalogue(RuleBasedStateMachine):
        """`tools` are whether each is active; `held` what workers have claimed and read, and are embedding now."""

        def __init__(self) -> None:
            super().__init__()
            pipeline.owner.execute(
                "TRUNCATE tools_tool, tools_toolembedding, embeddings_embeddingtask CASCADE"
            )
            self.tools: dict[UUID, bool] = {}
            self.held: list[list[queue.Embedded]] = []

        def one(self, which: int) -> UUID:
            return list(self.tools)[which % len(self.tools)]

        @rule(text=FEW_TEXTS)
        @precondition(lambda self: len(self.tools) < 4)
        def add(self, text: str) -> None:
            self.tools[pipeline.add(text)] = True

        @rule(which=WHICH, text=FEW_TEXTS)
        @precondition(lambda self: self.tools)
        def edit(self, which: int, text: str) -> None:
            pipeline.edit(self.one(which), text)

        @rule(which=WHICH)
        @precondition(lambda self: self.tools)
        def refresh(self, which: int) -> None:
            pipeline.refresh(self.one(which))

        @rule(which=WHICH)
        @precondition(lambda self: self.tools)
        def switch(self, which: int) -> None:
            pk = self.one(which)
            self.tools[pk] = not self.tools[pk]
            pipeline.change(pk, active=self.tools[pk])

        @rule(which=WHICH)
        @precondition(lambda self: self.tools)
        def delete(self, which: int) -> None:
            pk = self.one(which)
            del self.tools[pk]
            pipeline.delete(pk)

        @rule(limit=st.integers(min_value=1, max_value=3))
        def claim_and_read(self, limit: int) -> None:
            with login("DATABASE_WORKER_URL"):
                tasks = queue.claim(limit)
                with tenant_context(pipeline.tenant_id):
                    texts = load_texts([task.entity_id for task in tasks])
            results = [
                queue.Embedded(task, hash_vector(text), truncated=False)
                for task in tasks
                if source_hash(text := texts[task.entity_id]) == task.source_hash
            ]
            self.held.append(results)

        @rule(which=WHICH)
        @precondition(lambda self: self.held)
        def store(self, which: int) -> None:
            with login("DATABASE_WORKER_URL"):
                queue.store(ENTITY, self.held.pop(which % len(self.held)))

        @rule(which=WHICH)
        @precondition(lambda self: self.held)
        def fail(self, which: int) -> None:
            with login("DATABASE_WORKER_URL"), tenant_context(pipeline.tenant_id):
                for result in self.held.pop(which % len(self.held)):
                    queue.fail(ENTITY, result.task, error="no")

        @rule()
        def leases_end(self) -> None:
            pipeline.make_due()

        @rule()
        def work(self) -> None:
            pipeline.work()

        @invariant()
        def consistent(self) -> None:
            pipeline.check_consistent()

        def teardown(self) -> None:
            pipeline.make_due()
            pipeline.work()
            for pk, active in self.tools.items():
                if active and pipeline.status(pk) != "failed":
                    pipeline.check_ready(pk)

    return Catalogue


def run(pipeline: Pipeline, use: Callable[..., Any], examples: int, *phases: Phase) -> None:
    use("HashEmbedder", EMBEDDING_MAX_ATTEMPTS=1000)
    run_state_machine_as_test(
        machine(pipeline),
        settings=settings(
            max_examples=examples, stateful_step_count=20, deadline=None, database=None, derandomize=True,
            suppress_health_check=list(HealthCheck), phases=phases or tuple(Phase),
        ),
    )  # fmt: skip


def test_the_catalogue_is_consistent_after_any_steps_and_complete_in_the_end_R2(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    run(pipeline, use, scaled(15))


def test_the_machine_notices_a_second_edit_that_is_lost_R2(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    with mutant(*DO_NOTHING), pytest.raises(AssertionError):
        run(pipeline, use, 15, Phase.generate)  # the first failure will do, no need for the shortest
