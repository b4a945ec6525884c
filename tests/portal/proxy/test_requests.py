"""S19: what the proxy hands to a worker and to a client, over real sockets. The worker here is a small server that answers what it
was asked."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from portal.proxy import buffers
from portal.proxy import client as client_module
from portal.proxy.__main__ import bind
from portal.proxy.server import Server

LIMIT, GRANTED = 100_000, 300_000


class Worker(BaseHTTPRequestHandler):
    """Answers a request as JSON; grants GRANTED bytes of /documents, and refuses all else that is longer than LIMIT."""

    protocol_version = "HTTP/1.1"
    asked: list[str] = []

    def handle_one_request(self) -> None:
        super().handle_one_request()
        self.close_connection = True

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.asked.append(self.path)
        if length := self.headers["X-Body-Length"]:
            granted = self.path == "/documents" and int(length) <= GRANTED
            self.send_response(204 if granted else 413)
            if granted:
                self.send_header("X-Body-Limit", str(GRANTED))
            else:
                self.send_header("Content-Length", "7")
            self.end_headers()
            self.wfile.write(b"" if granted else b"refused")
            return
        if self.path == "/gone":
            return
        if self.path == "/slow":
            time.sleep(0.5)
        said = {"body": len(body), "method": self.command, "headers": dict(self.headers.items())}
        text = json.dumps(said).encode()
        if self.path == "/large":
            text += b" " * 20_000_000
        self.send_response(304 if self.path == "/same" else 200)
        self.send_header("Connection", "close")
        if self.path != "/same":
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD" and self.path != "/same":
            self.wfile.write(text)

    do_GET = do_POST = do_HEAD = _answer  # noqa: N815 - the names are http.server's

    def log_message(self, *args: Any) -> None:
        pass

    def address_string(self) -> str:
        return "proxy"


class Workers(socketserver.UnixStreamServer):
    """One worker, which takes one request at a time, as gunicorn's do."""

    request_queue_size = 100


class Proxy:
    """The proxy in a thread of its own."""

    def __init__(self, folder: Path) -> None:
        path = folder / "w.sock"
        self.workers = Workers(str(path), Worker)
        threading.Thread(target=self.workers.serve_forever, args=(0.05,), daemon=True).start()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        listening = bind("127.0.0.1", 0)
        self.port = listening[0].getsockname()[1]
        self.server = self.run(self._made(path))
        self.run(self.server.listen(listening))

    async def _made(self, path: Path) -> Server:
        return Server(path, LIMIT)

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def stop(self) -> None:
        self.run(self.server.close(1))
        self.run(self._settle())
        self.workers.shutdown()
        self.workers.server_close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _settle(self) -> None:
        self.server.abort()
        while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110 - the tasks are of others
            await asyncio.sleep(0.01)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    Worker.asked = []
    started = Proxy(tmp_path)
    yield started
    started.stop()
    assert buffers.Buffer._used == 0, "every buffer is freed"


@pytest.fixture
def http_client(proxy: Proxy) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    yield connection
    connection.close()


def call(connection: http.client.HTTPConnection, *request: Any, **more: Any) -> tuple[int, Any, Any]:
    connection.request(*request, **more)
    answer = connection.getresponse()
    raw = answer.read()
    return answer.status, answer.headers, raw


def exchange(proxy: Proxy, *pieces: bytes) -> bytes:
    """All that is answered until the connection ends."""
    with proxy.connect() as one:
        for piece in pieces:
            one.sendall(piece)
        found = b""
        while data := one.recv(65_536):
            found += data
        return found


def test_requests_of_one_connection_are_answered_one_after_the_other_S19(http_client: Any) -> None:
    status, headers, raw = call(http_client, "GET", "/?q=%C3%A4")
    assert (status, headers["Connection"]) == (200, None)
    assert json.loads(raw)["method"] == "GET"
    there = http_client.sock
    status, headers, raw = call(http_client, "HEAD", "/")
    assert (status, raw) == (200, b"")
    assert int(headers["Content-Length"]) > 0
    assert call(http_client, "GET", "/same")[0] == 304
    assert json.loads(call(http_client, "POST", "/", b"12345")[2])["body"] == 5
    assert http_client.sock is there


def test_a_worker_gets_a_body_in_chunks_whole_with_its_length_S19(http_client: Any) -> None:
    _, _, raw = call(http_client, "POST", "/", iter([b"abc", b"defg"]), encode_chunked=True)
    said = json.loads(raw)
    assert said["body"] == 7
    assert said["headers"]["content-length"] == "7"
    assert "transfer-encoding" not in said["headers"]


