"""MCP servers for tests: badserver.py of ../shared, small ones in one line of Python, and what they leave behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from portal.tenancy.context import tenant_context
from portal.tenancy.models import Tenant
from tests.support.imports.documents import INPUTS
from tools.imports.fetching.mcp.client import ToolList

BADSERVER = INPUTS / "tools" / "badserver.py"
needs_badserver = pytest.mark.skipif(not BADSERVER.exists(), reason="needs ../shared/inputs")
# A server over stdio; ANSWER is an expression for its answer to tools/list, and `asked` the question.
PLAIN = """
import json, os, subprocess, sys, time
def send(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
              "serverInfo": {"name": "plain", "version": "1"}} if asked["method"] == "initialize" else ANSWER
    send({"id": asked["id"], "result": result})
"""


# What tests name as values of headers.
SECRETS = (
    "MCP_SECRET_A",
    "MCP_SECRET_B",
    "MCP_SECRET_SHOP",
    "MCP_SECRET_GITHUB",
    "MCP_SECRET_LAB",
    "MCP_SECRET_WEB",
)
# Of the source itself it is noted when it was read.
TABLES = (
    "tool",
    "toolembedding",
    "endpoint",
    "sourcedocument",
    "sync",
    "syncchange",
    "toolevent",
    "mcpserverevent",
)


def plain(answer: str, before: str = "") -> list[str]:
    """The command of a PLAIN server; `before` is what it does first."""
    return [sys.executable, "-c", before + PLAIN.replace("ANSWER", answer)]


def bad(mode: str) -> list[str]:
    return [sys.executable, str(BADSERVER), mode]


def allow(settings: Any, folder: Path, **commands: list[str] | dict[str, Any]) -> None:
    """Allows commands by id, and the secrets of SECRETS, as the file of an installation does; all tenants, where none are named."""
    given = {name: one if isinstance(one, dict) else {"command": one} for name, one in commands.items()}
    write_allow_list(
        settings, folder,
        commands={name: {"tenants": ["*"], **one} for name, one in given.items()},
        secrets={name: {"tenants": ["*"]} for name in SECRETS},
    )  # fmt: skip


def write_allow_list(settings: Any, folder: Path, **sections: Any) -> None:
    """Writes MCP_COMMANDS_FILE with these sections as they are."""
    path = folder / "commands.json"
    path.write_text(json.dumps(sections))
    settings.MCP_COMMANDS_FILE = str(path)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def listening(command: list[str], port: int, settings: Any, **options: Any) -> Iterator[str]:
    """The URL of a server over HTTP that `command` starts on a port; the settings allow it."""
    settings.IMPORT_ALLOWED_HOSTS = [*settings.IMPORT_ALLOWED_HOSTS, f"127.0.0.1:{port}"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
    ) as process:
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def over_http(mode: str, settings: Any) -> Any:
    port = free_port()
    return listening([*bad(mode), "--http", str(port)], port, settings)


def names(found: ToolList) -> list[str]:
    return [tool["name"] for page in json.loads(found.raw)["pages"] for tool in page["tools"]]


def running(mark: str) -> list[str]:
    """Command lines with a word that no other process has, zombies not counted: they have none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().decode(errors="replace")
            if mark in words and entry.parent.name != str(os.getpid()):
                found.append(words)
    return found


def children() -> list[str]:
    """This process's children, zombies too."""
    listed = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "pid=,args="],
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in listed.stdout.splitlines() if "ps --ppid" not in line]


def open_files() -> int:
    """This process's open files and pipes; how many connections to the database it keeps is the pool's affair."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += not str(entry.readlink()).startswith(("socket:", "anon_inode:"))
    return found


def soon(gone: Any, seconds: float = 8) -> Any:
    """What is still there after a while, asked again until it is nothing."""
    deadline = time.monotonic() + seconds
    while (left := gone()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def rows(tenant: Tenant) -> list[Any]:
    """Every row that a sync may write, with the transaction that wrote it last."""
    with tenant_context(tenant.pk), connection.cursor() as cursor:
        found = []
        for table in TABLES:
            cursor.execute(
                f"SELECT '{table}', xmin::text, count(*) FROM tools_{table} GROUP BY xmin::text ORDER BY 2"
            )
            found += cursor.fetchall()
        return found
