"""The commands of MCP servers that this installation may start (CAT-3, SEC-2).

What a person or the database says never becomes a command: an id only chooses one of MCP_COMMANDS_FILE, which is written
where the portal is deployed. It looks like this, and `environment` names variables of the portal's own environment:

    {"time": {"command": ["uvx", "mcp-server-time"], "environment": ["TZ"]}}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.conf import settings

from portal.outbound.errors import InvalidTarget


def allowed_command(command_id: str) -> dict[str, list[str]]:
    """An entry of the allow list. Raises InvalidTarget."""
    allowed = allowed_commands()
    if command_id not in allowed:
        known = f"there is {', '.join(sorted(allowed))}" if allowed else "none is allowed here"
        raise InvalidTarget(f"There is no MCP command {command_id!r}: {known} (MCP_COMMANDS_FILE).")
    return allowed[command_id]


def allowed_commands() -> dict[str, dict[str, list[str]]]:
    """The allow list by id. Raises InvalidTarget for a file that is none."""
    path = settings.MCP_COMMANDS_FILE
    if not path:
        return {}
    try:
        listed = json.loads(Path(path).read_text("utf-8"))
        return {str(name): _entry(entry) for name, entry in listed.items()}
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        raise InvalidTarget(f"MCP_COMMANDS_FILE cannot be used: {error}.") from None


def _entry(entry: dict[str, Any]) -> dict[str, list[str]]:
    command, environment = entry["command"], entry.get("environment", [])
    for words in (command, environment):
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise TypeError("command and environment must be lists of texts")
    if not command:
        raise ValueError("a command is empty")
    return {"command": command, "environment": environment}
