"""The signs of a text's word pieces are kept with its vector: they are of the same text, come and go with it, and are made good
where a vector has none (EMB-4, R14).

To see the compare-and-set fail: `token_signs` set in claims.sql by an UPDATE of its own, without `ours`. To see the repair fail:
the condition on token_signs left out of reconcile.sql.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from embeddings.models import Priority
from embeddings.queue.reconcile import reconcile
from embeddings.token_signs import token_signs
from tests.support.database import login
from tests.support.embeddings.pipeline import Pipeline
from tests.support.embeddings.providers import hash_vector, word_states


def signs_of(text: str) -> bytes:
    return token_signs(text, word_states(text))


def repaired() -> int:
    with login("DATABASE_WORKER_URL"):
        return reconcile()


@pytest.fixture
def with_tokens(use: Callable[..., Any]) -> Any:
    return use("TokenEmbedder")


def test_signs_are_stored_with_the_vector_of_the_same_text_EMB_4(
    pipeline: Pipeline, with_tokens: Any
) -> None:
    pk = pipeline.add("First text.")
    pipeline.work()
    first = pipeline.embedding(pk)["token_signs"]
    assert first == signs_of(pipeline.text(pk))
    pipeline.edit(pk, "Second, quite another text.")
    assert pipeline.embedding(pk)["token_signs"] == first, (
        "they go with the vector, which is still of the old text"
    )
    pipeline.work()
    assert pipeline.embedding(pk)["token_signs"] == signs_of(pipeline.text(pk)) != first


def test_signs_of_a_text_that_changed_meanwhile_are_not_stored_EMB_4(
    pipeline: Pipeline, with_tokens: Any
) -> None:
    from embeddings.queue import claims

    pk = pipeline.add("Old text.")
    with login("DATABASE_WORKER_URL"):
        [old] = claims.claim(10)
        pipeline.edit(pk, "New text.")
        entity = claims.registry.get("tool")
        late = claims.Embedded(old, hash_vector("x"), truncated=False, token_signs=b"late")
        assert claims.store(entity, [late]) == 0
    pipeline.work()
    assert pipeline.embedding(pk)["token_signs"] == signs_of(pipeline.text(pk))


def test_a_provider_without_word_pieces_leaves_none_EMB_7(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    pk = pipeline.add()
    use("TokenEmbedder")
    pipeline.work()
    use("HashEmbedder")
    pipeline.edit(pk, "Another text.")
    pipeline.work()
    row = pipeline.embedding(pk)
    assert (row["status"], row["token_signs"]) == ("ready", None)
    assert repaired() == 0, "there is nobody who could make them"


def test_vectors_from_before_there_were_signs_are_made_good_behind_everything_else_R14(
    pipeline: Pipeline, with_tokens: Any
) -> None:
    pks = [pipeline.add(f"Text {number}.") for number in range(3)]
    pipeline.work()
    pipeline.owner.execute("UPDATE tools_toolembedding SET token_signs = NULL")
    assert repaired() == 3
    assert {task["priority"] for task in pipeline.tasks()} == {Priority.BACKFILL}
    assert {pipeline.status(pk) for pk in pks} == {"ready"}, "the vectors serve meanwhile"
    assert repaired() == 0
    pipeline.work()
    assert [pipeline.embedding(pk)["token_signs"] for pk in pks] == [
        signs_of(pipeline.text(pk)) for pk in pks
    ]
    assert repaired() == 0


def test_the_signs_lie_outside_the_row_and_the_vector_in_it_SRC_11(
    pipeline: Pipeline, with_tokens: Any
) -> None:
    for number in range(3):
        pipeline.add(
            f"Text {number} of many words, so that all twelve pieces are there: one, two, three, four, five."
        )
    pipeline.work()
    rows = pipeline.all(
        "SELECT pg_column_toast_chunk_id(vector) IS NULL AS vector_within, length(token_signs) AS bytes, "
        "pg_column_toast_chunk_id(token_signs) IS NULL AS signs_within FROM tools_toolembedding"
    )
    assert rows == [{"vector_within": True, "bytes": 576, "signs_within": False}] * 3
