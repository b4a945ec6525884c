"""An MCP server over streamable HTTP: the SDK's transport, whose sockets open to allowed addresses only (SEC-2)."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpcore2
import httpx2
from mcp.client.streamable_http import streamable_http_client

from portal.outbound.addresses import resolve_allowed_address
from tools.imports.fetching.mcp.conversation import Conversation, SessionError, strip_lone_surrogates

_CONNECT_SECONDS = 10.0


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens sockets to public addresses and to the allowed hosts only."""

    def __init__(self, allowed: list[str], conversation: Conversation) -> None:
        self._allowed, self._conversation = allowed, conversation
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self, host: str, port: int, *args: Any, **options: Any
    ) -> httpcore2.AsyncNetworkStream:
        address = await anyio.to_thread.run_sync(
            lambda: resolve_allowed_address(host, port, allowed=self._allowed)
        )
        stream = await self._backend.connect_tcp(address, port, *args, **options)
        self._conversation.reached = True
        return stream

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _Body(httpx2.AsyncByteStream):
    """A body line by line, its bytes counted, without lone surrogates."""

    def __init__(self, stream: Any, conversation: Conversation) -> None:
        self._stream, self._conversation = stream, conversation

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for lines in self._conversation.whole_lines(self._stream):
            yield strip_lone_surrogates(lines)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """The SDK's transport with a guarded pool; it records each answer in the conversation."""

    def __init__(self, allowed: list[str], conversation: Conversation) -> None:
        super().__init__(trust_env=False)
        self._conversation = conversation
        # The transport has no parameter for the backend; only its pool opens sockets.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(), network_backend=_GuardedBackend(allowed, conversation)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if request.method == "POST" and response.status_code >= 400:
            self._conversation.status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            # A small answer could grow beyond every limit when unpacked.
            self._conversation.fault = SessionError(
                "The server compressed its answer, although it was asked not to."
            )
            raise self._conversation.fault
        response.stream = _Body(response.stream, self._conversation)
        return response


@asynccontextmanager
async def streamable_http(
    url: str, headers: dict[str, str], allowed: list[str], conversation: Conversation
) -> AsyncIterator[Any]:
    """The streams of a session with the server at `url`; `allowed` as `resolve_allowed_address` takes it."""
    async with (
        httpx2.AsyncClient(
            transport=_Transport(allowed, conversation),
            headers={**headers, "Accept-Encoding": "identity"},
            # A server may start slowly; the time of the whole session is bounded.
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            trust_env=False,
            follow_redirects=False,
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=conversation.max_bytes) as streams,
    ):
        yield streams
