"""R2: any order of edits, claims, results, deaths and changes of the model leaves a catalogue that is consistent at every
step, and complete once the workers have come to rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from django.db import connections
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from embeddings import slots
from embeddings.queue import claims, worker
from embeddings.queue.reconcile import reconcile
from embeddings.text import source_hash
from portal.tenancy.context import tenant_context
from tests.support.counts import scaled, share_of_full_count
from tests.support.database import login
from tests.support.embeddings.mutants import DO_NOTHING, mutant
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import hash_vector
from tools.catalogue.embedding_text import ENTITY, load_texts

FEW_TEXTS = st.sampled_from(["A.", "B.", "C."])
WHICH = st.integers(min_value=0, max_value=100)
MODELS = ("model-1", "model-2", "model-3")


def vector(model: str, text: str) -> np.ndarray:
    """What ModelEmbedder gives."""
    return hash_vector(f"{model} {text}")


class Logins:
    """The worker's and the owner's login, each connected once: a machine has thousands of steps."""

    def __init__(self) -> None:
        self.connections: dict[str, Any] = {}
        for variable in ("DATABASE_WORKER_URL", "DATABASE_ADMIN_URL"):
            with login(variable):
                self.connections[variable] = connections["default"]

    @contextmanager
    def of(self, variable: str) -> Iterator[None]:
        usual = connections["default"]
        connections["default"] = self.connections[variable]
        try:
            yield
        finally:
            connections["default"] = usual

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()


def machine(pipeline: Pipeline, use: Callable[..., Any], logins: Logins) -> type[RuleBasedStateMachine]:
    class Catalogue(RuleBasedStateMachine):
        """`tools` are whether each is active; `held` what workers have claimed and read, and are embedding now."""

        def __init__(self) -> None:
            super().__init__()
            pipeline.owner.execute(
                "TRUNCATE tools_tool, tools_toolembedding, embeddings_embeddingtask, embeddings_embeddingmodel CASCADE"
            )
            use("ModelEmbedder", EMBEDDING_MODEL=MODELS[0], EMBEDDING_MAX_ATTEMPTS=1000)
            self.slots: list[slots.Slot] = []
            self.ensure_slot()
            self.tools: dict[UUID, bool] = {}
            self.held: list[list[claims.Embedded]] = []

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
        def activate_or_deactivate(self, which: int) -> None:
            pk = self.one(which)
            self.tools[pk] = not self.tools[pk]
            pipeline.change(pk, active=self.tools[pk])

        @rule(which=WHICH)
        @precondition(lambda self: self.tools)
        def delete(self, which: int) -> None:
            pk = self.one(which)
            del self.tools[pk]
            pipeline.delete(pk)

        # --- Workers ----------------------------------------------------------------------------------------------

        @rule(limit=st.integers(min_value=1, max_value=3))
        def claim_and_read(self, limit: int) -> None:
            with logins.of("DATABASE_WORKER_URL"):
                tasks = claims.claim(limit)
                with tenant_context(pipeline.tenant_id):
                    texts = load_texts([task.entity_id for task in tasks])
            self.held.append(
                [
                    claims.Embedded(task, vector(task.slot.model, text), truncated=False)
                    for task in tasks
                    if (text := texts.get(task.entity_id)) and source_hash(text) == task.source_hash
                ]
            )

        @rule(which=WHICH)
        @precondition(lambda self: self.held)
        def store(self, which: int) -> None:
            by_slot: dict[int, list[claims.Embedded]] = defaultdict(list)
            for result in self.held.pop(which % len(self.held)):
                by_slot[result.task.slot.number].append(result)
            with logins.of("DATABASE_WORKER_URL"):
                for results in by_slot.values():
                    claims.store(ENTITY, results)

        @rule(which=WHICH)
        @precondition(lambda self: self.held)
        def fail(self, which: int) -> None:
            with logins.of("DATABASE_WORKER_URL"), tenant_context(pipeline.tenant_id):
                for result in self.held.pop(which % len(self.held)):
                    claims.fail(ENTITY, result.task, error="no")

        @rule()
        def leases_end(self) -> None:
            """Whoever holds something may be dead: it is due for others now, and may come too late all the same."""
            pipeline.make_due()

        @rule()
        def work(self) -> None:
            with logins.of("DATABASE_WORKER_URL"):
                worker.drain()

        @rule()
        def reconcile(self) -> None:
            with logins.of("DATABASE_WORKER_URL"):
                reconcile()

        # --- Models -----------------------------------------------------------------------------------------------

        def ensure_slot(self) -> None:
            with logins.of("DATABASE_ADMIN_URL"):
                slots.ensure_slot()
            self.slots = slots.all()

        @rule()
        @precondition(lambda self: len(self.slots) == 1)
        def name_another_model(self) -> None:
            kept = self.slots[0].model
            use("ModelEmbedder", EMBEDDING_MODEL=next(model for model in MODELS if model != kept))
            self.ensure_slot()

        @rule()
        @precondition(lambda self: len(self.slots) == 2)
        def switch_models(self) -> None:
            with suppress(slots.SlotError):  # it is not complete yet
                slots.switch()
            self.slots = slots.all()

        @rule()
        @precondition(lambda self: len(self.slots) == 2)
        def drop_a_model(self) -> None:
            slots.drop()
            self.slots = slots.all()

        # --- What holds -------------------------------------------------------------------------------------------

        @invariant()
        def consistent(self) -> None:
            """A ready row is current, a pending one has a live task for its text, and no task is without a row."""
            models = {slot.number: slot.model for slot in self.slots}
            rows = pipeline.all("SELECT *, vector::text AS vector FROM tools_toolembedding")
            tasks = {(task["entity_id"], task["model"]): task for task in pipeline.tasks()}
            with tenant_context(pipeline.tenant_id):
                texts = load_texts(list(self.tools))
            for row in rows:
                # A slot that was given up holds what it held until the reconciler comes, and an inactive tool has no text.
                if row["slot"] not in models or row["entity_id"] not in texts:
                    continue
                text, model = texts[row["entity_id"]], models[row["slot"]]
                task = tasks.get((row["entity_id"], model))
                assert row["source_hash"] == source_hash(text)
                if row["status"] == "ready":
                    assert row["vector_hash"] == source_hash(text)
                    given = np.array(row["vector"].strip("[]").split(","), dtype=np.float32)
                    np.testing.assert_allclose(given, vector(row["model"], text), atol=1e-6)
                    assert row["model"] == model or task is not None
                elif row["status"] == "pending":
                    assert task is not None
                    assert task["status"] != "failed"
                    assert task["source_hash"] == source_hash(text)
                else:
                    assert row["status"] == "failed"
                    assert task is not None
                    assert task["status"] == "failed"
            assert {pk for pk, model in tasks if model in models.values()} <= {
                row["entity_id"] for row in rows
            }

        def teardown(self) -> None:
            pipeline.make_due()
            with logins.of("DATABASE_WORKER_URL"):
                reconcile()
                worker.drain()
            self.consistent()
            models = [slot.model for slot in self.slots]
            rows = pipeline.all("SELECT entity_id, model, status FROM tools_toolembedding WHERE active")
            done = {(row["entity_id"], row["model"]) for row in rows if row["status"] == "ready"}
            failed = {row["entity_id"] for row in rows if row["status"] == "failed"}
            wanted = {pk for pk, active in self.tools.items() if active} - failed
            assert {(pk, model) for pk in wanted for model in models} <= done
            waiting = pipeline.all("SELECT 1 FROM embeddings_embeddingtask WHERE status <> 'failed'")
            assert waiting == []

    return Catalogue


@pytest.fixture
def logins(pipeline: Pipeline) -> Iterator[Logins]:
    logins = Logins()
    yield logins
    logins.close()


def run(pipeline: Pipeline, use: Callable[..., Any], logins: Logins, examples: int, *phases: Phase) -> None:
    run_state_machine_as_test(
        machine(pipeline, use, logins),
        settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None, database=None, derandomize=True,
            suppress_health_check=list(HealthCheck), phases=phases or tuple(Phase),
        ),
    )  # fmt: skip


@share_of_full_count()
def test_the_catalogue_is_consistent_after_any_steps_and_complete_in_the_end_R2(
    pipeline: Pipeline, use: Callable[..., Any], logins: Logins, share: float
) -> None:
    run(pipeline, use, logins, scaled(200 * share))


@pytest.mark.slow
def test_the_machine_notices_a_second_edit_that_is_lost_R2(
    pipeline: Pipeline, use: Callable[..., Any], logins: Logins
) -> None:
    with mutant(*DO_NOTHING), pytest.raises(AssertionError):
        run(pipeline, use, logins, 15, Phase.generate)  # the first failure will do, no need for the shortest
