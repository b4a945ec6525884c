"""SYN-2: MCP servers that are asked for their tools, over stdio and streamable HTTP, whatever they do (cases 21, 23, 25, 27,
29, 31, 33). The servers are badserver.py of ../shared and real ones."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.tools.documents import INPUTS
from tools.imports import mcp_server
from tools.imports.fetch import UNREACHABLE, FetchRefused
from tools.models import Tool

BADSERVER = INPUTS / "tools" / "badserver.py"
needs_badserver = pytest.mark.skipif(not BADSERVER.exists(), reason="needs ../shared/inputs")
# A server written in one line, for machines without ../shared.
PLAIN = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
              "serverInfo": {"name": "plain", "version": "1"}} if asked["method"] == "initialize" else ANSWER
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def allow(settings: Any, tmp_path: Path) -> Any:
    """Allows commands by id, as the file of an installation does."""

    def allowed(**commands: list[str] | dict[str, Any]) -> None:
        path = tmp_path / "commands.json"
        entries = {name: one if isinstance(one, dict) else {"command": one} for name, one in commands.items()}
        path.write_text(json.dumps(entries))
        settings.MCP_COMMANDS_FILE = str(path)

    settings.MCP_SECONDS = 10
    return allowed


def bad(mode: str) -> list[str]:
    return [sys.executable, str(BADSERVER), mode]


@contextmanager
def over_http(mode: str, settings: Any) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings.IMPORT_ALLOWED_HOSTS = [f"127.0.0.1:{port}"]
    with subprocess.Popen([*bad(mode), "--http", str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def names(found: mcp_server.ToolList) -> list[str]:
    return [tool["name"] for page in json.loads(found.raw)["pages"] for tool in page["tools"]]


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
    found = mcp_server.from_command("server")
    assert (names(found), found.warnings) == (expected, ())
    with over_http(mode, settings) as url:
        assert names(mcp_server.from_url(url)) == expected


@needs_badserver
@pytest.mark.parametrize(("mode", "said"), FAILURES)
def test_case_25_a_server_that_fails_ends_in_time_and_says_which_fault_it_was_SYN_2(
    allow: Any, settings: Any, mode: str, said: str
) -> None:
    allow(server=bad(mode))
    settings.MCP_SECONDS = 2 if mode == "hang" else 10
    with pytest.raises(FetchRefused, match=said):
        mcp_server.from_command("server")
    with over_http(mode, settings) as url, pytest.raises(FetchRefused, match=said):
        mcp_server.from_url(url)


@needs_badserver
def test_case_25_the_last_words_of_a_server_that_dies_are_told_without_its_secrets_SYN_2(
    allow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(crash=bad("crash"), cut=bad("diemidlist"), own={
        "command": [sys.executable, "-c", "import os, sys; sys.exit('bad key ' + os.environ['SHOP_KEY'])"],
        "environment": ["SHOP_KEY"],
    })  # fmt: skip
    with pytest.raises(FetchRefused, match="Its last words: Error: TOKEN_PLACEHOLDER is not set"):
        mcp_server.from_command("crash")
    with pytest.raises(FetchRefused, match="The server ended before it had answered"):
        mcp_server.from_command("cut")
    with pytest.raises(FetchRefused, match="needs SHOP_KEY"):
        mcp_server.from_command("own")
    monkeypatch.setenv("SHOP_KEY", "hunter2-hunter2")
    with pytest.raises(FetchRefused, match=r"bad key \*\*\*$"):
        mcp_server.from_command("own")


@needs_badserver
def test_case_23_chatter_on_stdout_is_a_warning_that_names_the_first_line_SYN_2(allow: Any) -> None:
    allow(server=bad("noise"))
    found = mcp_server.from_command("server")
    assert len(names(found)) == 3
    assert found.warnings == (
        "The server wrote 8 other lines among its answers; the first: *** Welcome to Badserver 1.0 ***",
    )


@needs_badserver
def test_case_25_no_process_is_left_behind_SYN_2(allow: Any, settings: Any, tmp_path: Path) -> None:
    """Servers whose command line holds a word that no other process has."""
    mark = f"mark-{tmp_path.name}"
    allow(**{mode: [*bad(mode), mark] for mode in ("ok", "hang", "crash", "diemidlist")})
    settings.MCP_SECONDS = 1.5
    for mode in ("ok", "hang", "crash", "diemidlist"):
        try:
            mcp_server.from_command(mode)
        except FetchRefused:
            continue
    deadline = time.monotonic() + 5
    while left := _running(mark):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _running(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if mark in words and entry.parent.name != str(os.getpid()):
            found.append(words)
    return found


def test_an_odd_tool_does_not_hide_the_rest_of_a_live_list_SYN_2(allow: Any) -> None:
    answer = {
        "tools": [
            {"name": "no_schema"},
            {"name": "half \ud83d"},
            {"name": "good", "inputSchema": {"type": "object"}},
        ]
    }
    allow(server=[sys.executable, "-c", PLAIN.replace("ANSWER", repr(answer))])
    assert [name.rstrip("\ufffd? ") for name in names(mcp_server.from_command("server"))] == [
        "no_schema",
        "half",
        "good",
    ]


def test_a_list_that_never_ends_is_given_up_SYN_2(allow: Any) -> None:
    allow(server=[sys.executable, "-c", PLAIN.replace("ANSWER", '{"tools": [], "nextCursor": "again"}')])
    with pytest.raises(FetchRefused, match="The list does not end"):
        mcp_server.from_command("server")


def test_an_answer_that_is_too_large_is_given_up_SYN_2(allow: Any) -> None:
    allow(server=[sys.executable, "-c", PLAIN.replace("ANSWER", '{"tools": [], "x": "x" * 30_000_000}')])
    # Which of the two limits it meets first depends on the machine.
    with pytest.raises(FetchRefused, match=r"larger than 20 MB|did not answer within 10 s"):
        mcp_server.from_command("server")


def test_only_commands_of_the_allow_list_are_started_SEC_2(allow: Any, settings: Any, tmp_path: Path) -> None:
    with pytest.raises(FetchRefused, match="none is allowed here"):
        mcp_server.from_command("time")
    allow(time=["no-such-program"])
    with pytest.raises(FetchRefused, match="there is time"):
        mcp_server.from_command("/bin/sh")
    with pytest.raises(FetchRefused, match="cannot be started: No such file"):
        mcp_server.from_command("time")
    for wrong in ("[]", "{", '{"a": {"command": "sh -c x"}}', '{"a": {"command": []}}', '{"a": {}}'):
        path = tmp_path / "wrong.json"
        path.write_text(wrong)
        settings.MCP_COMMANDS_FILE = str(path)
        with pytest.raises(FetchRefused, match="MCP_COMMANDS_FILE cannot be used"):
            mcp_server.from_command("a")


def test_a_server_sees_none_of_the_portals_secrets_SEC_2(allow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "the-portals-own")
    dump = "import os, sys; sys.exit(' '.join(sorted(os.environ)))"
    allow(server=[sys.executable, "-c", dump])
    with pytest.raises(FetchRefused) as refused:
        mcp_server.from_command("server")
    assert "PATH" in str(refused.value)
    for name in ("SECRET_KEY", "DATABASE", "REDIS"):
        assert name not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9/mcp", "http://localhost/mcp", "http://169.254.169.254/mcp", "http://[::1]/mcp", "http://0.0.0.0/mcp"],
)  # fmt: skip
def test_a_forbidden_address_is_not_connected_to_SEC_2(url: str) -> None:
    with pytest.raises(FetchRefused) as refused:
        mcp_server.from_url(url)
    assert str(refused.value) == UNREACHABLE


@needs_badserver
def test_case_27_a_server_that_changed_is_followed_SYN_2(
    allow: Any, committed: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    def sync(mode: str) -> dict[str, Any]:
        allow(server=bad(mode))
        call_command("import_mcp", "--command", "server", "--tenant", committed.slug, "--json")
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    assert sync("ok")["added"] == 3
    assert sync("ok")["unchanged"] == 3
    changed = sync("v2")
    # It has another name as well, which all of its tools show: so the unchanged one follows.
    assert [changed[name] for name in ("added", "changed", "removed", "unchanged")] == [1, 2, 1, 0]
    with pytest.raises(SystemExit):
        sync("page2error")
    assert "Page 2" in capsys.readouterr().err
    with tenant_context(committed.pk):
        active = Tool.objects.filter(active=True).order_by("name").values_list("name", flat=True)
        assert list(active) == ["ticket_assign", "ticket_list", "ticket_open"]
