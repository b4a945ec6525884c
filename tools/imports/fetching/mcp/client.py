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

from portal.outbound.addresses import validate_url
from portal.outbound.errors import UNREACHABLE, FetchError, FetchTimeout, InvalidTarget
from tools.catalogue.mcp_commands import allowed_command
from tools.imports.fetching.mcp.conversation import EXIT_REFUSED, EXIT_TIMEOUT

# What the child may need beyond its own time to end the server: SDK and system take a few seconds each.
_SECONDS_TO_END = 15
_OWN_ENVIRONMENT = ("PATH", "HOME", "LANG", "TMPDIR")


@dataclass(frozen=True, slots=True)
class ToolList:
    """All pages of a server's list in the form that formats/mcp_tools.py reads, and warnings about the reading."""

    raw: bytes
    warnings: tuple[str, ...]


def list_tools_from_url(
    url: str, headers: Mapping[str, str] | None = None, *, seconds: float | None = None
) -> ToolList:
    """The tools of a server over streamable HTTP, which is sent these headers; in at most `seconds`, which MCP_SECONDS bounds.
    Raises FetchError, InvalidTarget, FetchTimeout."""
    validate_url(url)
    return _run_session({"url": url, "headers": dict(headers or {}), "environment": {}}, seconds)


def list_tools_from_command(command_id: str, *, seconds: float | None = None) -> ToolList:
    """The tools of a server over stdio, which is started and ended for this. Raises FetchError, InvalidTarget, FetchTimeout."""
    chosen = allowed_command(command_id)
    missing = [name for name in chosen["environment"] if name not in os.environ]
    if missing:
        raise InvalidTarget(
            f"The MCP command {command_id} needs {', '.join(missing)} in the portal's environment."
        )
    environment = {name: os.environ[name] for name in chosen["environment"]}
    return _run_session({"command": chosen["command"], "headers": {}, "environment": environment}, seconds)


def _run_session(connection: dict[str, Any], seconds: float | None) -> ToolList:
    seconds = min(seconds or settings.MCP_SECONDS, settings.MCP_SECONDS)
    request = {
        **connection, "seconds": seconds, "max_bytes": settings.DOCUMENT_MAX_BYTES,
        "allowed_hosts": settings.IMPORT_ALLOWED_HOSTS,
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
            out, _ = child.communicate(json.dumps(request).encode(), seconds + _SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            raise FetchTimeout(f"The server did not answer within {seconds:g} s.") from None
        finally:
            if child.returncode is None:
                # The child and the server that it has started, which are one group.
                os.killpg(child.pid, signal.SIGKILL)
    if child.returncode == EXIT_REFUSED:
        raise FetchError(out.decode())
    if child.returncode == EXIT_TIMEOUT:
        raise FetchTimeout(out.decode())
    if child.returncode:
        raise FetchError("The server's answer could not be read within the limits of memory and time.")
    warnings, _, raw = out.partition(b"\n")
    return ToolList(raw, tuple(json.loads(warnings)))
