"""A small web server on loopback whose documents a test changes as it goes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class DocumentServer:
    """Serves `documents` by path; everything else is a 404. `asked` lists the paths that were asked for."""

    def __init__(self, port: int, documents: dict[str, bytes], asked: list[str]) -> None:
        self.host = f"127.0.0.1:{port}"
        self.documents, self.asked = documents, asked

    def put(self, path: str, content: dict[str, Any] | bytes) -> str:
        """Serves the content from now on; returns its URL."""
        self.documents[path] = content if isinstance(content, bytes) else json.dumps(content).encode()
        return f"http://{self.host}{path}"


@contextmanager
def document_server() -> Iterator[DocumentServer]:
    """Runs during the block."""
    documents: dict[str, bytes] = {}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            raw = documents.get(self.path)
            self.send_response(404 if raw is None else 200)
            self.send_header("Content-Length", str(len(raw or b"")))
            self.end_headers()
            self.wfile.write(raw or b"")

        def log_message(self, *args: Any) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):  # the client has left
                super().handle()

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield DocumentServer(running.server_port, documents, asked)
    finally:
        running.shutdown()
        thread.join()
        running.server_close()
