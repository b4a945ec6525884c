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
from contextlib import ExitStack, suppress
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db.utils import ProgrammingError

from embeddings import slots
from embeddings.models import EmbeddingModel
from embeddings.providers import ProviderError
from embeddings.queue.reconcile import reconcile
from embeddings.slots import SlotError
from portal.resilience import circuit_breaker
from portal.tenancy.models import Tenant
from portal.tenancy.rights import Rights
from tests.support.database import login
from tests.support.embeddings.mutants import mutant
from tests.support.embeddings.pipeline import Pipeline
from tests.support.threads import in_thread
from tools.search.query import SearchQuery
from tools.search.service import search

Use = Callable[..., Any]


@pytest.fixture
def first(pipeline: Pipeline, use: Use) -> Iterator[Pipeline]:
    """Ten tools with vectors of model-1, which serves."""
    use("ModelEmbedder", EMBEDDING_MODEL="model-1")
    ensure_slot()
    for number in range(10):
        pipeline.add(f"Text {number}.")
    pipeline.work()
    yield pipeline
    pipeline.owner.execute("DELETE FROM embeddings_embeddingmodel")
    slots.clear_cache()


@pytest.fixture
def second(first: Pipeline, use: Use) -> Pipeline:
    """The same, and model-2 has been named, but nothing of it is made yet."""
    use("ModelEmbedder", EMBEDDING_MODEL="model-2")
    ensure_slot()
    return first


def ensure_slot() -> str:
    with login("DATABASE_ADMIN_URL"):
        return slots.ensure_slot()


def fill(pipeline: Pipeline) -> None:
    with login("DATABASE_WORKER_URL"):
        reconcile()
    pipeline.work()


def switch(to: str = "") -> slots.Slot:
    """By the web's login, which is the one of the tests."""
    return slots.switch(to)


def drop(model: str = "") -> slots.Slot:
    """As from the page: the web's login gives the slot up, the worker's deletes what it holds."""
    gone = slots.drop(model)
    with login("DATABASE_WORKER_URL"):
        reconcile()
    return gone


def progress() -> tuple[int, int, int]:
    found = slots.completeness()
    assert found is not None
    return found.total, found.ready, found.failed


def rows(pipeline: Pipeline, slot: int) -> list[dict[str, Any]]:
    return pipeline.all("SELECT * FROM tools_toolembedding WHERE slot = %s ORDER BY entity_id", slot)


def similarity(pipeline: Pipeline, pk: UUID) -> float:
    """Of the tool to its own text, as a search sees it: 1 unless the models are mixed."""
    answer = search(Rights.unrestricted(pipeline.tenant_id, "test"), SearchQuery(pipeline.text(pk)))
    [found] = [hit.components["similarity"] for hit in answer.hits if hit.tool["id"] == pk]
    return float(found)


def any_tool(pipeline: Pipeline) -> UUID:
    return UUID(str(rows(pipeline, 0)[3]["entity_id"]))


def test_the_first_model_serves_at_once_and_a_third_is_refused_EMB_10(second: Pipeline, use: Use) -> None:
    assert [(slot.number, slot.model, slot.serves) for slot in slots.all()] == [
        (0, "model-1", True),
        (1, "model-2", False),
    ]
    use("ModelEmbedder", EMBEDDING_MODEL="model-3")
    with pytest.raises(SlotError, match="drop"):
        ensure_slot()


def test_a_model_that_has_a_slot_is_adopted_without_a_word_and_learns_its_new_provider_EMB_10(
    first: Pipeline, use: Use
) -> None:
    use("HashEmbedder", EMBEDDING_MODEL="model-1")
    assert ensure_slot() == ""
    assert [row.provider for row in EmbeddingModel.objects.all()] == [
        "tests.support.embeddings.providers.HashEmbedder"
    ]


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
    assert slots.all()[0].model == "model-1"


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


def test_asking_twice_for_a_switch_or_a_drop_does_not_do_the_opposite_EMB_10(second: Pipeline) -> None:
    fill(second)
    assert [switch("model-2").model for _ in range(2)] == ["model-2", "model-2"]
    with pytest.raises(SlotError, match="is model-1 now, and not model-2"):
        drop("model-2")
    assert drop("model-1").model == "model-1"
    with pytest.raises(SlotError):
        drop("model-1")
    assert [slot.model for slot in slots.all()] == ["model-2"]


def test_the_count_is_over_all_tenants_whatever_the_login_EMB_10(
    second: Pipeline, make_tenant: Callable[..., Tenant]
) -> None:
    other = Pipeline(make_tenant().pk, second.owner)
    other.add("Of another tenant.")
    fill(second)
    other.owner.execute(
        "UPDATE tools_toolembedding SET status = 'failed' WHERE slot = 1 AND tenant_id = %s",
        [other.tenant_id],
    )
    for variable in ("DATABASE_URL", "DATABASE_WORKER_URL", "DATABASE_ADMIN_URL"):
        with login(variable):
            assert slots.completeness() == slots.Completeness(total=11, ready=10, failed=1)
    with pytest.raises(SlotError, match="10 of 11"):
        switch()


