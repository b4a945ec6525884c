"""Lists the tools of an MCP server, which is reached by a streamable HTTP URL or started by the id of an allowed command
(CAT-3, SEC-2; tools/catalogue/mcp_commands.py)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from portal.outbound.addresses import validate_url
from portal.outbound.errors import UNREACHABLE, FetchError, FetchTimeout, InvalidTarget
from tools.catalogue.mcp_commands import allowed_command

# Beyond its own time the child may need some to end the server: SDK and system give it a few seconds each.
_SECONDS_TO_END = 15
_IDLE = "15min"  # more than the highest MCP_SECONDS
_OWN_ENVIRONMENT = ("PATH", "HOME", "LANG", "TMPDIR")


@dataclass(frozen=True, slots=True)
class ToolList:
    """What a server answered, all pages, in the form that mcp_tools.py reads, and what was odd about the way."""

    raw: bytes
    warnings: tuple[str, ...]


def list_tools_from_url(
    url: str, headers: Mapping[str, str] | None = None, *, seconds: float | None = None
) -> ToolList:
    """The tools of a server over streamable HTTP, which is sent these headers. `seconds` is less than MCP_SECONDS for who
    cannot wait so long. Raises FetchError."""
    validate_url(url)
    return _ask({"url": url, "headers": dict(headers or {}), "environment": {}}, seconds)


def list_tools_from_command(command_id: str, *, seconds: float | None = None) -> ToolList:
    """The tools of a server that is started for this, over stdio. Raises FetchError."""
    chosen = allowed_command(command_id)
    missing = [name for name in chosen["environment"] if name not in os.environ]
    if missing:
        raise InvalidTarget(
            f"The MCP command {command_id} needs {', '.join(missing)} in the portal's environment."
        )
    environment = {name: os.environ[name] for name in chosen["environment"]}
    return _ask({"command": chosen["command"], "headers": {}, "environment": environment}, seconds)


def _ask(way: dict[str, Any], seconds: float | None) -> ToolList:
    seconds = min(seconds or settings.MCP_SECONDS, settings.MCP_SECONDS)
    if connection.in_atomic_block:
        with connection.cursor() as cursor:
            # The request of a page is a transaction, and would be cut off for doing nothing.
            cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [_IDLE])
    asked = {
        **way, "seconds": seconds, "allowed_hosts": settings.IMPORT_ALLOWED_HOSTS,
        "unreachable": UNREACHABLE,
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "tools.imports.fetching.mcp.session"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=Path(__file__).resolve().parents[4],
        # The portal's environment holds its secrets.
        env={name: os.environ[name] for name in _OWN_ENVIRONMENT if name in os.environ},
        start_new_session=True,
    ) as child:  # fmt: skip
        try:
            out, _ = child.communicate(json.dumps(asked).encode(), seconds + _SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            raise FetchTimeout(f"The server did not answer within {seconds:g} s.") from None
        finally:
            if child.returncode is None:
                # The child and the server that it has started, which are one group.
                os.killpg(child.pid, signal.SIGKILL)
    if child.returncode == 3:
        raise FetchError(out.decode())
    if child.returncode == 4:
        raise FetchTimeout(out.decode())
    if child.returncode:
        raise FetchError("The server's answer could not be read within the limits of memory and time.")
    warnings, _, raw = out.partition(b"\n")
    return ToolList(raw, tuple(json.loads(warnings)))
