"""EMB-10: what the reconciler finds is enqueued, in whichever slot it is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from embeddings import slots
from embeddings.queue.reconcile import reconcile
from tests.support.database import login
from tests.support.embeddings.pipeline import Pipeline


def test_a_slot_that_serves_before_anything_was_ready_is_filled_as_well_EMB_10(
    pipeline: Pipeline, use: Callable[..., Any]
) -> None:
    with login("DATABASE_ADMIN_URL"):
        use("ModelEmbedder", EMBEDDING_MODEL="model-1")
        slots.ensure_slot()
    pipeline.add("Text.")
    with login("DATABASE_ADMIN_URL"):
        use("ModelEmbedder", EMBEDDING_MODEL="model-2")
        slots.ensure_slot()
    assert slots.switch().model == "model-2"  # no vector was ready, so none is missing
    with login("DATABASE_WORKER_URL"):
        reconcile()
    pipeline.work()
    rows = pipeline.all("SELECT model, status FROM tools_toolembedding ORDER BY model")
    assert [(row["model"], row["status"]) for row in rows] == [("model-1", "ready"), ("model-2", "ready")]
    pipeline.owner.execute("DELETE FROM embeddings_embeddingmodel")
    slots.clear_cache()
