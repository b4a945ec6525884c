"""EMB-4, EMB-5: what becomes of a claimed task, with providers that work, fail, lie or are down."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psycopg
import pytest
from django.db import IntegrityError

from embeddings.queue import claims, worker
from embeddings.queue.worker import retry_delay
from tests.support.database import login
from tests.support.embeddings.mutants import NO_COMPARE_AND_SET, mutant
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import PERMANENT, hash_vector
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


def test_one_bad_text_in_a_batch_fails_alone_EMB_4(pipeline: Pipeline, use: Callable[..., Any]) -> None:
    embedder = use("PoisonEmbedder")
    good = [pipeline.add(f"Text {number}.") for number in range(31)]
    bad = pipeline.add(PERMANENT)
    done = pipeline.work()
    assert (done.stored, done.failed) == (31, 1)
    for pk in good:
        pipeline.check_ready(pk)
    assert pipeline.status(bad) == "failed"
    texts = [text for text in embedder.calls if text != worker.PROBE]
    assert len(texts) == 32 + 32 + 16 + 8 + 4 + 2  # halved, not tried one by one


def test_a_permanent_error_parks_at_once_with_its_reason_EMB_5(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    use("PoisonEmbedder")
    pk = pipeline.add(PERMANENT)
    pipeline.work()
    row, task = pipeline.embedding(pk), pipeline.task(pk)
    assert task is not None
    assert (row["status"], row["error"], row["vector"]) == ("failed", "this text cannot be embedded", None)
    assert (task["status"], task["last_error"], task["attempts"]) == (
        "failed",
        "this text cannot be embedded",
        1,
    )
    pipeline.make_due()
    assert pipeline.work().claimed == 0


def test_six_attempts_with_growing_pauses_then_failed_EMB_5(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    embedder = use("PoisonEmbedder", EMBEDDING_RETRY_BASE=2, EMBEDDING_RETRY_MAX=600)
    pk = pipeline.add(POISON)
    pauses = []
    for attempt in range(1, 7):
        pipeline.work()
        [task] = pipeline.all(
            "SELECT attempts, status, extract(epoch FROM next_attempt_at - now())::float AS pause FROM embeddings_embeddingtask"
        )
        assert task["attempts"] == attempt
        if attempt < 6:
            assert (task["status"], pipeline.status(pk)) == ("pending", "pending")
            pauses.append(task["pause"])
            assert pipeline.work().claimed == 0  # not before its time
            pipeline.make_due()
    for number, pause in enumerate(pauses):
        assert 2 * 2**number * 0.5 - 1 < pause <= 2 * 2**number
    assert (task["status"], pipeline.status(pk)) == ("failed", "failed")
    assert pipeline.embedding(pk)["error"] == "this text cannot be embedded"
    assert len([text for text in embedder.calls if text != worker.PROBE]) == 6


def test_the_pause_doubles_up_to_its_bound_and_scatters_EMB_5(settings: Any) -> None:
    settings.EMBEDDING_RETRY_BASE, settings.EMBEDDING_RETRY_MAX = 2, 600
    for attempts, ceiling in [(1, 2), (2, 4), (5, 32), (9, 512), (10, 600), (60, 600)]:
        delays = {retry_delay(attempts) for _ in range(50)}
        assert ceiling / 2 <= min(delays) < max(delays) <= ceiling


def test_a_failed_refresh_leaves_the_good_vector_serving_EMB_9(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    pk = pipeline.add(PERMANENT)
    pipeline.work()
    use("PoisonEmbedder")
    pipeline.refresh(pk)
    pipeline.work()
    row = pipeline.embedding(pk)
    assert (row["status"], row["error"]) == ("ready", "this text cannot be embedded")


def for_texts_alone(reply: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The provider is in order: its answer to the worker's probe is right."""
    probe = hash_vector(worker.PROBE)
    return lambda vectors: vectors if np.array_equal(vectors, probe[None]) else reply(vectors)


