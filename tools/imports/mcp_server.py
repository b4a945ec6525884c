"""The way to an MCP server: a streamable HTTP URL, or the id of a command that the installation allows (CAT-3, SEC-2).

What a person or the database says never becomes a command: an id only chooses one of MCP_COMMANDS_FILE, which is written
where the portal is deployed. It looks like this, and `environment` names variables of the portal's own environment:

    {"time": {"command": ["uvx", "mcp-server-time"], "environment": ["TZ"]}}
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from tools.imports.fetch import UNREACHABLE, FetchRefused, host_header

# Beyond its own time the child may need some to end the server: SDK and system give it a few seconds each.
_SECONDS_TO_END = 15
_OWN_ENVIRONMENT = ("PATH", "HOME", "LANG", "TMPDIR")


@dataclass(frozen=True, slots=True)
class ToolList:
    """What a server answered, all pages, in the form that mcp_tools.py reads, and what was odd about the way."""

    raw: bytes
    warnings: tuple[str, ...]


def from_url(url: str) -> ToolList:
    """The tools of a server over streamable HTTP. Raises FetchRefused."""
    host_header(url)
    return _ask({"url": url}, {})


def from_command(command_id: str) -> ToolList:
    """The tools of a server that is started for this, over stdio. Raises FetchRefused."""
    allowed = commands()
    if command_id not in allowed:
        known = f"there is {', '.join(sorted(allowed))}" if allowed else "none is allowed here"
        raise FetchRefused(f"There is no MCP command {command_id!r}: {known} (MCP_COMMANDS_FILE).")
    chosen = allowed[command_id]
    missing = [name for name in chosen["environment"] if name not in os.environ]
    if missing:
        raise FetchRefused(
            f"The MCP command {command_id} needs {', '.join(missing)} in the portal's environment."
        )
    environment = {name: os.environ[name] for name in chosen["environment"]}
    return _ask({"command": chosen["command"]}, environment)


def commands() -> dict[str, dict[str, list[str]]]:
    """The allow list by id. Raises FetchRefused for a file that is none."""
    path = settings.MCP_COMMANDS_FILE
    if not path:
        return {}
    try:
        listed = json.loads(Path(path).read_text("utf-8"))
        return {str(name): _entry(entry) for name, entry in listed.items()}
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        raise FetchRefused(f"MCP_COMMANDS_FILE cannot be used: {error}.") from None


def _entry(entry: dict[str, Any]) -> dict[str, list[str]]:
    command, environment = entry["command"], entry.get("environment", [])
    for words in (command, environment):
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise TypeError("command and environment must be lists of texts")
    if not command:
        raise ValueError("a command is empty")
    return {"command": command, "environment": environment}


def _ask(connection: dict[str, Any], environment: dict[str, str]) -> ToolList:
    asked = {
        **connection, "headers": {}, "environment": environment, "seconds": settings.MCP_SECONDS,
        "allowed_hosts": settings.IMPORT_ALLOWED_HOSTS, "unreachable": UNREACHABLE,
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "tools.imports.mcp_session"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2],
        # The portal's environment holds its secrets.
        env={name: os.environ[name] for name in _OWN_ENVIRONMENT if name in os.environ},
    ) as child:  # fmt: skip
        try:
            out, words = child.communicate(json.dumps(asked).encode(), settings.MCP_SECONDS + _SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            child.kill()
            raise FetchRefused(f"The server did not answer within {settings.MCP_SECONDS:g} s.") from None
    if child.returncode == 3:
        raise FetchRefused(words.decode(errors="replace"))
    if child.returncode:
        raise FetchRefused("The server's answer could not be read within the limits of memory and time.")
    found = json.loads(out)
    warnings = tuple(found.pop("warnings", ()))
    return ToolList(json.dumps(found, ensure_ascii=False, indent=1).encode(errors="replace"), warnings)
