"""S11: nothing that a person, a document or the database says becomes a command. Only the modules of this list can start a
process at all, and each says with what."""

from __future__ import annotations

import ast
import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from portal.outbound.errors import FetchError
from portal.tenancy.models import Tenant
from tests.support.imports.limits import parse_document
from tests.support.processes import ROOT
from tests.support.servers.mcp_servers import allow
from tools.imports.fetching.mcp.client import list_tools_from_command, list_tools_from_url
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing import service
from tools.imports.syncing.documents import IncomingDocument

# What each starts: our own Python with our own module, or a program of the installation.
MAY_START = {
    "portal/proxy.py": "the reverse proxy, which it becomes",
    "tools/imports/fetching/mcp/client.py": "mcp_session, which is told an entry of MCP_COMMANDS_FILE",
    "tools/imports/fetching/mcp/session.py": "itself, to end what a server leaves",
    "tools/imports/fetching/mcp/stdio.py": "an entry of MCP_COMMANDS_FILE",
    "tools/imports/fetching/sandbox.py": "itself, as the reader of one document",
    "tools/imports/fetching/spec_validator.py": "itself once more, as the check of one document",
}
# The embedded services, their supervisor, and what asks whether a process is there.
MAY_START_FOLDERS = ("portal/embedded/", "portal/processes")
_MODULES = {"subprocess", "pty", "multiprocessing", "_posixsubprocess"}
_NAMES = {
    "StdioServerParameters", "stdio_client", "open_process", "run_process", "create_subprocess_exec",
    "create_subprocess_shell", "system", "popen", "posix_spawn", "posix_spawnp", "fork", "forkpty",
}  # fmt: skip


