"""SYN-1, SEC-2: importing by URL: a real server that is allowed, and every spelling of an address that is not."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpcore
import pytest
from django.core.management import call_command

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.tools.documents import document
from tools.imports import fetch
from tools.imports.fetch import FetchRefused
from tools.models import Source, Tool

UNREACHABLE = "The address cannot be reached. Only public addresses over http or https are allowed."


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
        elif path == "/endless":
            self.send_response(200)
            self.end_headers()
            for _ in range(1000):
                self.wfile.write(b"x" * 100_000)
        elif path == "/garbage":
            self.wfile.write(b"SSH-2.0-OpenSSH\r\n")
        else:
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


@pytest.fixture
def server(settings: Any) -> Iterator[str]:
    """`host:port` of a server on loopback, which the settings allow."""
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    host = f"127.0.0.1:{running.server_port}"
    settings.IMPORT_ALLOWED_HOSTS = [host]
    yield host
    running.shutdown()
    thread.join()
    running.server_close()


def test_syn_1_a_document_is_imported_by_url(
    committed: Tenant, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://{server}/v1/shop.json?token=secret"
    for added in (2, 0):
        call_command("import_openapi", url, "--tenant", committed.slug, "--json")
        out, err = capsys.readouterr()
        assert (json.loads(out)["added"], err) == (added, "")
    with tenant_context(committed.pk):
        source = Source.objects.get()
        assert (source.slug, source.url) == ("127.0.0.1-v1-shop", url)
        assert Tool.objects.count() == 2
        assert "secret" not in source.slug


def test_sec_2_a_refused_address_is_exit_code_3_and_stores_nothing(
    committed: Tenant, server: str, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.IMPORT_ALLOWED_HOSTS = []
    with pytest.raises(SystemExit) as end:
        call_command("import_openapi", f"http://{server}/shop.json", "--tenant", committed.slug, "--json")
    assert end.value.code == 3
    assert capsys.readouterr() == ("", UNREACHABLE + "\n")


def test_sec_2_redirects_are_not_followed_and_errors_are_named(server: str) -> None:
    with pytest.raises(FetchRefused, match="answered 302"):
        fetch.document(f"http://{server}/moved")
    with pytest.raises(FetchRefused, match="answered 404"):
        fetch.document(f"http://{server}/missing")
    with pytest.raises(FetchRefused, match="cannot be reached"):
        fetch.document(f"http://{server}/garbage")
    with pytest.raises(FetchRefused, match="cannot be reached"):
        fetch.document(f"https://{server}/shop.json")


def test_sec_2_size_and_time_have_an_end(server: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DOCUMENT_MAX_BYTES = 1_000_000
    with pytest.raises(FetchRefused, match="larger than 1 MB"):
        fetch.document(f"http://{server}/endless")
    monkeypatch.setattr(fetch, "WHOLE_SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(FetchRefused, match="to arrive"):
        fetch.document(f"http://{server}/dribble")
    assert time.monotonic() - started < 5


FORBIDDEN = [
    "127.0.0.1", "localhost", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001",
    "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "169.254.169.254", "2852039166",
    "[fd00:ec2::254]", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255",
    "[fe80::1]", "[fc00::1]", "[ff02::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "127.0.0.1.", "240.0.0.1",
]  # fmt: skip


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch, settings: Any) -> list[str]:
    """Where sockets would have gone; none is opened."""
    went: list[str] = []

    def connect(self: Any, host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        went.append(host)
        raise httpcore.ConnectError

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    settings.IMPORT_ALLOWED_HOSTS = []
    return went


@pytest.mark.parametrize("host", FORBIDDEN)
def test_sec_2_every_spelling_of_a_forbidden_address_gets_one_and_the_same_sentence(
    connected: list[str], host: str
) -> None:
    for url in (f"http://{host}/a.json", f"https://{host}/a.json"):
        with pytest.raises(FetchRefused) as refused:
            fetch.document(url)
        assert str(refused.value) == UNREACHABLE
    assert connected == []


def answers(*addresses: str) -> Any:
    def getaddrinfo(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return getaddrinfo


def test_sec_2_a_name_is_judged_by_all_of_its_addresses_and_resolved_once(
    connected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for inside in (("10.0.0.1",), ("93.184.216.34", "10.0.0.1"), ()):
        monkeypatch.setattr(socket, "getaddrinfo", answers(*inside))
        with pytest.raises(FetchRefused, match="cannot be reached"):
            fetch.document("http://names.example/a.json")
    assert connected == []
    asked: list[int] = []

    def rebinding(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        asked.append(1)
        return answers("93.184.216.34" if len(asked) == 1 else "127.0.0.1")(host, port)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    with pytest.raises(FetchRefused, match="cannot be reached"):
        fetch.document("http://names.example/a.json")
    assert connected == ["93.184.216.34"]  # a closed public address answers with the same sentence
    assert len(asked) == 1


def test_sec_2_other_ports_are_refused_without_a_connection(
    connected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", answers("93.184.216.34"))
    for port in (22, 25, 5432, 6379, 8080):
        with pytest.raises(FetchRefused) as refused:
            fetch.document(f"http://names.example:{port}/a.json")
        assert str(refused.value) == UNREACHABLE
    assert connected == []


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://a.example/x", "gopher://a", "//a.example/x", "a.example/x", "http://", "http:///x", "http://[::1",
     "http://u:p@a.example/", "http://a.example@127.0.0.1/", "http://a.example:99999/", "http://a.example:0/", "http://a.example:x/",
     "http://ünï.example/", "http://a.example/\r\nX: y", "http://a.example/ b", "http://a.example/\x00", "", "http://@127.0.0.1/"]
)  # fmt: skip
def test_sec_2_what_is_no_plain_url_is_said_to_be_none(connected: list[str], url: str) -> None:
    with pytest.raises(FetchRefused, match="Give a URL that starts with"):
        fetch.document(url)
    assert connected == []


def test_a_url_that_is_too_long_is_refused(connected: list[str]) -> None:
    with pytest.raises(FetchRefused, match="longer than 2048"):
        fetch.document("http://a.example/" + "x" * 2048)
