"""SYN-1, SEC-2: importing by URL, from a real server. What may be connected to at all stands in test_ssrf.py."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.core.management import call_command

from portal.outbound.errors import UNREACHABLE, FetchError, FetchTimeout
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.servers.http_server import COMPRESSED
from tools.imports.fetching import http as fetch
from tools.models import Source, Tool


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


def test_s10_a_compressed_answer_is_not_unpacked_on_its_way(server: str, settings: Any) -> None:
    settings.DOCUMENT_MAX_BYTES = 1_000_000
    assert fetch.fetch_document(f"http://{server}/compressed") == COMPRESSED
