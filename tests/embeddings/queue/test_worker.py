"""EMB-4: what becomes of a claimed task: stored, dropped, given back or lost with its worker."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import IntegrityError

from embeddings.queue import claims
from tests.support.database import login
from tests.support.embeddings.mutants import NO_COMPARE_AND_SET, mutant
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import hash_vector
from tests.support.threads import in_thread
from tools.catalogue.embedding_text import ENTITY

POISON = "A poison."


def test_pending_becomes_ready_and_the_task_is_gone_EMB_4(pipeline: Pipeline) -> None:
    pks = [pipeline.add(f"Text {number}.") for number in range(3)]
    done = pipeline.work()
    assert (done.claimed, done.embedded, done.stored, done.failed) == (3, 3, 3, 0)
    for pk in pks:
        pipeline.check_ready(pk)
    row = pipeline.embedding(pks[0])
    assert (row["model"], row["dimension"], row["truncated"]) == ("model-1", 384, False)
    assert row["embedded_at"] is not None


def test_no_transaction_is_open_while_the_provider_runs_EMB_4(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    gate = use("GatedEmbedder")
    pipeline.add()
    with pipeline.paused_worker(gate):
        sessions = pipeline.all(
            "SELECT usename, state, backend_xmin, xact_start FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'portal-%%'"
        )
        assert (
            len(
                [
                    one
                    for one in sessions
                    if one["usename"] == urlsplit(os.environ["DATABASE_WORKER_URL"]).username
                ]
            )
            == 1
        )
        assert {one["state"] for one in sessions} == {"idle"}
        assert {one["backend_xmin"] for one in sessions} == {None}


class TestWorkersThatEndWithoutAWord:
    """R4: the attempt is counted at the claim, so a row that kills its workers is parked in the end."""

    def claim_and_die(self, pipeline: Pipeline, limit: int = 32) -> list[claims.Task]:
        with login("DATABASE_WORKER_URL"):
            tasks = claims.claim(limit)
        pipeline.make_due()
        return tasks

    def test_after_six_of_them_the_row_is_failed_with_the_reason_EMB_5(
        self, pipeline: Pipeline, embedder: Any
    ) -> None:
        pk = pipeline.add()
        for _ in range(6):
            assert len(self.claim_and_die(pipeline)) == 1
        done = pipeline.work()
        assert (done.failed, done.embedded, embedder.calls) == (1, 0, [])
        task, row = pipeline.task(pk), pipeline.embedding(pk)
        assert task is not None
        assert (task["status"], row["status"]) == ("failed", "failed")
        assert row["error"] == task["last_error"] == "The worker ended during each of 6 attempts."

    def test_five_of_them_are_forgiven_EMB_4(self, pipeline: Pipeline) -> None:
        pk = pipeline.add()
        for _ in range(5):
            self.claim_and_die(pipeline)
        pipeline.work()
        pipeline.check_ready(pk)

    def test_what_may_have_killed_a_worker_is_claimed_alone_EMB_4(self, pipeline: Pipeline) -> None:
        for number in range(10):
            pipeline.add(f"Text {number}.")
        assert len(self.claim_and_die(pipeline)) == 10
        assert [len(self.claim_and_die(pipeline)) for _ in range(3)] == [1, 1, 1]
        assert sum(task["attempts"] for task in pipeline.tasks()) == 13

    def test_the_others_of_its_batch_live_on_EMB_4(self, pipeline: Pipeline, use: Callable[..., Any]) -> None:
        class Died(BaseException):
            """As far as the worker gets."""

        def die() -> None:
            raise Died

        use("KillerEmbedder").die = die
        good = [pipeline.add(f"Text {number}.") for number in range(20)]
        deadly = pipeline.add("A deadly text.")
        good += [pipeline.add(f"Text {number}.") for number in range(20, 30)]
        deaths = 0
        while [task for task in pipeline.tasks() if task["status"] != "failed"]:
            try:
                pipeline.work()
            except Died:
                deaths += 1
            pipeline.make_due()
        assert deaths == 6
        assert pipeline.status(deadly) == "failed"
        for pk in good:
            pipeline.check_ready(pk)


def test_a_tool_deactivated_behind_the_services_is_dropped_EMB_4(pipeline: Pipeline, embedder: Any) -> None:
    pipeline.add()
    pipeline.owner.execute("UPDATE tools_tool SET active = false")
    assert pipeline.work().claimed == 1
    assert (pipeline.tasks(), embedder.calls) == ([], [])


def test_a_text_changed_behind_the_services_is_embedded_as_it_is_now_EMB_4(
    pipeline: Pipeline, embedder: Any
) -> None:
    pk = pipeline.add("Asked for.")
    pipeline.owner.execute("UPDATE tools_tool SET description = 'By hand in psql.'")
    pipeline.work()
    pipeline.check_ready(pk)
    assert ["By hand" in text for text in embedder.calls] == [True]


def test_a_worker_of_the_old_model_stores_nothing_over_a_newer_wish_EMB_10(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    gate = use("GatedEmbedder", EMBEDDING_MODEL="model-1")
    pk = pipeline.add("One.")
    with pipeline.paused_worker(gate):
        use("HashEmbedder", EMBEDDING_MODEL="model-2")
        pipeline.edit(pk, "Two.")
        assert [task["model"] for task in pipeline.tasks()] == ["model-2"]
        pipeline.work()
    pipeline.check_ready(pk)
    assert pipeline.embedding(pk)["model"] == "model-2"


def test_a_claim_that_holds_over_a_text_that_moved_on_stores_nothing_EMB_4(pipeline: Pipeline) -> None:
    # No write path of ours leaves this behind; a restored table or a hand in psql does. The compare-and-set refuses it.
    pk = pipeline.add("One.")
    with login("DATABASE_WORKER_URL"):
        [old] = claims.claim(1)
        pipeline.owner.execute("UPDATE tools_toolembedding SET source_hash = 'of another text'")
        late = [claims.Embedded(old, hash_vector("One."), truncated=False)]
        assert claims.store(ENTITY, late) == 0
        assert pipeline.embedding(pk)["vector"] is None
        with pytest.raises(IntegrityError, match="ready_is_current"), mutant(*NO_COMPARE_AND_SET):
            claims.store(ENTITY, late)


def test_a_stopped_drain_claims_nothing_and_gives_back_without_counting_R2(
    pipeline: Pipeline, use: Callable[..., Any], make_tenant: Callable[..., Any]
) -> None:
    gate = use("GatedEmbedder")
    other = Pipeline(make_tenant().pk, pipeline.owner)
    first, second = pipeline.add(), other.add()
    stop = threading.Event()
    with in_thread(lambda: pipeline.work(stop=stop)):
        assert gate.begun.wait(20)
        stop.set()
        gate.go_on.set()
    # The call in hand was finished and stored; the other tenant's task of the same claim waits for the next worker.
    [left] = pipeline.tasks()
    assert (left["status"], left["attempts"], left["claim_id"]) == ("pending", 0, None)
    assert sorted([pipeline.status(first), other.status(second)]) == ["pending", "ready"]
    assert pipeline.work(stop=stop).claimed == 0


def test_the_heartbeat_renews_what_is_ours_and_nothing_else_R3(pipeline: Pipeline) -> None:
    mine, lost = pipeline.add("Mine."), pipeline.add("Lost.")
    with login("DATABASE_WORKER_URL"):
        tasks = claims.claim(2)
    pipeline.edit(lost, "Edited.")
    pipeline.make_due()
    with login("DATABASE_WORKER_URL"):
        claims.extend(tasks)
    due = {
        row["entity_id"]: row["due"]
        for row in pipeline.all(
            "SELECT entity_id, next_attempt_at <= now() AS due FROM embeddings_embeddingtask"
        )
    }
    assert due == {mine: False, lost: True}


def test_a_task_of_an_unknown_entity_type_stops_nobody_EMB_11(pipeline: Pipeline) -> None:
    pk = pipeline.add()
    pipeline.owner.execute(
        "INSERT INTO embeddings_embeddingtask (id, tenant_id, entity_type, entity_id, model, source_hash, status, priority, "
        "attempts, last_error) VALUES (gen_random_uuid(), %s, 'of a newer version', gen_random_uuid(), 'model-1', 'x', "
        "'pending', 0, 0, '')",
        [pipeline.tenant_id],
    )
    assert pipeline.work().claimed == 1
    assert pipeline.status(pk) == "ready"
