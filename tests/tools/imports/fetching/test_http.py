"""SYN-1, SEC-2: importing by URL, from a real server. What may be connected to at all stands in test_ssrf.py."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any

import pytest
from django.core.management import call_command

from portal.outbound.errors import UNREACHABLE, FetchError, FetchTimeout
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import INPUTS
from tests.support.servers.mcp_servers import free_port
from tests.support.waiting import wait_until
from tools.imports.fetching import http as fetch
from tools.models import Source, Tool


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


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
    with pytest.raises(FetchError, match="answered 302"):
        fetch.fetch_document(f"http://{server}/moved")
    with pytest.raises(FetchError, match="answered 404"):
        fetch.fetch_document(f"http://{server}/missing")
    for path in ("garbage", "cut"):
        with pytest.raises(FetchError, match="was reached, and its answer broke off"):
            fetch.fetch_document(f"http://{server}/{path}")
    with pytest.raises(FetchError, match="no secure connection"):
        fetch.fetch_document(f"https://{server}/shop.json")


def test_sec_2_a_server_that_was_reached_and_says_nothing_is_told_as_such(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "READ_SECONDS", 0.2)
    with pytest.raises(FetchTimeout, match="was reached, and then said nothing"):
        fetch.fetch_document(f"http://{server}/silent")


def test_sec_2_size_and_time_have_an_end(server: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DOCUMENT_MAX_BYTES = 1_000_000
    with pytest.raises(FetchError, match="larger than 1 MB"):
        fetch.fetch_document(f"http://{server}/endless")
    monkeypatch.setattr(fetch, "WHOLE_SECONDS", 0.5)
    for path in ("dribble", "drip"):
        started = time.monotonic()
        with pytest.raises(FetchTimeout, match="to arrive"):
            fetch.fetch_document(f"http://{server}/{path}")
        assert time.monotonic() - started < 5


@pytest.mark.skipif(not INPUTS.is_dir(), reason="needs ../shared/inputs")
@pytest.mark.parametrize("way", ["plain", "gzip", "deflate"])
def test_case_58_a_document_from_a_server_that_always_compresses_is_imported_and_synced_again(
    committed: Tenant, settings: Any, way: str
) -> None:
    port = free_port()
    settings.IMPORT_ALLOWED_HOSTS = [f"127.0.0.1:{port}"]
    url = f"http://127.0.0.1:{port}/{way}/doc.json"
    folder = next(INPUTS.glob("cases/58-*"))
    with subprocess.Popen(
        [sys.executable, "serve.py", str(port)], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            wait_until(lambda: accepts(port))
            call_command("import_openapi", url, "--source", "orchard", "--tenant", committed.slug)
            call_command("sync_source", "orchard", "--tenant", committed.slug)
        finally:
            running.terminate()
        asked = running.stderr.read() if running.stderr else ""
    assert asked.count("'Accept-Encoding': 'identity'") == 2
    with tenant_context(committed.pk):
        assert Tool.objects.get().name == "listTrees"


def test_s10_a_compressed_answer_is_unpacked_no_further_than_its_size_may_be(
    server: str, settings: Any
) -> None:
    settings.DOCUMENT_MAX_BYTES = 1_000_000
    with pytest.raises(FetchError, match="larger than 1 MB"):
        fetch.fetch_document(f"http://{server}/compressed")
    for path, said in (("brotli", r"compressed the document \(br\)"), ("not-compressed", "and it is not")):
        with pytest.raises(FetchError, match=said):
            fetch.fetch_document(f"http://{server}/{path}")
