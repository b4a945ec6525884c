"""S9, SEC-2: a redirect is an answer, and neither client follows one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from portal.outbound.errors import FetchError
from tools.imports.fetching.http import fetch_document
from tools.imports.fetching.mcp.client import list_tools_from_url

SECRET = "the-inside-says"


class Redirecting(BaseHTTPRequestHandler):
    """`/hop?<status>&<where>`: an answer that sends elsewhere. Everything else is the inside, and counts its visitors."""

    def do_GET(self) -> None:
        self.server.hits.append(self.path)  # type: ignore[attr-defined]
        if self.path.startswith("/hop?"):
            status, where = self.path.removeprefix("/hop?").split("&", 1)
            self.send_response(int(status))
            self.send_header("Location", where)
            self.send_header("Refresh", f"0; url={where}")
            self.send_header("Content-Location", where)
            self.send_header("Link", f'<{where}>; rel="canonical"')
            body = b"<meta http-equiv=refresh content='0; url=/secret'>"
        else:
            self.send_response(200)
            body = json.dumps({"openapi": "3.0.0", "info": {"title": SECRET}, "paths": {}}).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
    server.daemon_threads = True
    server.hits = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def outside_and_inside(settings: Any) -> Iterator[tuple[Any, Any]]:
    """Two real servers on the loopback: one that may be asked, and one that nobody allowed."""
    with serving() as outside, serving() as inside:
        settings.IMPORT_ALLOWED_HOSTS = [f"127.0.0.1:{outside.server_port}"]
        yield outside, inside


CHAINS = [
    (301, "http://127.0.0.1:INSIDE/secret"), (302, "http://127.0.0.1:INSIDE/secret"), (303, "http://localhost:INSIDE/secret"),
    (307, "//127.0.0.1:INSIDE/secret"), (308, "http://[::ffff:127.0.0.1]:INSIDE/secret"), (300, "http://127.1:INSIDE/secret"),
    (302, "/hop?302&/hop?302&http://127.0.0.1:INSIDE/secret"), (302, "/secret"), (302, "file:///etc/passwd"),
    (302, "gopher://127.0.0.1:INSIDE/_GET"), (301, "/hop?301&/hop?301&"), (201, "http://127.0.0.1:INSIDE/secret"),
    (304, "http://127.0.0.1:INSIDE/secret"), (401, "http://127.0.0.1:INSIDE/secret"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "where"), CHAINS)
def test_sec_2_a_redirect_is_an_answer_and_never_a_way_S9(
    outside_and_inside: tuple[Any, Any], status: int, where: str
) -> None:
    outside, inside = outside_and_inside
    where = where.replace("INSIDE", str(inside.server_port))
    with pytest.raises(FetchError) as refused:
        fetch_document(f"http://127.0.0.1:{outside.server_port}/hop?{status}&{where}")
    assert str(refused.value).startswith(f"The server answered {status} instead of the document")
    assert (len(outside.hits), inside.hits) == (1, [])


@pytest.mark.parametrize("status", [200, 302, 307, 308])
def test_sec_2_the_mcp_client_follows_none_either_S9(
    outside_and_inside: tuple[Any, Any], settings: Any, status: int
) -> None:
    outside, inside = outside_and_inside
    settings.MCP_SECONDS = 10
    with pytest.raises(FetchError):
        list_tools_from_url(
            f"http://127.0.0.1:{outside.server_port}/hop?{status}&http://127.0.0.1:{inside.server_port}/secret"
        )
    assert all(hit.startswith("/hop") for hit in outside.hits)
    assert inside.hits == []


def test_the_servers_of_these_tests_do_answer_who_may_ask(
    outside_and_inside: tuple[Any, Any], settings: Any
) -> None:
    """Without this, an empty list of visitors would say nothing."""
    _, inside = outside_and_inside
    settings.IMPORT_ALLOWED_HOSTS.append(f"127.0.0.1:{inside.server_port}")
    assert SECRET.encode() in fetch_document(f"http://127.0.0.1:{inside.server_port}/secret")
    assert inside.hits == ["/secret"]
