"""A server whose document a test changes: other contents, a status, an answer that breaks off."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any


class Api:
    """Where a source is read from: `body` is what it says, of which `cut` bytes do not arrive."""

    def __init__(self) -> None:
        self.body, self.status, self.cut, self.chunked = b"", 200, 0, False
        self.url = ""
        self.meanwhile: Callable[[], object] = lambda: None  # happens before it answers

    def says(self, content: dict[str, Any]) -> None:
        self.body = json.dumps(content).encode()


class Handler(BaseHTTPRequestHandler):
    api: Api

    def do_GET(self) -> None:
        self.api.meanwhile()
        body = self.api.body
        self.send_response(self.api.status)
        if self.api.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
        self.wfile.write(body[: len(body) - self.api.cut])
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        pass
