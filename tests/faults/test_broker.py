"""R6, case 46: the broker is not on the way of a save, nor of its embedding. It only makes it quick."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from tests.faults.conftest import Portal, frozen


@contextmanager
def killed_broker(portal: Portal) -> Iterator[None]:
    portal.servers.valkey.stop()
    try:
        yield
    finally:
        portal.servers.valkey.start()


@contextmanager
def frozen_broker(portal: Portal) -> Iterator[None]:
    with frozen(portal.servers.pids["valkey"]):
        yield


Outage = Callable[[Portal], AbstractContextManager[None]]


def test_with_the_broker_killed_or_frozen_saves_are_quick_search_answers_and_the_poll_embeds_R6(
    portal: Portal,
) -> None:
    with portal.celery(EMBEDDING_POLL="0.5"):
        for outage in (killed_broker, frozen_broker):
            work_without_a_broker(portal, outage)


def work_without_a_broker(portal: Portal, outage: Outage) -> None:
    portal.clear()
    tools = dict.fromkeys(portal.add(*(f"First text {number}." for number in range(20))), 1)
    texts = {}
    portal.wait_until_all_ready(30)
    with outage(portal):
        for round_ in range(2):
            for number, pk in enumerate(tools):
                texts[pk] = f"Text {round_}.{number} without a broker."
                tools[pk] = portal.edit(pk, texts[pk], tools[pk])
        assert len(portal.search("text without a broker")) == 10
        portal.wait_until_all_ready(15)
        portal.check_nothing_lost_nor_stale(texts)
    pk = next(iter(tools))
    texts[pk] = "After its return."
    portal.edit(pk, texts[pk], tools[pk])
    portal.wait_until_all_ready(15)
    portal.check_nothing_lost_nor_stale(texts)


def test_a_worker_that_starts_while_the_broker_is_down_works_R6(portal: Portal) -> None:
    portal.add("Waits.")
    with killed_broker(portal), portal.celery():
        portal.wait_until_all_ready(30)


def test_the_bell_wakes_a_worker_whose_poll_is_a_minute_away_R8(portal: Portal) -> None:
    [pk] = portal.add("First.")
    with portal.celery(EMBEDDING_POLL="60"):
        portal.wait_until_all_ready(30)
        time.sleep(1)  # now it waits for its next poll
        version, waits = 1, []
        for number in range(5):
            begun = time.monotonic()
            version = portal.edit(pk, f"Text {number}.", version)
            portal.wait_until_all_ready(10)
            waits.append(time.monotonic() - begun)
        assert sorted(waits)[2] < 0.5, waits

        with killed_broker(portal):  # the mutant: a bell that reaches nobody
            version = portal.edit(pk, "Nobody hears of this.", version)
            time.sleep(2)
            assert portal.statuses() == {"pending"}

        # The broker is back, and so is the bell, once the worker has found it again.
        for number in range(40):
            version = portal.edit(pk, f"Heard again {number}.", version)
            time.sleep(0.5)
            if portal.statuses() == {"ready"}:
                break
        portal.wait_until_all_ready(5)


def test_a_celery_worker_told_to_end_gives_its_claim_back_uncounted_R2(portal: Portal) -> None:
    portal.add("One.")
    slow = {"EMBEDDING_PROVIDER": "tests.providers.SlowEmbedder", "TEST_EMBEDDER_SECONDS": "20"}
    with portal.celery(**slow) as worker:
        deadline = time.monotonic() + 30
        while not portal.rows("SELECT 1 FROM embeddings_embeddingtask WHERE status = 'running'"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        told = time.monotonic()
        worker.terminate()
        worker.wait(10)
        assert time.monotonic() - told < 3
    [task] = portal.rows("SELECT status, attempts FROM embeddings_embeddingtask")
    assert (task["status"], task["attempts"]) == ("pending", 0)
