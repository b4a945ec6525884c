"""S19: clients that say nothing, send a byte a second or do not read hold no worker of the web.

How to see it fail: the same clients before gunicorn's sync workers alone, which is what the second test does.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from bench.port import attacked, livez
from bench.stack import Stack, stack
from tests.support.database import real_commits

SECONDS = 1.0


@pytest.fixture(scope="module")
def portal(django_db_blocker: Any, admin_database: psycopg.Connection[Any]) -> Iterator[Stack]:
    with (
        real_commits(django_db_blocker, admin_database),
        stack(is_migrated=True, WEB_CONCURRENCY="2", EMBEDDING_PROVIDER="disabled") as started,
    ):
        yield started


@pytest.mark.alone
def test_beside_300_silent_and_300_dripping_connections_and_50_slow_readers_the_web_answers_within_a_second_S19(
    portal: Stack, figure: Any
) -> None:
    portal.start("web")
    for _ in range(5):  # both workers warm
        livez(portal.port, 30)
    with attacked(portal.port, ("silent=300", "dripping=300", "slow_readers=50")):
        slowest = max(livez(portal.port, SECONDS) for _ in range(20))
    figure(f"slowest /livez {slowest:.0f} ms")
    portal.stop("web")


def test_gunicorns_workers_alone_notice_two_silent_connections_S19(portal: Stack) -> None:
    bind = f"127.0.0.1:{portal.port}"
    command = [sys.executable, "-m", "gunicorn", "portal.wsgi", "-c", "portal/gunicorn.py", "--bind", bind]
    portal.spawn("bare", command, PORTAL_DB_ROLE="app")
    portal.await_port(portal.port)
    try:
        with (
            socket.create_connection(("127.0.0.1", portal.port)),
            socket.create_connection(("127.0.0.1", portal.port)),
        ):
            time.sleep(0.5)
            with pytest.raises(TimeoutError):
                livez(portal.port, SECONDS)
    finally:
        portal.stop("bare")
