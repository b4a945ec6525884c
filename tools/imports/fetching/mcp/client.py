"""Asks an MCP server for its tools (CAT-3, SEC-2): one at a streamable HTTP URL, one that is started by the id of a command of its
tenant (tools/catalogue/mcp_allow_list.py), or a stored one, of which it records whether it answered."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Now

from portal.outbound.addresses import validate_url
from portal.outbound.errors import FetchError, FetchTimeout, InvalidTarget
from portal.tenancy.context import tenant_context
from tools.catalogue.mcp_allow_list import command_of, tenant_slug
from tools.catalogue.servers import secret_headers
from tools.imports.fetching import sandbox
from tools.imports.fetching.mcp.conversation import EXIT_REFUSED, EXIT_TIMEOUT
from tools.imports.formats.specs import DocumentRefused
from tools.models import McpServer
from tools.models.server import Health

_PARSE_SECONDS = 30.0  # so that they are answered within the minute that a request has
# What the child may need beyond its own time to end the server: SDK and system take a few seconds each.
_SECONDS_TO_END = 15
_OWN_ENVIRONMENT = ("PATH", "HOME", "LANG", "TMPDIR")


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What "Test connection" found. `error` is a sentence, and empty of a server that answered."""

    reachable: bool
    seconds: float
    error: str = ""
    protocol_version: str = ""
    server_name: str = ""
    server_version: str = ""
    tools: tuple[str, ...] = ()  # by name, as an import would take them
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolList:
    """All pages of a server's list in the form that formats/mcp_tools.py reads, and warnings about the reading."""

    raw: bytes
    warnings: tuple[str, ...]


def check_connection(server: McpServer) -> ServerReport:
    """Asks a server for its tools and changes nothing but the note of its health."""
    begun = time.monotonic()
    try:
        found = list_tools(server)
        document = sandbox.parse("mcp", found.raw, name=server.slug, seconds=_PARSE_SECONDS)
    except (FetchError, DocumentRefused) as refused:
        return ServerReport(reachable=False, seconds=time.monotonic() - begun, error=str(refused))
    said = json.loads(found.raw)
    return ServerReport(
        reachable=True,
        seconds=time.monotonic() - begun,
        protocol_version=said["protocolVersion"],
        server_name=document.title,
        server_version=document.version,
        tools=tuple(endpoint.name for endpoint in document.endpoints),
        warnings=(
            *found.warnings,
            *document.warnings,
            *(f"{entry.operation} would be left out: {entry.reason}." for entry in document.left_out),
        ),
    )


def list_tools(server: McpServer) -> ToolList:
    """The tools of a server as it is now, and a note of its health. Takes up to MCP_SECONDS, so it is better called outside of
    a transaction. Raises FetchError."""
    try:
        with tenant_context(cast(UUID, server.tenant_id)):
            tenant, headers = tenant_slug(), secret_headers(server)
        found = (
            list_tools_from_url(server.url, headers)
            if server.url
            else list_tools_from_command(server.command_id, tenant)
        )
    except FetchError as refused:
        note_health(server, error=str(refused))
        raise
    note_health(server)
    return found


def note_health(server: McpServer, *, error: str = "") -> None:
    """Keeps the outcome of asking a server, if it is still reached in the same way."""
    noted: dict[str, Any] = (
        {"health": Health.FAILING, "last_error": error}
        if error
        else {"health": Health.HEALTHY, "last_error": "", "synced_at": Now()}
    )
    with tenant_context(cast(UUID, server.tenant_id)):
        McpServer.objects.filter(
            pk=server.pk, url=server.url, command_id=server.command_id, headers=server.headers
        ).update(**noted)


def list_tools_from_url(url: str, headers: Mapping[str, str] | None = None) -> ToolList:
    """The tools of a server over streamable HTTP, which is sent these headers. Raises FetchError, InvalidTarget, FetchTimeout."""
    validate_url(url)
    return _run_session({"url": url, "headers": dict(headers or {}), "environment": {}})


def list_tools_from_command(command_id: str, tenant: str) -> ToolList:
    """The tools of a server over stdio, which is started and ended for the tenant of this slug. Raises FetchError, InvalidTarget,
    FetchTimeout."""
    chosen = command_of(tenant, command_id)
    missing = [name for name in chosen.environment if name not in os.environ]
    if missing:
        raise InvalidTarget(
            f"The MCP command {command_id} needs {', '.join(missing)} in the portal's environment."
        )
    environment = {name: os.environ[name] for name in chosen.environment}
    return _run_session({"command": chosen.words, "headers": {}, "environment": environment})


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends a session that took too long: it ends whatever its server has started, which no other process can find."""
    child.send_signal(signal.SIGINT)
    try:
        child.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)


def _run_session(connection: dict[str, Any]) -> ToolList:
    seconds = settings.MCP_SECONDS
    request = {
        **connection, "seconds": seconds, "max_bytes": settings.DOCUMENT_MAX_BYTES,
        "allowed_hosts": settings.IMPORT_ALLOWED_HOSTS,
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
                _end(child)
    if child.returncode == EXIT_REFUSED:
        raise FetchError(out.decode())
    if child.returncode == EXIT_TIMEOUT:
        raise FetchTimeout(out.decode())
    if child.returncode:
        raise FetchError("The server's answer could not be read within the limits of memory and time.")
    warnings, _, raw = out.partition(b"\n")
    return ToolList(raw, tuple(json.loads(warnings)))