def test_a_client_cannot_pose_as_the_proxy_S19(http_client: Any) -> None:
    sent = {
        "X-Forwarded-For": "8.8.8.8", "X-Body-Length": "5", "SCRIPT_NAME": "/evil", "Keep-Alive": "5", "Connection": "x-mine",
        "X-Mine": "1", "X-Other": "2",
    }  # fmt: skip
    said = json.loads(call(http_client, "GET", "/", headers=sent)[2])["headers"]
    assert said["x-forwarded-for"] == "8.8.8.8, 127.0.0.1"
    assert said["x-other"] == "2"
    assert not {"x-body-length", "script_name", "keep-alive", "x-mine"} & {name.lower() for name in said}


def test_no_worker_is_taken_before_the_request_is_whole_S19(proxy: Proxy, http_client: Any) -> None:
    with proxy.connect() as half_head, proxy.connect() as half_body, proxy.connect():
        half_head.sendall(b"GET /half HTTP/1.1\r\nHost: x\r\n")
        half_body.sendall(b"POST /half HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
        assert call(http_client, "GET", "/")[0] == 200
        assert Worker.asked == ["/"]
        half_body.sendall(b"67890")
        assert b'"body": 10' in half_body.recv(65_536)


def test_a_client_that_does_not_read_holds_no_worker_S19(proxy: Proxy, http_client: Any) -> None:
    with proxy.connect() as slow:
        slow.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow.recv(10) == b"HTTP/1.1 2"
        assert call(http_client, "GET", "/")[0] == 200


def test_a_long_body_is_read_after_a_worker_has_granted_it_S19(proxy: Proxy, http_client: Any) -> None:
    status, _, raw = call(http_client, "POST", "/documents", b"x" * GRANTED)
    assert (status, json.loads(raw)["body"]) == (200, GRANTED)
    assert Worker.asked == ["/documents", "/documents"]
    pieces = iter([b"x" * 50_000] * 6)
    status, _, raw = call(http_client, "POST", "/documents", pieces, encode_chunked=True)
    assert (status, json.loads(raw)["body"]) == (200, GRANTED)


def test_a_long_body_is_refused_in_a_workers_words_before_it_is_read_S19(proxy: Proxy) -> None:
    declared = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 400000000\r\nExpect: 100-continue\r\n\r\n"
    answer = exchange(proxy, declared)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"100 Continue" not in answer
    assert b"connection: close" in answer.lower()
    assert answer.endswith(b"refused")
    chunk = b"8000\r\n" + b"a" * 0x8000 + b"\r\n"
    answer = exchange(
        proxy, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", *[chunk] * 5
    )
    assert answer.startswith(b"HTTP/1.1 413")
    answer = exchange(
        proxy, b"POST /documents HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", *[chunk] * 12
    )
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", b"400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", b"501"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000, b"431"),
        (b"GET /gone HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"502"),
    ],
)
def test_what_cannot_be_answered_is_said_and_the_connection_ends_S19(
    proxy: Proxy, request_text: bytes, status: bytes
) -> None:
    answer = exchange(proxy, request_text)
    assert answer.split(b" ")[1] == status


def test_a_problem_of_the_api_keeps_its_form_when_a_worker_is_gone_R6(proxy: Proxy, http_client: Any) -> None:
    proxy.workers.shutdown()
    proxy.workers.server_close()
    status, headers, raw = call(http_client, "GET", "/api/v1/me")
    assert (status, headers["Content-Type"]) == (502, "application/problem+json")
    assert json.loads(raw)["status"] == 502


def test_buffers_that_are_full_refuse_the_next_body_S19(
    proxy: Proxy, http_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "BUDGET", 1000)
    assert call(http_client, "POST", "/", b"x" * 2000)[0] == 503


def test_a_head_and_a_body_that_do_not_come_end_at_their_deadline_S19(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(client_module, "BODY_SECONDS", -3)
    assert exchange(proxy, b"GET / HTTP/1.1\r\n") == b""
    answer = exchange(proxy, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
    assert answer.startswith(b"HTTP/1.1 408")


def test_too_many_connections_end_the_one_that_keeps_us_waiting_longest_S19(proxy: Proxy) -> None:
    proxy.server._most = 3
    with proxy.connect() as first, proxy.connect(), proxy.connect():
        time.sleep(0.1)
        assert b" 200 " in exchange(proxy, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert first.recv(1) == b""


def test_the_answer_under_way_is_sent_before_the_web_stops_R18(proxy: Proxy) -> None:
    with proxy.connect() as busy, proxy.connect() as idle:
        busy.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.1)
        proxy.run(proxy.server.close(5))
        assert b" 200 " in busy.recv(65_536)
        assert idle.recv(1) == b""


def test_sign_ins_take_turns_and_leave_the_workers_to_others_S7(proxy: Proxy) -> None:
    began = time.monotonic()
    with proxy.connect() as first, proxy.connect() as second:
        for one in (first, second):
            one.sendall(b"POST /%6cogin/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert b" 200 " in exchange(proxy, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        for one in (first, second):
            assert b" 200 " in one.recv(65_536)
    assert time.monotonic() - began < 5
    assert sorted(Worker.asked) == ["/", "/%6cogin/", "/%6cogin/"]
