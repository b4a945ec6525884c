"""R18, R6: the proxy and its workers end together, whichever of them ends first."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.stack import Client, Stack, stack
from tests.support.database import real_commits
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def portal(django_db_blocker: Any, admin_database: psycopg.Connection[Any]) -> Iterator[Stack]:
    with (
        real_commits(django_db_blocker, admin_database),
        stack(is_migrated=True, WEB_CONCURRENCY="1", EMBEDDING_PROVIDER="disabled") as started,
    ):
        yield started


@pytest.fixture
def web(portal: Stack) -> Iterator[subprocess.Popen[bytes]]:
    portal.start("web")
    yield portal.processes["web"]
    portal.stop("web")


def gunicorn_of(web: subprocess.Popen[bytes]) -> int:
    (pid,) = Path(f"/proc/{web.pid}/task/{web.pid}/children").read_text().split()
    return int(pid)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_stopped_web_leaves_nothing_and_takes_less_than_ten_seconds_R18(
    web: subprocess.Popen[bytes],
) -> None:
    workers = gunicorn_of(web)
    began = time.monotonic()
    web.terminate()
    assert web.wait(10) == 0
    assert time.monotonic() - began < 10
    assert not is_alive(workers)


def test_the_workers_end_with_a_killed_proxy_R6(web: subprocess.Popen[bytes]) -> None:
    workers = gunicorn_of(web)
    web.kill()
    wait_until(lambda: not is_alive(workers), seconds=15, what="the workers have ended")


def test_the_proxy_ends_with_its_workers_so_that_the_web_is_started_again_R6(
    web: subprocess.Popen[bytes],
) -> None:
    os.kill(gunicorn_of(web), signal.SIGKILL)
    assert web.wait(10) != 0


def test_a_worker_that_is_killed_is_replaced_behind_the_same_port_R6(
    portal: Stack, web: subprocess.Popen[bytes]
) -> None:
    workers = gunicorn_of(web)
    (worker,) = Path(f"/proc/{workers}/task/{workers}/children").read_text().split()
    os.kill(int(worker), signal.SIGKILL)
    client = Client(portal.port, "none")
    assert client.call("GET", "/api/v1/me")[0] in {401, 502}
    wait_until(lambda: client.call("GET", "/api/v1/me")[0] == 401, seconds=20, what="the next worker answers")