def starts(tree: ast.AST) -> Iterator[str]:
    """What of a module can start a process, or run a text as code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.split(".")[0] in _MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] in _MODULES:
                yield node.module
            yield from (one.name for one in node.names if _starts(one.name))
        elif isinstance(node, ast.Attribute) and _starts(node.attr):
            yield node.attr
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"eval", "exec", "__import__"}
        ):
            yield node.func.id


def _starts(name: str) -> bool:
    return name in _NAMES or (
        name.startswith(("exec", "spawn")) and name.removeprefix("exec").removeprefix("spawn") in _KINDS
    )


_KINDS = {"l", "le", "lp", "lpe", "v", "ve", "vp", "vpe"}


def modules() -> list[Path]:
    return sorted(
        path
        for package in ("portal", "tools", "embeddings", "metrics")
        for path in (ROOT / package).rglob("*.py")
    )


def test_s11_only_the_listed_modules_can_start_a_process() -> None:
    found = {}
    for path in modules():
        name = path.relative_to(ROOT).as_posix()
        what = sorted(set(starts(ast.parse(path.read_text()))))
        if what and name not in MAY_START and not name.startswith(MAY_START_FOLDERS):
            found[name] = what
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess", "from subprocess import run as go", "import os\nos.execvp('sh', ['sh'])", "from os import system",
        "from mcp import StdioServerParameters", "import anyio\nanyio.open_process('sh')", "import multiprocessing.pool",
        "import asyncio\nasyncio.create_subprocess_shell('x')", "import os\nos.spawnlp(0, 'sh')", "eval('1')", "__import__('subprocess')",
        "import mcp\nmcp.stdio_client(None)", "import os\nos.posix_spawn('sh', [], {})",
    ],
)  # fmt: skip
def test_s11_the_search_finds_what_it_looks_for(source: str) -> None:
    assert list(starts(ast.parse(source)))


def test_s11_the_listed_modules_are_there_and_need_their_place() -> None:
    for name in MAY_START:
        assert list(starts(ast.parse((ROOT / name).read_text()))), name


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the account of commands may write to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def payloads(canary: str) -> list[Any]:
    """Shapes in which other products were told to start a program."""
    sh = ["sh", "-c", f"touch {canary}"]
    one = {"command": sh[0], "args": sh[1:]}
    tool = {"name": "a", "inputSchema": {"type": "object"}}
    return [
        one, {"command": sh}, {"mcpServers": {"a": one}}, {"mcpServers": {"a": {**one, "type": "stdio"}}},
        {"servers": {"a": {**one, "transport": "stdio"}}}, {"transport": "stdio", **one}, {"type": "stdio", **one},
        {"connection": {"transport": "stdio", **one}}, {"stdio": one}, {"server": {"stdio": one}}, [one], [{"mcpServers": {"a": one}}],
        {"tools": [], **one}, {"tools": [tool], "mcpServers": {"a": one}}, {"pages": [{"tools": [tool]}], "command": sh},
        {"result": {"tools": [tool], **one}}, {"tools": [{**tool, **one}]}, {"tools": [{**tool, "_meta": one}]},
        {"tools": [{**tool, "annotations": {"command": sh}}]}, {"tools": [{**tool, "name": f"$(touch {canary})"}]},
        {"tools": [{**tool, "name": f"`touch {canary}`; touch {canary}"}]}, {"serverInfo": one, "pages": [{"tools": [tool]}]},
        {"openapi": "3.0.0", "info": {"title": "T", "version": "1"}, "paths": {}, "x-mcp": one},
        {"openapi": "3.0.0", "info": {"title": f"$(touch {canary})", "version": "1"}, "paths": {"/a": {"get": {"operationId": f"a; touch {canary}", "x-mcp-server": one, "responses": {}}}}},
        {"openapi": "3.0.0", "info": {"title": "T", "version": "1"}, "servers": [{"url": f"stdio:///bin/sh?-c=touch+{canary}"}], "paths": {"/a": {"get": {"responses": {}}}}},
        {"lightapi": "0.1.0", "api": {"name": "a", "protocol": "mcp", "transport": "stdio", **one}},
        {"lightapi": "0.1.0", "endpoint": {"endpointId": "a", "protocol": "mcp", "transport": {"type": "stdio", **one}}},
        {"env": {"LD_PRELOAD": canary, "NODE_OPTIONS": f"--require={canary}"}, **one},
        f"!!python/object/apply:os.system ['touch {canary}']", f"tools: !!python/object/apply:subprocess.call [['touch', '{canary}']]",
    ]  # fmt: skip


def test_s11_thirty_documents_that_ask_for_a_program_start_none(
    committed: Tenant, settings: Any, tmp_path: Path, open_folder: Path
) -> None:
    """A command is allowed here, so that the way to a process is open; nothing of a document goes it. All are read; what
    can be imported is."""
    canary = open_folder / "canary"
    allow(settings, tmp_path, it=["touch", str(canary)])
    texts = payloads(str(canary))
    assert len(texts) == 30
    imported = 0
    for number, value in enumerate(texts):
        raw = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        with suppress(DocumentRefused):
            parse_document(raw, name="it.json")
            service.import_document(
                IncomingDocument(raw=raw, name="it.json", slug=f"it-{number}"),
                tenant_id=committed.pk,
                actor="ada",
            )
            imported += 1
    assert imported >= 5
    assert not canary.exists()


@pytest.mark.parametrize(
    "asked", ["sh", "/bin/sh", "sh -c 'touch CANARY'", "../it", "it ", "it;touch CANARY", "$(touch CANARY)", "IT", "", "it\0", "command", '["sh"]']
)  # fmt: skip
def test_s11_an_id_chooses_a_command_and_is_never_one(
    settings: Any,
    tmp_path: Path,
    asked: str,
    committed: Tenant,
    capsys: pytest.CaptureFixture[str],
    open_folder: Path,
) -> None:
    canary = open_folder / "canary"
    allow(settings, tmp_path, it=["touch", str(canary)])
    asked = asked.replace("CANARY", str(canary))
    with pytest.raises(FetchError, match="There is no MCP command"):
        list_tools_from_command(asked, "default")
    if asked:
        with pytest.raises(SystemExit):
            call_command("import_mcp", "--command", asked, "--tenant", committed.slug)
        assert "There is no MCP command" in capsys.readouterr().err
    assert not canary.exists()


@pytest.mark.parametrize(
    "url", ["stdio:///bin/sh", "file:///bin/sh", "sh -c id", "cmd://touch", "javascript:1", "http+unix://%2Fvar%2Frun%2Fdocker.sock/mcp", "npx://server", "|touch x"]
)  # fmt: skip
def test_s11_a_url_is_never_a_command(url: str) -> None:
    with pytest.raises(FetchError, match="Give a URL that starts with http"):
        list_tools_from_url(url)


def test_s11_the_canary_sings_when_a_command_is_allowed(
    settings: Any, tmp_path: Path, open_folder: Path
) -> None:
    canary = open_folder / "canary"
    allow(settings, tmp_path, it=["touch", str(canary)])
    with pytest.raises(FetchError):
        list_tools_from_command("it", "default")
    assert canary.exists()
