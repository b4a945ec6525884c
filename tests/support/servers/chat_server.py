"""A real server on the loopback with OpenAI's `POST /chat/completions`, which says what a test has written for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ChatServer(ThreadingHTTPServer):
    """`text` is what the model says; `reply`, where it is set, the whole body of the answer; `status` its status. Answers wait while
    `held` is not set. `asked` holds the body of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.text = "1"
        self.reply: bytes | None = None
        self.status = 200
        self.asked: list[dict[str, Any]] = []
        self.held = threading.Event()
        self.held.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_POST(self) -> None:
        assert self.path == "/v1/chat/completions"
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.held.wait(30)
        message = {"role": "assistant", "content": self.server.text}
        body = self.server.reply
        if body is None:
            body = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.held.set()
            server.shutdown()
            thread.join()
