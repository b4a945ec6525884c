"""R6: requests that wait for other servers never take the last worker of the web."""

from __future__ import annotations

import http.client
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Self

import psycopg
import pytest
from django.conf import settings

from bench.stack import Client, stack
from portal.http.bulkhead import TooBusy, bulkhead
from tests.support.database import real_commits


def hold(told: Connection) -> None:
    with bulkhead():
        told.send("held")
        told.recv()


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Connection]]:
    """Another process of the web, of two, that holds the only place."""
    monkeypatch.setattr(settings, "WEB_CONCURRENCY", 2)
    forked = multiprocessing.get_context("fork")
    here, there = forked.Pipe()
    process = forked.Process(target=hold, args=(there,), daemon=True)
    process.start()
    assert here.recv() == "held"
    yield process, here
    process.kill()
    process.join()


def test_of_two_workers_one_may_ask_others_at_a_time(holder: tuple[Any, Connection]) -> None:
    process, told = holder
    with pytest.raises(TooBusy, match="Nothing was done"), bulkhead():
        pass
    told.send("enough")
    process.join()
    with bulkhead():
        pass


def test_the_place_of_a_killed_worker_is_free_again(holder: tuple[Any, Connection]) -> None:
    process, _ = holder
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with bulkhead():
        pass


def test_one_worker_alone_takes_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "WEB_CONCURRENCY", 1)
    with bulkhead():
        pass


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