def test_a_table_of_embeddings_that_the_count_may_not_read_is_an_error_and_not_left_out_EMB_10(
    second: Pipeline,
) -> None:
    second.owner.execute("CREATE TABLE forgotten (LIKE tools_toolembedding)")
    try:
        with pytest.raises(ProgrammingError, match="permission denied for table forgotten"):
            switch()
    finally:
        second.owner.execute("DROP TABLE forgotten")


def test_a_search_in_the_wrong_slot_would_be_seen_EMB_10(
    second: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The mutant of the tests above and below: the question of one model against the vectors of the other.
    fill(second)
    mixed = slots.Slot(1, "model-1", "tests.support.embeddings.providers.ModelEmbedder", "", serves=True)
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
    assert "beside those of model-2" in ensure_slot()
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
    ensure_slot()
    assert rows(second, 1) == []
    fill(second)
    assert [row["model"] for row in rows(second, 1)] == ["model-3"] * 10


def test_what_nobody_will_come_back_to_is_deleted_by_the_reconciler_EMB_3(second: Pipeline) -> None:
    fill(second)
    asked = (
        "INSERT INTO embeddings_embeddingtask (id, tenant_id, entity_type, entity_id, model, source_hash, status, priority, attempts, "
        "last_error) VALUES (gen_random_uuid(), %s, 'tool', {}, %s, 'x', 'failed', 0, 6, 'no')"
    )
    gone, dropped = asked.format("gen_random_uuid()"), asked.format("(SELECT id FROM tools_tool LIMIT 1)")
    second.owner.execute(gone, [second.tenant_id, "model-1"])
    second.owner.execute(dropped, [second.tenant_id, "model-0"])
    second.owner.execute(
        dropped, [second.tenant_id, "model-1"]
    )  # of a tool that is there: somebody may look at it
    with login("DATABASE_WORKER_URL"):
        circuit_breaker.record_failure("model-0", "passage", ProviderError("down"), at_once=True)
        circuit_breaker.record_failure("model-1", "query", ProviderError("down"), at_once=True)
        reconcile()
    assert [task["model"] for task in second.tasks()] == ["model-1"]
    assert [trouble.name for trouble in circuit_breaker.open_circuits()] == ["model-1"]


def test_a_model_that_is_reached_in_another_way_is_asked_at_once_EMB_5(
    first: Pipeline, settings: Any
) -> None:
    with login("DATABASE_WORKER_URL"):
        circuit_breaker.record_failure("model-1", "passage", ProviderError("down"), at_once=True)
    ensure_slot()  # a restart alone changes nothing
    assert first.circuit() is not None
    settings.EMBEDDING_URL = "http://127.0.0.1:1"
    ensure_slot()
    assert first.circuit() is None


def edited_beside_a_repair(pipeline: Pipeline, pk: UUID) -> None:
    """Somebody locks the serving slot's row, as a repair does, and then wants the other one, while an edit wants both.
    Nothing can hang: an edit's wait ends with its lock_timeout, and the other side does not wait at all."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    row = "SELECT FROM tools_toolembedding WHERE entity_id = %s AND slot = %s FOR UPDATE"
    with ExitStack() as threads, pipeline.owner.transaction():
        pipeline.owner.execute(row, [pk, 1])
        threads.enter_context(in_thread(lambda: pipeline.edit(pk, "Edited beside a repair.")))
        for _ in range(300):
            pipeline.owner.execute("SELECT pg_stat_clear_snapshot()")
            if pipeline.owner.execute(waiting).fetchone() == (1,):
                break
            pipeline.owner.execute("SELECT pg_sleep(0.005)")
        else:
            raise LookupError("the edit waits for nothing: the test is none")
        pipeline.owner.execute(f"{row} NOWAIT", [pk, 0])


def test_an_edit_and_a_repair_lock_the_two_slots_in_one_order_EMB_4(second: Pipeline) -> None:
    fill(second)
    switch()  # the order of the slots' numbers is now the wrong one
    [pk, other, *_] = [row["entity_id"] for row in rows(second, 0)]
    edited_beside_a_repair(second, pk)
    with (
        mutant("ORDER BY w.entity_id, s.place", "ORDER BY w.entity_id, s.slot"),
        pytest.raises(psycopg.errors.LockNotAvailable),
    ):
        edited_beside_a_repair(second, other)


def test_trouble_of_one_provider_holds_up_no_other_EMB_10(second: Pipeline) -> None:
    with login("DATABASE_WORKER_URL"):
        circuit_breaker.record_failure("model-2", "passage", ProviderError("down"), at_once=True)
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
    slots.clear_cache()
    pk = second.add("New.")
    second.work()
    assert {(task["model"], task["attempts"], task["status"]) for task in second.tasks()} == {
        ("model-1", 0, "pending")
    }
    answer = search(Rights.unrestricted(second.tenant_id, "test"), SearchQuery("New."))
    assert (answer.mode, answer.degraded) == ("keyword", ("embedding_unavailable",))
    assert pk in [hit.tool["id"] for hit in answer.hits]


def test_the_command_says_how_far_the_second_model_is_and_switches_EMB_10(second: Pipeline) -> None:
    fill(second)

    environment = {
        **os.environ,
        "EMBEDDING_MODEL": "model-2",
        "EMBEDDING_PROVIDER": "tests.support.embeddings.providers.ModelEmbedder",
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
