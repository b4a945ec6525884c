"""S19, R18, R6: the proxy at the port, as `make up` and compose start it: what it passes on to a worker and what it does not, and
what a client is told when no worker answers."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import psycopg
import pytest

from bench.port import livez
from bench.stack import Client, Stack, stack
from portal.env import DECLARED
from portal.http.bodies import ANONYMOUS_MAX_BYTES
from portal.proxy import CADDYFILE
from tests.support.database import real_commits


@pytest.fixture(scope="module")
def portal(django_db_blocker: Any, admin_database: psycopg.Connection[Any]) -> Iterator[Stack]:
    with (
        real_commits(django_db_blocker, admin_database),
        stack(is_migrated=True, WEB_CONCURRENCY="1", EMBEDDING_PROVIDER="disabled") as started,
    ):
        started.start("web")
        yield started


def exchange(port: int, sent: bytes) -> bytes:
    """All that is answered until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as one:
        one.sendall(sent)
        found = b""
        while data := one.recv(65_536):
            found += data
        return found


def test_the_proxys_file_has_the_numbers_of_the_settings_and_of_the_middleware_S19() -> None:
    text = CADDYFILE.read_text(encoding="utf-8")
    defaults = dict(re.findall(r"\{\$(\w+):([^}]+)\}", text))
    assert defaults == {name: str(DECLARED[name].default) for name in ("HOST", "PORT", "WEB_SOCKET")}
    assert re.findall(r"int\(\{header.Content-Length\}\) > (\d+)", text) == [str(ANONYMOUS_MAX_BYTES)]


def test_a_client_cannot_say_where_it_comes_from_S7(portal: Stack) -> None:
    log_in = (
        b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 8.8.8.8\r\nX-Forwarded-Proto: https\r\n"
        b"X-Body-Length: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    answer = exchange(portal.port, log_in)
    assert b" 403 " in answer.partition(b"\r\n")[0], (
        "the request is answered, and not the question whether it may be sent"
    )


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", b"400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", b"501"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000, b"431"),
    ],
)
def test_what_is_no_request_reaches_no_worker_S19(portal: Stack, request_text: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", portal.port), timeout=20) as one:
        one.sendall(request_text)
        assert one.recv(65_536).split(b" ")[1] == status


def test_a_body_that_breaks_off_is_not_taken_for_a_whole_one_S19(portal: Stack) -> None:
    """Asked past the proxy, which does not ask a worker at all for a client that has left."""
    key = portal.new_tenant("broken-off")
    text = b'{"name": "half", "description": "cut"}'
    head = (
        f"POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: "
    )
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(20)
        one.connect(portal.environment["WEB_SOCKET"])
        one.sendall(f"{head}{len(text) + 10}\r\n\r\n".encode() + text)
        one.shutdown(socket.SHUT_WR)
        assert b" 201 " not in one.recv(65_536)
    status, found = Client(portal.port, key).call("GET", "/api/v1/tools")
    assert (status, found["results"]) == (200, [])


def test_a_problem_of_the_api_keeps_its_form_when_the_worker_is_gone_R6(portal: Stack) -> None:
    portal.processes["web"].terminate()
    portal.processes.pop("web").wait(20)
    try:
        for path, kind in (("/api/v1/me", b"application/problem+json"), ("/", b"text/plain")):
            answer = exchange(
                portal.port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
            )
            assert b" 502 " in answer.partition(b"\r\n")[0]
            assert kind in answer
    finally:
        portal.start("web")
    assert Client(portal.port, "none").call("GET", "/api/v1/me")[0] == 401


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(
            "POST /login/ HTTP/1.1\r\nContent-Length: {long}\r\n", id="beyond what a stranger may send"
        ),
        pytest.param("POST /api/v1/tools HTTP/1.1\r\nContent-Length: {long}\r\n", id="without a key"),
        pytest.param("GET / HTTP/1.1\r\nContent-Length: {long}\r\n", id="of a GET"),
        pytest.param("POST /login/ HTTP/1.1\r\nContent-Length: 500000000\r\n", id="beyond all bounds"),
        pytest.param("POST /login/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", id="in chunks"),
    ],
)
def test_the_body_of_what_is_refused_is_never_the_next_request_S19(portal: Stack, head: str) -> None:
    """How to see it fail: take a `Connection close` out of the Caddyfile."""
    smuggled = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = smuggled * (1_200_000 // len(smuggled))
    if "chunked" in head:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    answers = b""
    with socket.create_connection(("127.0.0.1", portal.port), timeout=20) as one, suppress(ConnectionError):
        one.sendall(head.format(long=len(body)).encode() + b"Host: localhost\r\n\r\n" + body)
        while data := one.recv(65_536):
            answers += data
    assert answers.count(b"HTTP/1.1 ") <= 1  # the client may not have read it before the connection ended
    assert b'"status": "ok"' not in answers


def test_a_get_with_a_long_body_that_does_not_come_holds_no_worker_S19(portal: Stack) -> None:
    """How to see it fail: take `error @get 413` out of the Caddyfile."""
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\na"
    with ExitStack() as open_ones:
        for _ in range(4):
            one = open_ones.enter_context(socket.create_connection(("127.0.0.1", portal.port), timeout=20))
            one.sendall(head)
        time.sleep(0.5)
        assert livez(portal.port, 5) < 5000
