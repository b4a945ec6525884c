"""Asks an MCP server for its tools, every page to the end, by the official SDK (SYN-2).

A program of its own (`python -m tools.imports.mcp_session`), because it runs a stranger's server or talks to one: the portal
gives it a time, and it knows nothing of Django and none of the portal's secrets. Reads one JSON object from stdin
(`Connection.as_dict`), writes the list to stdout in the form that mcp_tools.py reads, or a sentence to stderr and exits
with 3.
"""

from __future__ import annotations

import json
import resource
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, TextIO

import anyio
import httpcore2
import httpx2
from anyio.abc import ObjectReceiveStream
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.types import Implementation, jsonrpc_message_adapter

from tools.imports.addresses import Forbidden, judged
from tools.imports.specs import JsonObject
from tools.imports.texts import clean_value, cut, one_line, without_controls

REFUSED = 3
MAX_PAGES = 500
MAX_BYTES = 20 * 1024 * 1024
MEMORY_BYTES = 1_500_000_000
_LAST_WORDS = 400
_METHOD_NOT_FOUND, _CONNECTION_CLOSED = -32601, -32000
# Always the same, since some servers show more tools to clients that can do more.
_CLIENT = Implementation(name="tool-portal", version="1")


class Refused(Exception):
    """There is no list; the message is for the operator."""


