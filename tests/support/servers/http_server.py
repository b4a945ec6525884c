"""A web server on the loopback with every answer that an import by URL may meet."""

from __future__ import annotations

import gzip
import json
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.imports.documents import document

SLOW_SECONDS = 1
# 30 MB of nothing in 30 kB.
COMPRESSED = gzip.compress(b" " * 30_000_000)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/shop.json")
            self.end_headers()
        elif path == "/missing":
            self.send_error(404)
        elif path == "/dribble":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for number in range(1000):
                self.wfile.write(f"X-{number}: a\r\n".encode())
                time.sleep(0.05)
        elif path == "/drip":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            for _ in range(1000):
                self.wfile.write(b" ")
                time.sleep(0.05)
        elif path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"{")
        elif path == "/silent":
            time.sleep(1)
        elif path == "/compressed":
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(COMPRESSED)))
            self.end_headers()
            self.wfile.write(COMPRESSED)
        elif path in {"/brotli", "/not-compressed"}:
            self.send_response(200)
            self.send_header("content-encoding", "br" if path == "/brotli" else "gzip")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
        elif path == "/endless":
            self.send_response(200)
            self.end_headers()
            for _ in range(1000):
                self.wfile.write(b"x" * 100_000)
        elif path == "/garbage":
            self.wfile.write(b"SSH-2.0-OpenSSH\r\n")
        else:
            if path == "/slow.json":
                time.sleep(SLOW_SECONDS)
            raw = json.dumps(document("a", "b")).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    def log_message(self, *args: Any) -> None:
        pass

    def handle(self) -> None:
        with suppress(OSError):  # the client has left, which is what some tests are about
            super().handle()
