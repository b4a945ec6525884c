"""Lists all tools of an MCP server, page by page, with the official SDK (SYN-2).

This is a program (`python -m tools.imports.fetching.mcp.session`), because it runs or talks to a server of others: client.py
bounds its time, and it has neither Django nor the portal's secrets. It reads one JSON object from stdin, which client.py
writes. To stdout it writes a JSON list of warnings on one line and then the tools in the form that formats/mcp_tools.py reads;
or, with EXIT_REFUSED or EXIT_TIMEOUT, one sentence for the operator.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpcore2
import httpx2
from anyio.abc import ObjectReceiveStream
from mcp import ClientSession, MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.types import CONNECTION_CLOSED, PARSE_ERROR, ErrorData, Implementation, JSONRPCNotification
from pydantic import ValidationError

from portal.json_types import JsonObject
from portal.outbound.addresses import AddressNotAllowed, why_unreachable
from portal.outbound.errors import causes_of
from tools.imports.fetching.mcp.conversation import (
    EXIT_KILLED,
    EXIT_REFUSED,
    EXIT_TIMEOUT,
    Conversation,
    Redactor,
    SessionError,
    SessionTimeout,
)
from tools.imports.fetching.mcp.http import streamable_http
from tools.imports.fetching.mcp.stdio import end_all_descendants, own_all_descendants, stdio
from tools.imports.formats.texts import one_line, truncate, without_controls

SECONDS_TO_END = 4
"""What an interrupted session has to end its server, before both are killed."""
MAX_PAGES = 500
MAX_ATTEMPTS = 5
MEMORY_BYTES = 1_000_000_000
# They hold for a server that is started, too. In bytes: memory that it writes to, a file, and a core dump, which would hold
# the secrets.
_LIMITS = {resource.RLIMIT_DATA: 4_000_000_000, resource.RLIMIT_FSIZE: 1_000_000_000, resource.RLIMIT_CORE: 0}
_STDERR_TAIL = 400
# Variables of a command whose values are removed from the list. Others, such as a time zone, may be part of a tool's text.
_SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
_FAULTS_OF_CONNECTIONS = (
    AddressNotAllowed, httpx2.InvalidURL, httpx2.NetworkError, httpx2.ConnectTimeout, httpx2.RemoteProtocolError,
    httpcore2.NetworkError, httpcore2.RemoteProtocolError,
)  # fmt: skip
# What the SDK itself says of an end without an answer. Servers use the same code for errors of theirs.
_ENDS = [
    ErrorData(code=CONNECTION_CLOSED, message=message)
    for message in (
        "Connection closed",
        "SSE stream ended without a response",
        "SSE stream ended and reconnection attempts were exhausted",
    )
]
# Always the same, since some servers show more tools to clients that can do more.
_CLIENT = Implementation(name="tool-portal", version="1")


class _ChangeCounter(ObjectReceiveStream[SessionMessage | Exception]):
    """A server's messages in the order in which they came, which is the order in which its list changed."""

    def __init__(self, stream: Any, conversation: Conversation) -> None:
        self._stream, self._conversation = stream, conversation

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._stream.receive()
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCNotification):
            self._conversation.list_changes += item.message.method == "notifications/tools/list_changed"
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def _streams(connection: JsonObject, conversation: Conversation) -> AsyncIterator[Any]:
    if url := connection.get("url"):
        _bound_memory()
        async with streamable_http(
            url, connection["headers"], connection["allowed_hosts"], conversation
        ) as streams:
            yield streams
        return
    async with stdio(connection["command"], connection["environment"], conversation) as streams:
        # The server's answer is read in this process; the server itself has begun and is not bound by this.
        _bound_memory()
        yield streams


def _bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


