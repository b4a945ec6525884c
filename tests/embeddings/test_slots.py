"""EMB-10: a second model's vectors are made beside those that serve, one switch lets them serve, and one switch goes back.

The two models here have nothing in common (ModelEmbedder), so a question that is embedded by one and compared with the
other finds no tool at similarity 1, which is how a mixed answer is seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest

from embeddings import slots
from embeddings.models import EmbeddingModel
from embeddings.reconcile import reconcile
from embeddings.slots import SlotError
from tests.embeddings.pipeline import Pipeline, in_thread, login
from tools.search.query import SearchQuery
from tools.search.service import search

Use = Callable[..., Any]


@pytest.fixture
def first(pipeline: Pipeline, use: Use) -> Iterator[Pipeline]:
    """Ten tools with vectors of model-1, which serves."""
    use("ModelEmbedder", EMBEDDING_MODEL="model-1")
    adopt()
    for number in range(10):
        pipeline.add(f"Text {number}.")
    pipeline.work()
    yield pipeline
    pipeline.owner.execute("DELETE FROM embeddings_embeddingmodel")
    slots.forget()


@pytest.fixture
def second(first: Pipeline, use: Use) -> Pipeline:
    """The same, and model-2 has been named, but nothing of it is made yet."""
    use("ModelEmbedder", EMBEDDING_MODEL="model-2")
    adopt()
    return first


def adopt() -> str:
    with login("DATABASE_ADMIN_URL"):
        return slots.adopt()


def fill(pipeline: Pipeline) -> None:
    with login("DATABASE_WORKER_URL"):
        reconcile()
    pipeline.work()


def switch() -> slots.Slot:
    with login("DATABASE_ADMIN_URL"):
        return slots.switch()


def drop() -> slots.Slot:
    with login("DATABASE_ADMIN_URL"):
        return slots.drop()


def progress() -> tuple[int, int, int]:
    with login("DATABASE_WORKER_URL"):
        found = slots.completeness()
    assert found is not None
    return found.total, found.ready, found.failed


def rows(pipeline: Pipeline, slot: int) -> list[dict[str, Any]]:
    return pipeline.all("SELECT * FROM tools_toolembedding WHERE slot = %s ORDER BY entity_id", slot)


def similarity(pipeline: Pipeline, pk: UUID) -> float:
    """Of the tool to its own text, as a search sees it: 1 unless the models are mixed."""
    answer = search(pipeline.tenant_id, SearchQuery(pipeline.text(pk)))
    [found] = [hit.components["similarity"] for hit in answer.hits if hit.tool["id"] == pk]
    return float(found)


def any_tool(pipeline: Pipeline) -> UUID:
    return UUID(str(rows(pipeline, 0)[3]["entity_id"]))


def test_the_first_model_serves_at_once_and_a_third_is_refused_EMB_10(second: Pipeline, use: Use) -> None:
    assert [(slot.number, slot.model, slot.serves) for slot in slots.kept()] == [
        (0, "model-1", True),
        (1, "model-2", False),
    ]
    use("ModelEmbedder", EMBEDDING_MODEL="model-3")
    with pytest.raises(SlotError, match="drop"):
        adopt()


def test_a_model_that_has_a_slot_is_adopted_without_a_word_and_learns_its_new_provider_EMB_10(
    first: Pipeline, use: Use
) -> None:
    use("HashEmbedder", EMBEDDING_MODEL="model-1")
    assert adopt() == ""
    assert [row.provider for row in EmbeddingModel.objects.all()] == ["tests.providers.HashEmbedder"]


def test_the_old_vectors_serve_while_the_new_ones_are_made_EMB_10(second: Pipeline) -> None:
    pk = any_tool(second)
    assert progress() == (10, 0, 0)
    assert similarity(second, pk) == pytest.approx(1)
    fill(second)
    assert progress() == (10, 10, 0)
    assert [row["model"] for row in rows(second, 1)] == ["model-2"] * 10
    assert similarity(second, pk) == pytest.approx(1)


def test_a_write_keeps_both_slots_EMB_10(second: Pipeline) -> None:
    pk = any_tool(second)
    second.edit(pk, "Another text.")
    assert {(task["model"], task["status"]) for task in second.tasks()} == {
        ("model-1", "pending"),
        ("model-2", "pending"),
    }
    second.work()
    found = second.all(
        "SELECT model, status, vector_hash = source_hash AS current FROM tools_toolembedding WHERE entity_id = %s ORDER BY slot",
        pk,
    )
    assert [tuple(row.values()) for row in found] == [("model-1", "ready", True), ("model-2", "ready", True)]
    assert second.tasks() == []


def test_an_incomplete_slot_cannot_serve_EMB_10(second: Pipeline) -> None:
    with pytest.raises(SlotError, match="0 of 10"):
        switch()
    assert slots.kept()[0].model == "model-1"


def test_half_a_percent_may_have_failed_and_no_more_EMB_10() -> None:
    assert slots.Completeness(1000, 995, 5).is_complete
    assert not slots.Completeness(1000, 994, 6).is_complete
    assert not slots.Completeness(1000, 994, 0).is_complete
    assert not slots.Completeness(10, 9, 1).is_complete


def test_the_switch_and_the_way_back_change_what_serves_at_once_EMB_10(second: Pipeline) -> None:
    pk = any_tool(second)
    fill(second)
    assert switch().model == "model-2"
    assert similarity(second, pk) == pytest.approx(1)
    assert switch().model == "model-1"
    assert similarity(second, pk) == pytest.approx(1)


def test_a_search_in_the_wrong_slot_would_be_seen_EMB_10(
    second: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The mutant of the tests above and below: the question of one model against the vectors of the other.
    fill(second)
    mixed = slots.Slot(1, "model-1", "tests.providers.ModelEmbedder", "", serves=True)
    monkeypatch.setattr(slots, "serving", lambda: mixed)
    assert abs(similarity(second, any_tool(second))) < 0.5


def test_searches_and_edits_go_on_during_switches_and_no_answer_is_mixed_EMB_10(second: Pipeline) -> None:
    fill(second)
    pks = [UUID(str(row["entity_id"])) for row in rows(second, 0)]
    over = threading.Event()
    similarities: list[float] = []
    switched: list[str] = []

    def searching() -> None:
        # Tools that are not edited meanwhile, since an edited one has no vector until it is ready again.
        while not over.is_set():
            similarities.extend(similarity(second, pk) for pk in pks[:3])

    def editing() -> None:
        count = 0
        while not over.is_set():
            count += 1
            second.edit(pks[5], f"Edit {count}.")
            second.work()

    with in_thread(searching), in_thread(editing):
        try:
            while len(switched) < 10:
                # Between the edit's two vectors the other slot is not complete, and the switch is refused.
                with suppress(SlotError):
                    switched.append(switch().model)
        finally:
            over.set()
    assert len(similarities) >= 3
    assert similarities == pytest.approx([1] * len(similarities))
    second.work()
    assert progress() == (10, 10, 0)


def test_a_dropped_slot_leaves_neither_vectors_nor_tasks_and_can_be_taken_again_EMB_10(
    second: Pipeline, use: Use
) -> None:
    fill(second)
    switch()
    second.edit(any_tool(second), "Waits in both.")
    assert drop().model == "model-1"
    assert rows(second, 0) == []
    assert {task["model"] for task in second.tasks()} == {"model-2"}
    with pytest.raises(SlotError):
        drop()
    use("ModelEmbedder", EMBEDDING_MODEL="model-3")
    assert "beside those of model-2" in adopt()
    fill(second)
    assert [row["model"] for row in rows(second, 0)] == ["model-3"] * 10


def test_what_a_late_write_left_in_a_dropped_slot_is_not_taken_for_the_next_models_EMB_10(
    second: Pipeline, use: Use
) -> None:
    fill(second)
    second.owner.execute(
        "DELETE FROM embeddings_embeddingmodel WHERE slot = 1"
    )  # a drop that was killed half way
    use("ModelEmbedder", EMBEDDING_MODEL="model-3")
    adopt()
    assert rows(second, 1) == []
    fill(second)
    assert [row["model"] for row in rows(second, 1)] == ["model-3"] * 10


def test_trouble_of_one_provider_holds_up_no_other_EMB_10(second: Pipeline) -> None:
    from embeddings import worker

    worker.circuits["model-2"].open(60, "down")
    pk = second.add("New.")
    second.work()
    assert [
        row["status"]
        for row in second.all("SELECT status FROM tools_toolembedding WHERE entity_id = %s ORDER BY slot", pk)
    ] == [
        "ready",
        "pending",
    ]


def test_a_model_that_this_process_cannot_have_costs_no_attempt_and_searches_go_on_by_words_EMB_10(
    second: Pipeline, use: Use
) -> None:
    second.owner.execute("UPDATE embeddings_embeddingmodel SET provider = 'no.such.Provider' WHERE slot = 0")
    slots.forget()
    pk = second.add("New.")
    second.work()
    assert {(task["model"], task["attempts"], task["status"]) for task in second.tasks()} == {
        ("model-1", 0, "pending")
    }
    answer = search(second.tenant_id, SearchQuery("New."))
    assert (answer.mode, answer.degraded) == ("keyword", ("embedding_unavailable",))
    assert pk in [hit.tool["id"] for hit in answer.hits]


def test_the_command_says_how_far_the_second_model_is_and_switches_EMB_10(second: Pipeline) -> None:
    fill(second)

    environment = {
        **os.environ,
        "EMBEDDING_MODEL": "model-2",
        "EMBEDDING_PROVIDER": "tests.providers.ModelEmbedder",
    }
    environment.pop("PORTAL_DB_ROLE", None)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", "embedding_model", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    status = json.loads(run("status", "--json").stdout)
    assert status["progress"] == {"total": 10, "ready": 10, "failed": 0, "complete": True}
    assert [model["serves"] for model in status["models"]] == [True, False]
    assert "model-2 serves now" in run("switch").stdout
    assert run("drop").returncode == 0
    refused = run("switch")
    assert (refused.returncode, refused.stderr.count("\n")) == (3, 1)
