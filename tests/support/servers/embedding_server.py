"""A real embedding server on the loopback that speaks both protocols (OpenAI's `/v1/embeddings`, `/embed` of
text-embeddings-inference) and misbehaves as its `fault` says. Its vectors are those of the HashEmbedder.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from tests.support.embeddings.providers import hash_vector

STATUSES = {"401": 401, "403": 403, "404": 404, "413": 413, "422": 422, "424": 424, "500": 500, "503": 503}


class EmbeddingServer(ThreadingHTTPServer):
    """`fault` names what goes wrong, `guilty` the word of the texts it happens to (all of them without). `asked` holds the
    path, headers and body of each request, `times` when it came."""

    daemon_threads = True
    fault = ""
    guilty = ""
    retry_after = "7"
    complaint = "this is refused"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.times: list[float] = []
        self.noting = threading.Lock()
        self.over = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def url(self, provider: str) -> str:
        return f"{self.address}/v1" if provider == "openai-compatible" else self.address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.noting:
            self.server.times.append(time.monotonic())
            self.server.asked.append((self.path, dict(self.headers), body))
        self.openai = self.path.startswith("/v1/embeddings")
        texts = body["input"] if self.openai else body["inputs"]
        hit = any(self.server.guilty in text for text in texts)
        fault = self.server.fault if hit else ""
        vectors = [hash_vector(text).tolist() for text in texts]
        if fault in STATUSES:
            self.say(STATUSES[fault], self.error())
        elif fault == "429":
            self.say(429, self.error(), {"Retry-After": self.server.retry_after})
        elif fault == "400 for one text":
            refused = any("poison" in text for text in texts)
            self.say(400, self.error()) if refused else self.say(200, self.form(vectors))
        elif fault == "redirect":
            self.say(307, b"", {"Location": self.server.address + "/elsewhere"})
        elif fault == "502 HTML":
            self.say(502, b"<html><h1>502 Bad Gateway</h1></html>")
        elif fault == "HTML":
            self.say(200, b"<html>Sign in</html>")
        elif fault == "error in a 200":
            self.say(200, self.error())
        elif fault == "10 MB":
            self.say(200, json.dumps("x" * 10_000_000).encode())
        elif fault == "reset":
            self.start(200, {"Content-Length": "100000"})
            self.wfile.write(b'{"data": [')
            self.wfile.flush()
            # Linger of no seconds: closing sends a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif fault == "drip":
            self.start(200, {"Content-Length": "100000"})
            self.drip()
        elif fault == "hangs" or (fault == "1 of 3 hangs" and len(self.server.asked) % 3 == 1):
            self.server.over.wait(20)
        elif fault == "1 of 3 hangs":
            self.say(200, self.form(vectors))
        elif fault == "dripping headers":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
            self.drip()
        elif fault == "NaN":
            self.say(200, self.form([[float("nan")] * 384 for _ in texts]))
        elif fault == "zero vector":
            self.say(200, self.form([[0.0] * 384 for _ in texts]))
        elif fault == "not normalised":
            self.say(200, self.form([(np.array(vector) * 3).tolist() for vector in vectors]))
        elif fault == "NULL":
            self.say(200, self.form([None for _ in texts]))
        elif fault == "wrong count":
            self.say(200, self.form([*vectors, vectors[0]]))
        elif fault == "wrong dimension":
            self.say(200, self.form([vector + vector for vector in vectors]))
        elif fault == "shuffled":
            self.say(200, self.form(vectors, order=list(reversed(range(len(vectors))))))
        elif fault == "an index twice":
            self.say(200, self.form(vectors, order=list(range(len(vectors))), same=True))
        else:
            assert not fault, f"no such fault: {fault}"
            self.say(200, self.form(vectors))

    def error(self) -> bytes:
        said = self.server.complaint
        return json.dumps({"error": {"message": said} if self.openai else said}).encode()

    def form(self, vectors: list[Any], order: list[int] | None = None, *, same: bool = False) -> bytes:
        """The reply of this protocol. Only OpenAI's says which vector is of which text."""
        order = order or list(range(len(vectors)))
        if not self.openai:
            return json.dumps([vectors[index] for index in order]).encode()
        rows = [
            {"object": "embedding", "index": 0 if same else index, "embedding": vectors[index]}
            for index in order
        ]
        return json.dumps({"object": "list", "data": rows, "model": "any"}).encode()

    def start(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.start(status, {"Content-Length": str(len(body)), **(headers or {})})
        self.wfile.write(body)

    def drip(self) -> None:
        """A byte now and then, for as long as the client stays: less than its timeout of one read."""
        ends = time.monotonic() + 60
        while not self.server.over.wait(0.1) and time.monotonic() < ends:
            self.wfile.write(b"x")
            self.wfile.flush()


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def closed_port() -> str:
    """An address where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
