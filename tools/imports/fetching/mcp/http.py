"""An MCP server over streamable HTTP: the SDK's transport, on sockets that only open to where imports may go (SEC-2)."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpcore2
import httpx2
from mcp.client.streamable_http import streamable_http_client

from portal.outbound.addresses import judged
from tools.imports.fetching.mcp.conversation import MAX_BYTES, Refused, Wire, mended

_CONNECT_SECONDS = 10.0


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens sockets to public addresses and to the allowed hosts only."""

    def __init__(self, allowed: list[str], wire: Wire) -> None:
        self._allowed, self._wire = allowed, wire
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
        stream = await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
        self._wire.reached = True
        return stream

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _Body(httpx2.AsyncByteStream):
    """A body line by line, counted and mended."""

    def __init__(self, stream: Any, wire: Wire) -> None:
        self._stream, self._wire = stream, wire

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun: list[bytes] = []
        async for chunk in self._stream:
            self._wire.heard(chunk)
            whole, end, rest = chunk.rpartition(b"\n")
            if end:
                yield mended(b"".join((*begun, whole, end)))
                begun.clear()
            begun.append(rest)
        yield mended(b"".join(begun))

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """Answers as the wire hears them."""

    def __init__(self, allowed: list[str], wire: Wire) -> None:
        super().__init__(trust_env=False)
        self._wire = wire
        # The transport has no parameter for it; its pool is all that opens sockets.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(), network_backend=_GuardedBackend(allowed, wire)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if request.method == "POST" and response.status_code >= 400:
            self._wire.status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            # A small answer could grow beyond every limit when unpacked.
            self._wire.fault = Refused("The server compressed its answer, although it was asked not to.")
            raise self._wire.fault
        response.stream = _Body(response.stream, self._wire)
        return response


@asynccontextmanager
async def streamable_http(
    url: str, headers: dict[str, str], allowed: list[str], wire: Wire
) -> AsyncIterator[Any]:
    """The streams of a session with the server at `url`; `allowed` as `judged` takes it."""
    async with (
        httpx2.AsyncClient(
            transport=_Transport(allowed, wire),
            headers={**headers, "Accept-Encoding": "identity"},
            # A slow start is no fault; the session as a whole has its time.
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            trust_env=False,
            follow_redirects=False,
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_BYTES) as streams,
    ):
        yield streams