def test_an_error_that_the_provider_did_not_announce_is_the_texts_own_R5(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    def explode(vectors: Any) -> Any:
        raise ZeroDivisionError("inside the provider")

    use("WrongEmbedder").reply = for_texts_alone(explode)
    pk = pipeline.add()
    pipeline.work()
    task = pipeline.task(pk)
    assert task is not None
    assert task["attempts"] == 1
    assert "ZeroDivisionError" in task["last_error"]


REPLIES = {
    "one vector too few": lambda vectors: vectors[:-1],
    "one vector too many": lambda vectors: np.concatenate([vectors, vectors[:1]]),
    "a wrong dimension": lambda vectors: vectors[:, :100],
    "a number that is none": lambda vectors: vectors * np.float32("nan"),
    "infinity": lambda vectors: vectors * np.float32("inf"),
    "zeros": lambda vectors: vectors * 0,
    "an unnormalised vector": lambda vectors: vectors * 2,
    "nothing": lambda _: None,
    "text": lambda _: "sorry",
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_wrong_reply_is_refused_and_stored_nowhere_EMB_7(
    pipeline: Pipeline, use: Callable[..., Any], reply: Callable[[Any], Any]
) -> None:
    use("WrongEmbedder", EMBEDDING_MAX_ATTEMPTS=1).reply = for_texts_alone(reply)
    pks = [pipeline.add("One."), pipeline.add("Two.")]
    done = pipeline.work()
    assert done.stored == 0
    for pk in pks:
        row = pipeline.embedding(pk)
        assert (row["status"], row["vector"]) == ("failed", None)
        assert row["error"].startswith("The embedding provider")


def test_a_vector_that_is_none_is_refused_by_a_direct_insert_too_R13(pipeline: Pipeline) -> None:
    pipeline.add()
    pipeline.work()
    copied = (
        "INSERT INTO tools_toolembedding (id, tenant_id, entity_id, slot, active, status, source_hash, vector_hash, vector, model, "
        "dimension, truncated, error) SELECT gen_random_uuid(), tenant_id, entity_id, 1, active, status, source_hash, vector_hash, "
        "{}, model, dimension, truncated, error FROM tools_toolembedding"
    )
    for vector in (
        "array_fill(0, ARRAY[384])::vector",
        "array_fill(1e-30, ARRAY[384])::vector",
        "vector * array_fill(1.02, ARRAY[384])::vector",
    ):
        with pytest.raises(psycopg.errors.CheckViolation, match="toolembedding_vector_normalised"):
            pipeline.owner.execute(copied.format(vector))
    for vector in ("subvector(vector, 1, 383)", "'[NaN]'::vector"):
        with pytest.raises(psycopg.errors.DataException):
            pipeline.owner.execute(copied.format(vector))
    pipeline.owner.execute(copied.format("vector"))  # what was wrong above is the vector alone


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ("vector = array_fill(0.9, ARRAY[384])::vector", "toolembedding_vector_normalised"),
        ("vector = array_fill(0, ARRAY[384])::vector", "toolembedding_vector_normalised"),
        ("source_hash = 'other'", "toolembedding_ready_is_current"),
        ("vector_hash = NULL", "toolembedding_ready_is_current"),
        ("vector = NULL, vector_hash = source_hash", "toolembedding_ready_is_current"),
        ("status = 'fine'", "toolembedding_status_known"),
        ("slot = 2", "toolembedding_slot_0_or_1"),
    ],
)
def test_the_database_itself_refuses_what_no_code_should_write_EMB_4(
    pipeline: Pipeline, columns: str, constraint: str
) -> None:
    pipeline.add()
    pipeline.work()
    with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
        pipeline.owner.execute(f"UPDATE tools_toolembedding SET {columns}")


class TestTheProviderIsDown:
    @pytest.fixture
    def down(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[..., Any]) -> Path:
        sign = tmp_path / "down"
        monkeypatch.setenv("TEST_EMBEDDER_DOWN", str(sign))
        use("DownEmbedder", EMBEDDING_CIRCUIT_SECONDS=30, EMBEDDING_CIRCUIT_ERRORS=2, EMBEDDING_BATCH_SIZE=4)
        sign.touch()
        return sign

    def test_no_row_loses_an_attempt_and_two_calls_are_made_EMB_5(
        self, pipeline: Pipeline, down: Path
    ) -> None:
        for number in range(10):
            pipeline.add(f"Text {number}.")
        done = pipeline.work()
        assert (done.claimed, done.failed) == (8, 0)
        assert {(task["status"], task["attempts"], task["claim_id"]) for task in pipeline.tasks()} == {
            ("pending", 0, None)
        }
        assert "the provider cannot be reached" in {task["last_error"] for task in pipeline.tasks()}
        assert pipeline.work().claimed == 0  # the circuit is open
        circuit = pipeline.circuit()
        assert circuit is not None
        assert 25 < circuit["left"] <= 30

    def test_all_becomes_ready_after_its_return_EMB_5(self, pipeline: Pipeline, down: Path) -> None:
        pks = [pipeline.add(f"Text {number}.") for number in range(10)]
        for _ in range(20):  # many more outages than a row has attempts
            pipeline.work()
            pipeline.provider_is_tried_again()
            pipeline.make_due()
        down.unlink()
        pipeline.work()
        for pk in pks:
            pipeline.check_ready(pk)

    def test_the_other_tenants_tasks_of_the_batch_are_given_back_uncalled_EMB_5(
        self, pipeline: Pipeline, down: Path, make_tenant: Callable[..., Any]
    ) -> None:
        other = Pipeline(make_tenant().pk, pipeline.owner)
        pipeline.add()
        other.add()
        assert pipeline.work(batches=1).claimed == 2
        [row] = pipeline.all("SELECT errors FROM embeddings_embeddingcircuit")
        assert row["errors"] == 1
        assert [(task["status"], task["attempts"]) for task in pipeline.tasks()] == [("pending", 0)] * 2

    def test_trouble_in_the_midst_of_halving_blames_no_text_EMB_5(
        self, pipeline: Pipeline, use: Callable[..., Any]
    ) -> None:
        calls = 0

        def reply(vectors: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise ValueError("this batch is odd")
            if calls == 2:
                return vectors  # the probe: it is none of the provider's doing
            raise worker.ProviderError("too many requests", provider_wide=True, retry_after=7)

        use("WrongEmbedder").reply = reply
        for number in range(8):
            pipeline.add(f"Text {number}.")
        pipeline.work()
        assert calls == 3
        assert {(task["status"], task["attempts"]) for task in pipeline.tasks()} == {("pending", 0)}
        circuit = pipeline.circuit()
        assert circuit is not None
        assert 5 < circuit["left"] <= 7


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
