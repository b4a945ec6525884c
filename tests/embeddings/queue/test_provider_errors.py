"""EMB-4, EMB-5, EMB-7: what becomes of a claimed task whose provider fails, lies or is down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from embeddings.providers import ProviderError
from embeddings.queue import worker
from embeddings.queue.worker import retry_delay
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import CANNOT, CANNOT_EVER, PERMANENT, hash_vector

POISON = "A poison."


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
    assert (row["status"], row["error"], row["vector"]) == ("failed", CANNOT_EVER.public, None)
    assert (task["status"], task["last_error"], task["attempts"]) == (
        "failed",
        CANNOT_EVER.public,
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
    assert pipeline.embedding(pk)["error"] == CANNOT.public
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
    assert (row["status"], row["error"]) == ("ready", CANNOT_EVER.public)


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
    assert "ZeroDivisionError" not in task["last_error"]
    assert "did not return a usable vector" in task["last_error"]


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
        assert ProviderError("the provider cannot be reached", provider_wide=True).public in {
            task["last_error"] for task in pipeline.tasks()
        }
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
