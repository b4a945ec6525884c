"""R6: requests that wait for other servers never take the last worker of the web. S20: nor does a tenant take every place for them."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection
from typing import Any, Self
from uuid import UUID, uuid4

import psycopg
import pytest
from django.conf import settings

from bench.stack import Client, stack
from portal.http import bulkhead as bulkhead_module
from portal.http.bulkhead import TooBusy, bulkhead
from tests.support.database import real_commits
from tests.support.imports.documents import document
from tests.support.threads import in_thread

US, NEIGHBOUR, THIRD = uuid4(), uuid4(), uuid4()


@pytest.fixture(autouse=True)
def no_turns() -> None:
    """Those of the tests before."""
    bulkhead_module._write_turns({})


def hold(told: Connection, tenant_id: UUID) -> None:
    with bulkhead(tenant_id):
        told.send("held")
        told.recv()


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Connection]]:
    """Another process of the web, of two, that holds the only place, for a neighbour."""
    monkeypatch.setattr(settings, "WEB_CONCURRENCY", 2)
    forked = multiprocessing.get_context("fork")
    here, there = forked.Pipe()
    process = forked.Process(target=hold, args=(there, NEIGHBOUR), daemon=True)
    process.start()
    assert here.recv() == "held"
    yield process, here
    process.kill()
    process.join()


def test_of_two_workers_one_may_ask_others_at_a_time(holder: tuple[Any, Connection]) -> None:
    process, told = holder
    with pytest.raises(TooBusy, match="Nothing was done"), bulkhead(US):
        pass
    told.send("enough")
    process.join()
    with bulkhead(US):
        pass


def test_the_place_of_a_killed_worker_is_free_again(holder: tuple[Any, Connection]) -> None:
    process, _ = holder
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with bulkhead(US):
        pass


def test_one_worker_alone_takes_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "WEB_CONCURRENCY", 1)
    with bulkhead(US):
        pass


def is_refused(tenant_id: UUID) -> bool:
    try:
        with bulkhead(tenant_id):
            return False
    except TooBusy:
        return True


def test_a_tenant_that_was_refused_has_the_next_turn_and_then_the_others_have_theirs_S20(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "WEB_CONCURRENCY", 2)
    with bulkhead(NEIGHBOUR):
        assert is_refused(US)
        assert is_refused(THIRD)
        assert is_refused(NEIGHBOUR)  # it asks again and again
        assert is_refused(US)  # which does not move it to the end
    for _ in range(3):
        assert is_refused(NEIGHBOUR)
    assert is_refused(THIRD)
    for one in (US, THIRD, NEIGHBOUR, NEIGHBOUR):
        assert not is_refused(one)


def test_a_turn_that_nobody_takes_is_over_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "WEB_CONCURRENCY", 2)
    monkeypatch.setattr(bulkhead_module, "TURN_SECONDS", 0.5)
    with bulkhead(NEIGHBOUR):
        assert is_refused(US)
    assert is_refused(NEIGHBOUR)
    time.sleep(0.6)
    assert not is_refused(NEIGHBOUR)


def test_of_several_places_no_tenant_takes_the_last_one_S20(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "WEB_CONCURRENCY", 4)
    with bulkhead(NEIGHBOUR), bulkhead(NEIGHBOUR):
        with pytest.raises(TooBusy, match="Another import of yours"), bulkhead(NEIGHBOUR):
            pass
        with bulkhead(US):
            assert is_refused(THIRD)
        assert is_refused(NEIGHBOUR)
        assert not is_refused(THIRD)


def test_threads_of_one_process_share_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "WEB_CONCURRENCY", 2)
    said: list[bool] = []
    with bulkhead(NEIGHBOUR), in_thread(lambda: said.append(is_refused(US))):
        pass
    assert said == [True]


class SilentServer:
    """Takes connections and says nothing until it is told to hang up."""

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/openapi.json"
        self._taken: list[socket.socket] = []
        self.connected = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _accept(self) -> None:
        try:
            while True:
                self._taken.append(self._socket.accept()[0])
                self.connected.set()
        except OSError:
            pass

    def hang_up(self) -> None:
        for one in self._taken:
            one.close()

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self._socket.close()


def test_while_an_import_waits_for_a_stranger_the_web_answers_and_a_second_one_is_told_to_try_again_R6(
    django_db_blocker: Any, admin_database: psycopg.Connection[Any]
) -> None:
    with (
        real_commits(django_db_blocker, admin_database),
        SilentServer() as silent,
        stack(
            is_migrated=True, WEB_CONCURRENCY="2", IMPORT_ALLOWED_HOSTS=f"127.0.0.1:{silent.port}"
        ) as portal,
    ):
        key = portal.new_tenant("patient")
        portal.start("web")
        first: list[int] = []

        def ask() -> None:
            first.append(Client(portal.port, key).call("POST", "/api/v1/sources", {"url": silent.url})[0])

        thread = threading.Thread(target=ask)
        thread.start()
        assert silent.connected.wait(30)
        for _ in range(4):
            status, said = Client(portal.port, key).call("POST", "/api/v1/sources", {"url": silent.url})
            assert (status, said["title"]) == (503, "unavailable")
            assert Client(portal.port, key).call("GET", "/api/v1/tools")[0] == 200
        health = http.client.HTTPConnection("127.0.0.1", portal.port, timeout=30)
        health.request("GET", "/livez")
        assert health.getresponse().status == 200
        health.close()
        assert first == []  # all that was answered while it still waited
        silent.hang_up()
        thread.join()
        assert first == [502]


def upload(port: int, key: str, content: dict[str, Any], slug: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON of the import of a document."""
    edge = "0b3f5a"
    field = f"--{edge}\r\nContent-Disposition: form-data; name="
    source = f'{field}"source"\r\n\r\n{slug}\r\n'
    file = f'{field}"document"; filename="{slug}.json"\r\n\r\n{json.dumps(content)}\r\n--{edge}--\r\n'
    sent = {"Authorization": f"Bearer {key}", "Content-Type": f"multipart/form-data; boundary={edge}"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", "/api/v1/sources", (source + file).encode(), sent)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.mark.parametrize(
    ("web", "tries"),
    [pytest.param("3", 1, id="at once"), pytest.param("2", 10, id="in its turn", marks=pytest.mark.slow)],
)
def test_beside_a_neighbour_that_loops_imports_every_own_import_succeeds_S20(
    django_db_blocker: Any,
    admin_database: psycopg.Connection[Any],
    figure: Callable[[str], None],
    web: str,
    tries: int,
) -> None:
    """Three loops of the neighbour, which send again as soon as they are answered. Of two workers only one may read, so that a
    refusal is possible there; its turn comes within a few requests."""
    large = document(*(f"operation_{number}" for number in range(60)))
    statuses: list[int] = []
    with (
        real_commits(django_db_blocker, admin_database),
        stack(is_migrated=True, WEB_CONCURRENCY=web, EMBEDDING_PROVIDER="disabled") as portal,
        ExitStack() as loops,
    ):
        attacker, own = portal.new_tenant("attacker"), portal.new_tenant("own")
        portal.start("web")
        over = threading.Event()

        def loop(slug: str) -> None:
            while not over.is_set():
                statuses.append(upload(portal.port, attacker, large, slug)[0])

        for number in range(3):
            loops.enter_context(in_thread(lambda number=number: loop(f"large{number}")))
        loops.callback(over.set)
        needed = []
        for number in range(4):
            for attempt in range(1, tries + 1):
                status, said = upload(portal.port, own, document("one", "two"), f"own{number}")
                needed.append(attempt)
                if status != 503:
                    break
                assert "Your turn is kept" in said["detail"]
                time.sleep(2)
            assert status == 200, said
        assert 200 in statuses  # the neighbour goes on as well
        figure(f"imports beside a neighbour's loops, {web} workers: at most {max(needed)} requests each")
