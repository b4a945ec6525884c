"""MCP servers as reusable connections (CAT-3): written by people, asked by syncs and by "Test connection".

A server names what the installation allows its tenant (mcp_allow_list.py) and never holds it: the id of a command, and for each
HTTP header the environment variable with its value, which is read when the server is asked and goes nowhere else.

Who writes a server decides what the later syncs of all sources that are read there write, whatever the sensitivity of their
tools; so a caller who is bound to a sensitivity writes none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.db.models import RestrictedError
from django.db.models.functions import Now

from portal.outbound.addresses import validate_url
from portal.outbound.errors import FetchError, InvalidTarget
from tools.catalogue.errors import Invalid, ManagedBySource
from tools.catalogue.history import ANY_EVENT, require_event
from tools.catalogue.mcp_allow_list import command_of, require_secret, tenant_slug
from tools.catalogue.tools import catalogue_write, refuse_unknown_fields, validate_fields
from tools.catalogue.visibility import require_all_sensitivities, seen
from tools.models import McpServer
from tools.models.server import Health

EDITABLE_FIELDS = frozenset({"slug", "title", "url", "command_id", "headers"})
MAX_HEADERS = 20
ONE_WAY = "Give either a URL or a command, and not both."
_CONNECTION = frozenset({"url", "command_id", "headers"})
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,199}")
# The transport's own: to set them would break the conversation, or say something about another one.
_NOT_THEIRS = {
    "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
    "keep-alive", "last-event-id", "mcp-protocol-version", "mcp-session-id", "te", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip


def create_server(*, actor: str, **fields: Any) -> McpServer:
    """Raises Invalid, NameTaken, BeyondRights."""
    refuse_unknown_fields(fields, EDITABLE_FIELDS)
    require_all_sensitivities()
    server = McpServer(**fields)
    _validate(server, fields)
    with catalogue_write(actor):
        server.save(force_insert=True)
    return server


def update_server(
    *, pk: UUID, actor: str, expected_event: int | None = ANY_EVENT, **changes: Any
) -> McpServer:
    """Writes what differs. A changed connection is one that was not asked yet. `expected_event` is the number of the newest
    event that the author saw. Raises StaleSettings, Invalid, NameTaken, BeyondRights, and McpServer.DoesNotExist."""
    refuse_unknown_fields(changes, EDITABLE_FIELDS)
    require_all_sensitivities()
    with catalogue_write(actor):
        server: McpServer = McpServer.objects.select_for_update(no_key=True).get(pk=pk)
        require_event(server, expected_event)
        changed = {name: value for name, value in changes.items() if getattr(server, name) != value}
        if not changed:
            return server
        if changed.keys() & _CONNECTION:
            changed |= {"health": Health.UNKNOWN, "last_error": ""}
        for name, value in changed.items():
            setattr(server, name, value)
        _validate(server, changes)
        server.updated_at = Now()
        server.save(update_fields=[*changed, "updated_at"])
    return server


def delete_server(*, pk: UUID, actor: str) -> None:
    """Raises ManagedBySource while sources are read from it, BeyondRights, and McpServer.DoesNotExist."""
    require_all_sensitivities()
    with catalogue_write(actor):
        server = McpServer.objects.select_for_update(no_key=True).get(pk=pk)
        try:
            server.delete()
        except RestrictedError:
            shown = ", ".join(seen(server.sources.all()).values_list("slug", flat=True))
            read_here = f"these sources are read: {shown}" if shown else "sources are read"
            raise ManagedBySource(
                f"{server} is where {read_here}. Give them another server, or delete them first."
            ) from None


def secret_headers(server: McpServer) -> dict[str, str]:
    """The headers with their values, which are neither stored nor shown; asked in the server's tenant. Raises InvalidTarget."""
    found = {}
    tenant = tenant_slug()
    for header, variable in server.headers.items():
        if reason := _header_problem(header, variable, tenant) or _url_problem(server.url, server.headers):
            raise InvalidTarget(reason)
        value = os.environ.get(variable, "").strip()
        if not value:
            raise InvalidTarget(f"The header {header} needs {variable} in the portal's environment.")
        if not (value.isascii() and value.isprintable()):
            raise InvalidTarget(
                f"The value of {variable} cannot be a header: it has other than plain characters."
            )
        _check_destination(server.url, variable)
        found[header] = value
    return found


def _check_destination(url: str, variable: str) -> None:
    """A variable may say in <its name>_HOSTS where its value may go. Raises InvalidTarget."""
    hosts = os.environ.get(f"{variable}_HOSTS", "").replace(",", " ").split()
    if hosts and urlsplit(url).hostname not in hosts:
        raise InvalidTarget(f"{variable} may be sent only to {', '.join(hosts)} ({variable}_HOSTS).")


def _validate(server: McpServer, given: Mapping[str, object]) -> None:
    # `_way_problem` checks the URL as a connection does.
    validate_fields(server, given, exclude={"tenant", "url"})
    errors = {
        "url": _way_problem(server),
        "command_id": _command_problem(server),
        "headers": _headers_problem(server),
    }
    if found := {name: [reason] for name, reason in errors.items() if reason}:
        raise Invalid(found)


def _way_problem(server: McpServer) -> str:
    if bool(server.url) == bool(server.command_id):
        return ONE_WAY
    try:
        if server.url:
            validate_url(server.url)
    except FetchError as refused:
        return str(refused)
    return _url_problem(server.url, server.headers) if server.url else ""


def _command_problem(server: McpServer) -> str:
    if server.command_id:
        try:
            command_of(tenant_slug(), server.command_id)
        except FetchError as refused:
            return str(refused)
    return ""


def _headers_problem(server: McpServer) -> str:
    headers = server.headers
    if not isinstance(headers, dict):
        return "Must be a JSON object of header names and names of environment variables."
    if headers and server.command_id:
        return "Only a server with a URL is sent headers; a command's variables stand in MCP_COMMANDS_FILE."
    if len(headers) > MAX_HEADERS or len({name.lower() for name in headers}) < len(headers):
        return f"Give at most {MAX_HEADERS} headers, each once."
    tenant = tenant_slug() if headers else ""
    return next((reason for one in headers.items() if (reason := _header_problem(*one, tenant))), "")


def _header_problem(header: str, variable: object, tenant: str) -> str:
    prefix = settings.MCP_SECRET_PREFIX
    if not _HEADER.fullmatch(header):
        return "The name of a header has letters, digits and dashes only."
    if header.lower() in _NOT_THEIRS or header.lower().startswith("proxy-"):
        return f"The header {header} is the portal's own."
    if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable) or not variable.startswith(prefix):
        return f"The value of {header} must be the name of an environment variable that begins with {prefix}."
    try:
        require_secret(tenant, variable)
    except InvalidTarget as refused:
        return str(refused)
    return ""


def _url_problem(url: str, headers: object) -> str:
    """A value that goes over an open line would be known to everybody on it."""
    parts = urlsplit(url)
    if headers and parts.scheme != "https" and parts.netloc not in settings.IMPORT_ALLOWED_HOSTS:
        return "Headers are sent over https only, or to a host of IMPORT_ALLOWED_HOSTS."
    return ""
