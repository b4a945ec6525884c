"""A small MCP server over streamable HTTP, in this process, whose answers a test decides and whose questions it sees."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Answers(BaseHTTPRequestHandler):
    """Answers initialize as it should, and anything else by the function `answer` of its server."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((asked["method"], dict(self.headers)))
        if "id" not in asked:
            self.say(b"", status=202)
        elif asked["method"] == "initialize" and not self.server.from_the_start:
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "http", "version": ""},
            }
            self.say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode())
        else:
            self.server.answer(self, asked["id"])

    def say(self, body: bytes, *, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.say(b"", status=405)

    def do_DELETE(self) -> None:
        self.do_GET()

    def log_message(self, *args: Any) -> None:
        pass

    def handle(self) -> None:
        with suppress(OSError):  # the client has left
            super().handle()


@contextmanager
def answering(settings: Any, answer: Any, *, from_the_start: bool = False) -> Iterator[Any]:
    """A server over HTTP, with its `url` and what it has `seen`."""
    running_server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    running_server.daemon_threads = True
    running_server.answer, running_server.from_the_start, running_server.seen = answer, from_the_start, []
    running_server.url = f"http://127.0.0.1:{running_server.server_port}/mcp"
    settings.IMPORT_ALLOWED_HOSTS = [
        *settings.IMPORT_ALLOWED_HOSTS,
        f"127.0.0.1:{running_server.server_port}",
    ]
    thread = threading.Thread(target=running_server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield running_server
    finally:
        running_server.shutdown()
        thread.join()
        running_server.server_close()


def result(value: str) -> Any:
    """Answers with this JSON, to the letter."""
    return lambda handler, number: handler.say(
        b'{"jsonrpc": "2.0", "id": %d, "result": %s}' % (number, value.encode())
    )


def event(value: str) -> Any:
    """The same as an event of a stream."""
    return lambda handler, number: handler.say(
        b'event: message\ndata: {"jsonrpc": "2.0", "id": %d, "result": %s}\n\n' % (number, value.encode()),
        kind="text/event-stream",
    )
