"""SYN-2: MCP servers that are asked for their tools, over stdio and streamable HTTP, whatever they do (cases 21, 23, 25, 27,
29, 31, 33). The servers are badserver.py of ../shared and real ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command

from portal.outbound.errors import UNREACHABLE, FetchError
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.embeddings.pipeline import Pipeline
from tests.support.search import ask
from tests.support.servers import mcp_servers
from tests.support.servers.mcp_servers import bad, names, needs_badserver, over_http
from tools.imports.fetching.mcp.client import list_tools_from_command, list_tools_from_url
from tools.models import Tool
from tools.web.history.state import tool_history

# What is said between child and server; test_mcp_processes.py is about the child.
pytestmark = pytest.mark.usefixtures("forked_children")


@pytest.fixture
def allow(settings: Any, tmp_path: Path) -> Any:
    settings.MCP_SECONDS = 10
    return lambda **commands: mcp_servers.allow(settings, tmp_path, **commands)


OUTCOMES = [
    ("ok", ["ticket_open", "ticket_close", "ticket_list"]),
    ("paged", [f"t{n}" for n in range(1, 8)]),
    ("emptycursor", ["ticket_open", "ticket_close", "ticket_list"]),
    ("dupnames", ["search", "search", "item-get", "item_get"]),
    ("v2", ["ticket_open", "ticket_list", "ticket_assign"]),
    ("noop", []),
]
FAILURES = [
    ("page2error", "Page 2 of the list was answered with an error: cursor expired"),
    ("hang", "The server did not answer within 2 s."),
    ("weirdproto", "Unsupported protocol version from the server: 2099-01-01."),
]


@needs_badserver
@pytest.mark.parametrize(("mode", "expected"), OUTCOMES)
def test_case_21_every_page_is_read_over_stdio_and_http_SYN_2(
    allow: Any, settings: Any, mode: str, expected: list[str]
) -> None:
    allow(server=bad(mode))
    found = list_tools_from_command("server", "default")
    assert (names(found), found.warnings) == (expected, ())
    with over_http(mode, settings) as url:
        assert names(list_tools_from_url(url)) == expected


@needs_badserver
@pytest.mark.parametrize(("mode", "said"), FAILURES)
def test_case_25_a_server_that_fails_ends_in_time_and_says_which_fault_it_was_SYN_2(
    allow: Any, settings: Any, mode: str, said: str
) -> None:
    allow(server=bad(mode))
    settings.MCP_SECONDS = 2 if mode == "hang" else 10
    with pytest.raises(FetchError, match=said):
        list_tools_from_command("server", "default")
    with over_http(mode, settings) as url, pytest.raises(FetchError, match=said):
        list_tools_from_url(url)


@needs_badserver
def test_case_25_the_last_words_of_a_server_that_dies_are_told_without_its_secrets_SYN_2(
    allow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(crash=bad("crash"), cut=bad("diemidlist"), own={
        "command": [sys.executable, "-c", "import os, sys; sys.exit('bad key ' + os.environ['SHOP_KEY'])"],
        "environment": ["SHOP_KEY"],
    })  # fmt: skip
    with pytest.raises(FetchError, match="Its last words: Error: TOKEN_PLACEHOLDER is not set"):
        list_tools_from_command("crash", "default")
    with pytest.raises(FetchError, match="The server ended before it had answered"):
        list_tools_from_command("cut", "default")
    with pytest.raises(FetchError, match="needs SHOP_KEY"):
        list_tools_from_command("own", "default")
    monkeypatch.setenv("SHOP_KEY", "hunter2-hunter2")
    with pytest.raises(FetchError, match=r"bad key \*\*\*$"):
        list_tools_from_command("own", "default")


@needs_badserver
def test_case_23_chatter_on_stdout_is_a_warning_that_names_the_first_line_SYN_2(allow: Any) -> None:
    allow(server=bad("noise"))
    found = list_tools_from_command("server", "default")
    assert len(names(found)) == 3
    assert found.warnings == (
        "The server wrote 8 other lines among its answers; the first: *** Welcome to Badserver 1.0 ***",
    )


def test_only_commands_of_the_allow_list_are_started_SEC_2(allow: Any, settings: Any, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="none is allowed here"):
        list_tools_from_command("time", "default")
    allow(time=["no-such-program"])
    with pytest.raises(FetchError, match="there is time"):
        list_tools_from_command("/bin/sh", "default")
    with pytest.raises(FetchError, match="cannot be started: No such file"):
        list_tools_from_command("time", "default")
    entries = (
        '{"command": "sh -c x", "tenants": ["*"]}',
        '{"command": [], "tenants": ["*"]}',
        '{"command": ["a"]}',
        "{}",
        "[]",
    )
    for wrong in ("[]", "{", *(f'{{"commands": {{"a": {entry}}}}}' for entry in entries)):
        path = tmp_path / "wrong.json"
        path.write_text(wrong)
        settings.MCP_COMMANDS_FILE = str(path)
        with pytest.raises(FetchError, match="MCP_COMMANDS_FILE cannot be used"):
            list_tools_from_command("a", "default")


def test_a_server_sees_none_of_the_portals_secrets_SEC_2(allow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "the-portals-own")
    dump = "import os, sys; sys.exit(' '.join(sorted(os.environ)))"
    allow(server=[sys.executable, "-c", dump])
    with pytest.raises(FetchError) as refused:
        list_tools_from_command("server", "default")
    assert "PATH" in str(refused.value)
    for name in ("SECRET_KEY", "DATABASE", "REDIS"):
        assert name not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9/mcp", "http://localhost/mcp", "http://169.254.169.254/mcp", "http://[::1]/mcp", "http://0.0.0.0/mcp"],
)  # fmt: skip
def test_a_forbidden_address_is_not_connected_to_SEC_2(url: str) -> None:
    with pytest.raises(FetchError) as refused:
        list_tools_from_url(url)
    assert str(refused.value) == UNREACHABLE


@needs_badserver
def test_case_27_a_server_that_changed_is_followed_SYN_2(
    allow: Any, committed: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    def sync(mode: str, *more: str) -> dict[str, Any]:
        allow(server=bad(mode))
        call_command("import_mcp", "--command", "server", "--tenant", committed.slug, "--json", *more)
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    assert sync("ok")["added"] == 3
    assert sync("ok")["unchanged"] == 3
    changed = sync("v2", "--confirm-removals")
    # It has another name as well, which all of its tools show: so the unchanged one follows.
    assert [changed[name] for name in ("added", "changed", "removed", "unchanged")] == [1, 2, 1, 0]
    with pytest.raises(SystemExit):
        sync("page2error")
    assert "Page 2" in capsys.readouterr().err
    with tenant_context(committed.pk):
        active = Tool.objects.filter(active=True).order_by("name").values_list("name", flat=True)
        assert list(active) == ["ticket_assign", "ticket_list", "ticket_open"]


@needs_badserver
def test_case_27_search_follows_a_sync_at_once_by_text_and_by_meaning_after_the_worker_SYN_6(
    allow: Any, committed: Tenant, admin_database: psycopg.Connection[Any], settings: Any
) -> None:
    settings.EMBEDDING_PROVIDER = "tests.support.embeddings.providers.HashEmbedder"
    pipeline = Pipeline(committed.pk, admin_database)

    def sync(mode: str) -> None:
        allow(server=bad(mode))
        call_command("import_mcp", "--command", "server", "--tenant", committed.slug, "--confirm-removals")

    def matches(question: str) -> dict[str, str]:
        return {hit.tool["name"]: hit.match_type for hit in ask(committed.pk, question).hits}

    sync("ok")
    pipeline.work()
    assert matches("close a ticket")["ticket_close"] == "both"
    sync("v2")
    # Its vector is still in the table, and a search by words alone or by meaning alone would have it first.
    for question in ("close a ticket", "ticket_close", "Close a support ticket."):
        assert "ticket_close" not in matches(question)
    assert matches("assign a ticket to a person")["ticket_assign"] == "keyword"
    pipeline.work()
    assert matches("assign a ticket to a person")["ticket_assign"] == "both"
    assert "ticket_close" not in matches("close a ticket")
    with tenant_context(committed.pk):
        described = dict(Tool.objects.values_list("name", "description"))
        assert described["ticket_list"] == "List tickets, open and closed, newest first."
        assert described["ticket_close"] == "Close a support ticket."  # kept, inactive
        (changed, _) = tool_history(Tool.objects.get(name="ticket_list").pk)[0]
        (old,) = [one for one in changed.changes if one.label == "Description"]
        assert "".join(part.text for part in old.diff if part.kind != "new") == "List the open tickets."


@needs_badserver
def test_case_31_two_tools_of_one_name_are_the_first_one_at_every_sync_SYN_2(
    allow: Any, committed: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    allow(server=bad("dupnames"))
    for added, unchanged in ((3, 0), (0, 3)):
        call_command("import_mcp", "--command", "server", "--tenant", committed.slug, "--json")
        report = json.loads(capsys.readouterr().out)
        assert (report["added"], report["unchanged"], report["changed"]) == (added, unchanged, 0)
        assert [entry["operation"] for entry in report["left_out"]] == ["search"]
    with tenant_context(committed.pk):
        described = dict(Tool.objects.values_list("tool_id", "description"))
    assert described == {"search": "Search the wiki.", "item-get": "Dash.", "item_get": "Underscore."}