async def read_list(connection: JsonObject, conversation: Conversation) -> JsonObject:
    """Returns {serverInfo, protocolVersion, pages}. Raises SessionError, and the SDK's errors for faults of the server."""
    async with _streams(connection, conversation) as (read, write):
        dispatcher = JSONRPCDispatcher(_ChangeCounter(read, conversation), write)
        async with ClientSession(dispatcher=dispatcher, client_info=_CLIENT) as session:
            try:
                started = await session.initialize()
            except ValidationError:
                raise SessionError("The server's first answer is not one that MCP knows.") from None
            except RuntimeError as error:
                raise SessionError(f"{one_line(conversation.redact(str(error)), limit=300)}.") from None
            pages: list[JsonObject] = [{"tools": []}]
            if started.capabilities.tools is not None:
                pages = await _consistent_list(dispatcher, started.protocol_version, conversation)
            return {
                "serverInfo": started.server_info.model_dump(mode="json", by_alias=True, exclude_none=True),
                "protocolVersion": started.protocol_version,
                "pages": pages,
            }


async def _consistent_list(
    dispatcher: JSONRPCDispatcher[Any], version: str, conversation: Conversation
) -> list[JsonObject]:
    """All pages of one list, which is read again if the server says that it changed between two pages."""
    for _ in range(MAX_ATTEMPTS):
        before = conversation.list_changes
        try:
            pages = await _all_pages(dispatcher, version, conversation)
        except SessionError:
            # A cursor of the old list may be invalid in the new one.
            if conversation.list_changes == before:
                raise
        else:
            if len(pages) == 1 or conversation.list_changes == before:
                return pages
    raise SessionError("The server's list changed each time while it was read. Try again later.")


async def _all_pages(
    dispatcher: JSONRPCDispatcher[Any], version: str, conversation: Conversation
) -> list[JsonObject]:
    """Sends raw requests, because the types of the SDK's session refuse a whole list for one odd tool in it."""
    pages: list[JsonObject] = []
    cursors: set[str] = set()
    parameters: JsonObject = {}
    while True:
        try:
            page = await dispatcher.send_raw_request(
                "tools/list", parameters, {"headers": {"mcp-protocol-version": version}}
            )
        except MCPError as error:
            if conversation.status or error.error in _ENDS:
                raise
            what = f"Page {len(pages) + 1} of the list" if pages else "The list"
            raise SessionError(
                f"{what} was answered with an error: {_error_text(error, conversation)}."
            ) from None
        pages.append(page)
        cursor = page.get("nextCursor")
        if not cursor:
            return pages
        if not isinstance(cursor, str):
            raise SessionError(
                f"Page {len(pages)} of the list names the next one by something that is no text."
            )
        if cursor in cursors or len(pages) >= MAX_PAGES:
            raise SessionError(
                f"The list does not end: after {len(pages)} pages its next one is one that was read already."
                if cursor in cursors
                else f"The list has more than {MAX_PAGES} pages."
            )
        cursors.add(cursor)
        parameters = {"cursor": cursor}


def _error_text(error: MCPError, conversation: Conversation) -> str:
    if error.error.code == PARSE_ERROR:
        # The SDK's words for it hold a piece of the answer, which may be half of a secret.
        return f"it is no JSON that can be read ({PARSE_ERROR})"
    return f"{one_line(conversation.redact(error.error.message), limit=300)} ({error.error.code})"


def _session_error(error: BaseException, connection: JsonObject, conversation: Conversation) -> SessionError:
    if conversation.fault is not None:
        return conversation.fault
    causes = causes_of(error)
    for cause in causes:
        if isinstance(cause, SessionError):
            return cause
        if isinstance(cause, MemoryError):
            return conversation.too_large()
        if connection.get("url") and isinstance(cause, _FAULTS_OF_CONNECTIONS):
            return _connection_error(causes, connection, conversation)
    if conversation.status:
        hint = " Check the headers that it is sent." if conversation.status in {401, 403} else ""
        return SessionError(f"The server answered {conversation.status} instead of the list.{hint}")
    for cause in causes:
        if isinstance(cause, MCPError) and cause.error not in _ENDS:
            return SessionError(f"The server refused: {_error_text(cause, conversation)}.")
    if any(isinstance(cause, TimeoutError) for cause in causes):
        if connection.get("url") and not conversation.reached:
            return _unreachable(connection, causes)
        return SessionTimeout(
            f"The server did not answer within {connection['seconds']:g} s.{_describe_stderr(conversation)}"
        )
    ended = "" if conversation.exit_status is None else f" ({_how(conversation.exit_status)})"
    return SessionError(f"The server ended before it had answered{ended}.{_describe_stderr(conversation)}")


