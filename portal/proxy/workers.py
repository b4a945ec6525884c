"""Asks the workers: one connection of a Unix socket for each request, whose answer is read as fast as the worker writes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import h11

from portal.proxy.buffers import CHUNK, Buffer

# Longer than gunicorn lets a request run (portal/gunicorn.py), and than those before it in the queue.
ANSWER_SECONDS = 300
# What concerns one connection and no other (RFC 9110, 7.6.1).
_OF_A_CONNECTION = {
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"te", b"trailer", b"transfer-encoding",
    b"upgrade", b"expect",
}  # fmt: skip
BODY_LENGTH = b"x-body-length"
"""Asks whether a body may be this long, before it is read (portal/http/bodies.py)."""
BODY_LIMIT = b"x-body-limit"
"""The answer to that: how long it may be."""
ADDRESSES = b"x-forwarded-for"

Headers = Iterable[tuple[bytes, bytes]]


class WorkerGone(Exception):
    """The worker ended, or took too long, before its answer was whole; or none can be reached."""


@dataclass(slots=True)
class Answer:
    """What a worker answered; its body is in the Buffer that was given for it."""

    status: int
    reason: bytes
    headers: list[tuple[bytes, bytes]]

    @property
    def body_limit(self) -> int | None:
        """The bytes that the body of the request may have, if that is what the answer says."""
        return next((int(value) for name, value in self.headers if name == BODY_LIMIT), None)


def end_to_end(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers without those of the connection that they came on, and those that `Connection` names."""
    headers = list(headers)
    named = {
        name.strip().lower() for key, value in headers if key == b"connection" for name in value.split(b",")
    }
    return [(name, value) for name, value in headers if name not in _OF_A_CONNECTION | named]


async def ask(
    socket: Path,
    request: h11.Request,
    peer: str,
    body: Buffer,
    into: Buffer,
    *,
    body_length: int | None = None,
) -> Answer:
    """Sends the request to a worker, with its whole body, or instead asks whether its body may have `body_length` bytes. The
    answer's body is written `into` a buffer. Raises WorkerGone and BufferFull."""
    # A name with "_" would pass for another header in WSGI, and gunicorn trusts some from whoever speaks on its socket.
    kept = [
        (name, value)
        for name, value in end_to_end(request.headers)
        if b"_" not in name and name not in {b"content-length", ADDRESSES, BODY_LENGTH}
    ]
    before = [value for name, value in request.headers if name == ADDRESSES]
    kept.append((ADDRESSES, b", ".join([*before, peer.encode()])))
    if body_length is None:
        length = body.size
    else:
        length = 0
        kept.append((BODY_LENGTH, b"%d" % body_length))
    kept += [(b"content-length", b"%d" % length), (b"connection", b"close")]
    head = h11.Request(method=request.method, target=request.target, headers=kept)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await _exchange(socket, head, body if body_length is None else None, into)
    except (OSError, TimeoutError, h11.RemoteProtocolError) as error:
        raise WorkerGone(str(error) or type(error).__name__) from error


async def _exchange(socket: Path, head: h11.Request, body: Buffer | None, into: Buffer) -> Answer:
    reader, writer = await asyncio.open_unix_connection(socket)
    http = h11.Connection(h11.CLIENT)
    try:
        sent = http.send(head)
        for chunk in body.chunks() if body else ():
            writer.write(sent)
            await writer.drain()
            sent = http.send(h11.Data(data=chunk))
        writer.write((sent or b"") + (http.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        answer = Answer(502, b"", [])
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(CHUNK))
            elif isinstance(event, h11.Response):
                answer = Answer(event.status_code, event.reason, list(event.headers))
            elif isinstance(event, h11.Data):
                into.write(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return answer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
