"""Which tenant may use which command and which secret of MCP servers (CAT-3, SEC-2, S15).

What a person or the database says never becomes a command, nor the name of a secret: it only chooses among what
MCP_COMMANDS_FILE gives to the tenant. That file is written where the portal is deployed:

    {"commands": {"time": {"command": ["uvx", "mcp-server-time"], "environment": ["TZ"], "tenants": ["shop", "bank"]}},
     "secrets": {"MCP_SECRET_GITHUB": {"tenants": ["shop"]}}}

`tenants` are slugs, or `["*"]` for all. `environment` and the names of secrets are variables of the portal's own environment.
What belongs to another tenant is refused in the words for what does not exist, so that nobody learns its name.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.core import checks

from portal.json_types import JsonObject
from portal.outbound.errors import InvalidTarget
from portal.tenancy.context import current_tenant
from portal.tenancy.models import Tenant

log = logging.getLogger(__name__)

EVERY_TENANT = "*"
CHECKS = "mcp_allow_list"
_EXAMPLE = '{"commands": {"time": {"command": ["/srv/mcp/bin/mcp-server-time"], "tenants": ["default"]}}}'


class UnusableFile(Exception):
    """MCP_COMMANDS_FILE cannot be read; the message is for those who deploy the portal, and says what to write."""


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a program's start, the variables that it gets, and the slugs of its tenants."""

    words: list[str]
    environment: list[str]
    tenants: list[str]


@dataclass(frozen=True, slots=True)
class AllowList:
    """Commands by id, and for each secret's variable the slugs of its tenants."""

    commands: dict[str, Command] = field(default_factory=dict)
    secrets: dict[str, list[str]] = field(default_factory=dict)


def tenant_slug() -> str:
    """The name of the current tenant, as the file spells it."""
    return Tenant.objects.values_list("slug", flat=True).get(pk=current_tenant())


def commands_of(tenant: str) -> dict[str, Command]:
    """The commands that the tenant of this slug may start, by id. Raises InvalidTarget for a file that cannot be read."""
    return {name: one for name, one in _allow_list().commands.items() if _may(tenant, one.tenants)}


def command_of(tenant: str, command_id: str) -> Command:
    """Raises InvalidTarget for a command that does not exist, or is not this tenant's."""
    allowed = commands_of(tenant)
    if command_id not in allowed:
        known = f"there is {', '.join(sorted(allowed))}" if allowed else "none is allowed here"
        raise InvalidTarget(f"There is no MCP command {command_id!r}: {known} (MCP_COMMANDS_FILE).")
    return allowed[command_id]


def secrets_of(tenant: str) -> list[str]:
    """The variables that the tenant of this slug may have sent as headers. Raises InvalidTarget as `commands_of`."""
    return sorted(name for name, tenants in _allow_list().secrets.items() if _may(tenant, tenants))


def require_secret(tenant: str, variable: str) -> None:
    """Raises InvalidTarget for a secret that does not exist, or is not this tenant's."""
    allowed = secrets_of(tenant)
    if variable not in allowed:
        known = f"there is {', '.join(allowed)}" if allowed else "none is allowed here"
        raise InvalidTarget(f"There is no secret {variable}: {known} (MCP_COMMANDS_FILE).")


def _may(tenant: str, tenants: list[str]) -> bool:
    return tenant in tenants or EVERY_TENANT in tenants


def _allow_list() -> AllowList:
    try:
        return read_file()
    except UnusableFile as error:
        log.error("%s", error)  # noqa: TRY400 - a sentence for those who run the portal, without the way to it
        # What is wrong may name what belongs to other tenants.
        raise InvalidTarget("MCP_COMMANDS_FILE cannot be used; `manage.py check` says why.") from None


def read_file() -> AllowList:
    """The whole file; an empty list where none is set. Raises UnusableFile."""
    path = settings.MCP_COMMANDS_FILE
    if not path:
        return AllowList()
    try:
        return _parse(json.loads(Path(path).read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise UnusableFile(
            f"No MCP command and no secret may be used, because MCP_COMMANDS_FILE cannot be read: {error}."
        ) from None


def _parse(written: object) -> AllowList:
    if not isinstance(written, dict):
        raise ValueError(f"it must be an object such as {_EXAMPLE}")
    if any(isinstance(entry, dict) and "command" in entry for entry in written.values()):
        raise ValueError(
            "it is of the old form, which named no tenants. Put its entries under `commands`, and write in each which "
            f"tenants may use it: {_EXAMPLE}"
        )
    _only(written, "the file", {"commands", "secrets"})
    return AllowList(
        {name: _command(name, entry) for name, entry in _section(written, "commands").items()},
        {name: _secret(name, entry) for name, entry in _section(written, "secrets").items()},
    )


def _section(written: JsonObject, name: str) -> JsonObject:
    section = written.get(name, {})
    if not isinstance(section, dict):
        raise ValueError(f"{name} must be an object")
    return section


def _command(name: str, entry: object) -> Command:
    given = _object(name, entry, {"command", "environment", "tenants"})
    command = Command(
        _texts(given, name, "command"), _texts(given, name, "environment"), _texts(given, name, "tenants")
    )
    if not command.words:
        raise ValueError(f"{name} has no command")
    return command


def _secret(name: str, entry: object) -> list[str]:
    return _texts(_object(name, entry, {"tenants"}), name, "tenants")


def _object(name: str, entry: object, known: set[str]) -> JsonObject:
    if not isinstance(entry, dict):
        raise ValueError(f"{name} must be an object")
    _only(entry, name, known)
    return entry


def _texts(entry: JsonObject, name: str, key: str) -> list[str]:
    texts = entry.get(key, [] if key == "environment" else None)
    if texts is None:
        raise ValueError(f"{name} has no {key}; write, for example, {_EXAMPLE}")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{key} of {name} must be a list of texts")
    return [str(text) for text in texts]


def _only(entry: JsonObject, name: str, known: set[str]) -> None:
    if unknown := sorted(entry.keys() - known):
        raise ValueError(f"{name} holds {', '.join(unknown)}, and may hold {', '.join(sorted(known))}")


def check_file(**_: object) -> list[checks.CheckMessage]:
    """What `manage.py check` and a start say of the file: that it cannot be read, or that a secret belongs to nobody."""
    try:
        given = read_file().secrets
    except UnusableFile as error:
        return [checks.Warning(str(error), id="tools.W001")]
    prefix = settings.MCP_SECRET_PREFIX
    ours = {name for name in os.environ if name.startswith(prefix) and not name.endswith("_HOSTS")}
    return [
        checks.Warning(
            f"{name} is set and may be used by no tenant. Write into MCP_COMMANDS_FILE which may: "
            f'{{"secrets": {{"{name}": {{"tenants": ["default"]}}}}}}.',
            id="tools.W002",
        )
        for name in sorted(ours - given.keys())
    ]