def _connection_error(
    causes: Sequence[BaseException], connection: JsonObject, conversation: Conversation
) -> SessionError:
    """Of a server that was reached it is told what went wrong; of another one not even that it exists."""
    if not conversation.reached:
        return _unreachable(connection, causes)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return SessionError("The server was reached, and no secure connection to it could be made (TLS).")
    return SessionError("The server was reached, and its answer broke off before the end.")


def _unreachable(connection: JsonObject, causes: Sequence[BaseException]) -> SessionError:
    allowed = connection.get("allowed_hosts", ())
    return SessionError(why_unreachable(connection["url"], causes, allowed=allowed))


def _how(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _describe_stderr(conversation: Conversation) -> str:
    """What the server wrote last to its standard error, without the values that it was given."""
    text = conversation.redact(conversation.stderr_tail.decode(errors="replace"))
    lines = [one_line(without_controls(line)[0], limit=_STDERR_TAIL) for line in text.splitlines()]
    shown = " / ".join([line for line in lines if line][-3:])
    return f" Its last words: {truncate(shown, _STDERR_TAIL)}" if shown else ""


def _as_document(found: JsonObject, max_bytes: int) -> str:
    """The list as it is stored: readable, unless that would make it too large to be read again."""
    document = json.dumps(found, ensure_ascii=False, indent=1)
    return (
        document
        if len(document.encode(errors="replace")) <= max_bytes
        else json.dumps(found, ensure_ascii=False)
    )


def main() -> int:
    """Runs the session in a child and ends whatever that leaves. A server may end or stop the session that started it, whose user it
    has; it cannot do so to this process, which stays outside the bounds that account.py sets."""
    own_all_descendants()
    session = os.fork()
    if session == 0:
        return _session()
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(session, 0)[1])
    except KeyboardInterrupt:  # the portal has ended, or waits no longer
        status = EXIT_TIMEOUT
        os.kill(session, signal.SIGINT)
        for _ in range(SECONDS_TO_END * 20):
            if os.waitpid(session, os.WNOHANG)[0]:
                break
            time.sleep(0.05)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_all_descendants()
    return status if status >= 0 else EXIT_KILLED


def _session() -> int:
    connection: JsonObject = json.load(sys.stdin)
    headers, environment = connection["headers"], connection["environment"]
    conversation = Conversation(Redactor([*headers.values(), *environment.values()]), connection["max_bytes"])
    secrets = Redactor(
        [*headers.values(), *(value for name, value in environment.items() if _SECRET_NAME.search(name))]
    )

    async def within_the_time() -> JsonObject:
        with anyio.fail_after(connection["seconds"]):
            return await read_list(connection, conversation)

    own_all_descendants()
    for limit, most in _LIMITS.items():
        resource.setrlimit(limit, (most, most))
    try:
        said = _as_document(anyio.run(within_the_time), connection["max_bytes"])
    except BaseException as error:  # noqa: BLE001 - whatever the SDK raises, in groups or alone, becomes a sentence
        refused = _session_error(error, connection, conversation)
        sys.stdout.buffer.write(str(refused).encode(errors="replace"))
        return EXIT_TIMEOUT if isinstance(refused, SessionTimeout) else EXIT_REFUSED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        end_all_descendants()
    document = secrets(said)
    warnings = []
    if conversation.stray_lines:
        warnings.append(
            f"The server wrote {conversation.stray_lines:,} other lines among its answers; the first: {conversation.first_stray_line}"
        )
    if document != said:
        warnings.append(
            "The server repeated a secret that it was given in its list; *** stands there instead."
        )
    sys.stdout.buffer.write(json.dumps(warnings).encode() + b"\n" + document.encode(errors="replace"))
    return 0


if __name__ == "__main__":
    import logging

    logging.disable()
    sys.exit(main())