class _Stream(httpcore2.AsyncNetworkStream):
    """A stream that ends after MAX_BYTES: one answer may otherwise fill the memory."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream, self._left = stream, MAX_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(max_bytes, timeout)
        self._left -= len(data)
        if self._left < 0:
            raise _too_large()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens sockets to public addresses and to the allowed hosts only."""

    def __init__(self, allowed: list[str]) -> None:
        self._allowed = allowed
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        address = await anyio.to_thread.run_sync(lambda: judged(host, port, allowed=self._allowed))
        return _Stream(await self._backend.connect_tcp(address, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _Mended(ObjectReceiveStream[SessionMessage | Exception]):
    """A server's messages; of a line that only half a surrogate pair makes unreadable the half is left out, since the
    request that it answers would wait for ever."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._stream.receive()
        return _mended(item) if isinstance(item, Exception) else item

    async def aclose(self) -> None:
        await self._stream.aclose()


def _mended(fault: Exception) -> SessionMessage | Exception:
    try:
        value = clean_value(json.loads(_line(fault)))
        return SessionMessage(jsonrpc_message_adapter.validate_python(value, by_name=False))
    except ValueError:
        return fault


def _http_client(connection: JsonObject) -> httpx2.AsyncClient:
    transport = httpx2.AsyncHTTPTransport(trust_env=False)
    # The transport has no parameter for it; its pool is all that opens sockets.
    transport._pool = httpcore2.AsyncConnectionPool(
        ssl_context=ssl.create_default_context(), network_backend=_GuardedBackend(connection["allowed_hosts"])
    )
    return httpx2.AsyncClient(
        transport=transport,
        headers=connection["headers"],
        timeout=30,
        trust_env=False,
        follow_redirects=False,
    )


@asynccontextmanager
async def _streams(connection: JsonObject, words: TextIO) -> AsyncIterator[Any]:
    if url := connection.get("url"):
        async with (
            _http_client(connection) as client,
            streamable_http_client(url, http_client=client) as streams,
        ):
            yield streams
        return
    command, *arguments = connection["command"]
    parameters = StdioServerParameters(
        command=command, args=arguments, env=connection["environment"], encoding_error_handler="replace"
    )
    try:
        async with stdio_client(parameters, errlog=words) as streams:
            # The server's answer is read in this process; the server itself has begun and is not bound by this.
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            yield streams
    except OSError as error:
        raise Refused(f"The server cannot be started: {error.strerror or error}.") from None


async def list_pages(connection: JsonObject, words: TextIO) -> JsonObject:
    """{serverInfo, protocolVersion, pages, warnings}. Raises Refused."""
    stray: list[str] = []

    async def note(fault: Exception) -> None:
        line = one_line(without_controls(_line(fault))[0], limit=200)
        stray.append(line or type(fault).__name__)

    async with _streams(connection, words) as (read, write):
        dispatcher = JSONRPCDispatcher(_Mended(read), write, on_stream_exception=note)
        async with ClientSession(dispatcher=dispatcher, client_info=_CLIENT) as session:
            try:
                started = await session.initialize()
            except RuntimeError as error:
                raise Refused(f"{error}.") from None
            found: JsonObject = {
                "serverInfo": started.server_info.model_dump(mode="json", by_alias=True, exclude_none=True),
                "protocolVersion": started.protocol_version,
            }
            if started.capabilities.tools is None:
                found["pages"] = [{"tools": []}]
            else:
                found["pages"] = await _all_pages(dispatcher, started.protocol_version)
    if stray:
        found["warnings"] = [
            f"The server wrote {len(stray):,} other lines among its answers; the first: {stray[0]}"
        ]
    return found


async def _all_pages(dispatcher: JSONRPCDispatcher[Any], version: str) -> list[JsonObject]:
    """Asked below the SDK's session, whose types refuse a whole list for one odd tool in it."""
    pages: list[JsonObject] = []
    cursors: set[str] = set()
    size = 0
    parameters: JsonObject = {}
    while True:
        try:
            page = await dispatcher.send_raw_request(
                "tools/list", parameters, {"headers": {"mcp-protocol-version": version}}
            )
        except MCPError as error:
            if error.error.code == _CONNECTION_CLOSED:
                raise
            what = f"Page {len(pages) + 1} of the list" if pages else "The list"
            raise Refused(
                f"{what} was answered with an error: {one_line(error.error.message, limit=300)} ({error.error.code})."
            ) from None
        pages.append(page)
        size += len(json.dumps(page))
        if size > MAX_BYTES:
            raise _too_large()
        cursor = page.get("nextCursor")
        if not cursor:
            return pages
        if cursor in cursors or len(pages) >= MAX_PAGES:
            raise Refused(
                f"The list does not end: after {len(pages)} pages its next one is one that was read already."
            )
        cursors.add(cursor)
        parameters = {"cursor": cursor}


def _too_large() -> Refused:
    return Refused(f"The server's answer is larger than {MAX_BYTES // 1_048_576} MB.")


def _line(fault: Exception) -> str:
    """What could not be read as a message, as the error of its reader holds it."""
    errors: list[JsonObject] = getattr(fault, "errors", list)()
    return str(errors[0].get("input", "")) if errors else ""


def _causes(error: BaseException) -> Iterable[BaseException]:
    """An error, those that a group of it holds, and what each was made of."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    elif error.__cause__ is not None:
        yield from _causes(error.__cause__)
    elif error.__context__ is not None:
        yield from _causes(error.__context__)


def _sentence(error: BaseException, connection: JsonObject, last_words: str) -> str:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, Refused):
            return str(cause)
        if isinstance(cause, TimeoutError):
            return f"The server did not answer within {connection['seconds']:g} s.{last_words}"
        if isinstance(cause, MemoryError):
            return str(_too_large())
    if connection.get("url"):
        if any(
            isinstance(cause, Forbidden | httpcore2.NetworkError | httpx2.NetworkError) for cause in causes
        ):
            return str(connection["unreachable"])
        for cause in causes:
            if isinstance(cause, httpx2.HTTPStatusError):
                return f"The server answered {cause.response.status_code} instead of the list."
    for cause in causes:
        if isinstance(cause, MCPError) and cause.error.code != _CONNECTION_CLOSED:
            return f"The server refused: {one_line(cause.error.message, limit=300)} ({cause.error.code})."
    return f"The server ended before it had answered.{last_words}"


def _last_words(words: TextIO, secrets: Iterable[str]) -> str:
    """What the server wrote last to its standard error, without the values that it was given."""
    words.seek(0, 2)
    words.seek(max(0, words.tell() - 4 * _LAST_WORDS))
    text = words.read()
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    lines = [one_line(without_controls(line)[0], limit=_LAST_WORDS) for line in text.splitlines()]
    shown = " / ".join([line for line in lines if line][-3:])
    return f" Its last words: {cut(shown, _LAST_WORDS)}" if shown else ""


def main() -> int:
    connection: JsonObject = json.load(sys.stdin)

    async def within_the_time() -> JsonObject:
        with anyio.fail_after(connection["seconds"]):
            return await list_pages(connection, words)

    with tempfile.TemporaryFile("w+", errors="replace") as words:
        try:
            found = anyio.run(within_the_time)
        except BaseException as error:  # noqa: BLE001 - whatever the SDK raises, in groups or alone, becomes a sentence
            sys.stderr.write(
                _sentence(error, connection, _last_words(words, connection["environment"].values()))
            )
            return REFUSED
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    import logging

    logging.disable()
    sys.exit(main())
