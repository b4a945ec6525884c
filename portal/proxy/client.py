"""One connection of a client: reads requests whole, within bounds of size and time, and sends answers at the client's pace."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote, urlsplit

import h11

from portal.proxy.buffers import CHUNK, Buffer, BufferFull
from portal.proxy.turns import Turns
from portal.proxy.workers import BODY_LIMIT, Answer, WorkerGone, ask, end_to_end

# Gunicorn reads 8,190 bytes of an address, and headers of a few kilobytes; what it refuses it says itself.
HEAD_BYTES = 65_536
# Until a request's head is there, since the connection was opened or the last answer sent.
HEAD_SECONDS = 60
# A body has this long, and as much again as its bytes take at the slowest rate; so has each piece of an answer.
BODY_SECONDS = 30
BODY_BYTES_PER_SECOND = 20_000
PIECE_SECONDS = 30
# A refused client may still be sending: closing at once would reset the connection before it reads why.
LINGER_SECONDS = 2
_GONE = "The request took too long, or the process that answered it ended. What it did may have been saved; look before you send it again."
_FULL = "Too many large requests are being received just now. Nothing was done; try again in a few seconds."
_SLOW = "The body came too slowly. Nothing was done."


class Refused(Exception):
    """The request is answered without its whole body having been read."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Client:
    """A connection. It stands in `waited_for`, last, while something is waited for from the client, and not while it waits for a
    worker."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        socket: Path,
        body_bytes: int,
        turns: Turns,
        waited_for: dict[Client, None],
    ) -> None:
        self._reader, self._writer, self._socket = reader, writer, socket
        self._body_bytes, self._turns, self._waited_for = body_bytes, turns, waited_for
        self._peer = str((writer.get_extra_info("peername") or ("",))[0])
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self.is_last = False  # set when the web stops: the answer under way is the last one
        self.is_idle = True  # no byte of a request has been taken

    def abort(self) -> None:
        self._writer.transport.abort()

    def _await_client(self) -> None:
        self._waited_for.pop(self, None)
        self._waited_for[self] = None

    async def serve(self) -> None:
        """Answers requests until the connection ends."""
        try:
            while await self._serve_one():
                self._http.start_next_cycle()
            await self._linger()
        except (OSError, TimeoutError, h11.LocalProtocolError):
            pass  # the client left, or is too slow to be told anything
        finally:
            self._waited_for.pop(self, None)
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()

    async def _serve_one(self) -> bool:
        """Reads a request and answers it; whether another may follow."""
        self._await_client()
        self.is_idle = True
        request: h11.Request | None = None
        try:
            event = await self._next_event(_now() + HEAD_SECONDS)
            if not isinstance(event, h11.Request):
                return False
            request, self.is_idle = event, False
            with Buffer() as body, Buffer() as kept:
                answer = await self._read_body(request, body, kept)
                if answer is None:
                    self._waited_for.pop(self, None)
                    async with self._turns.turn_of(request.method, path_of(request.target)):
                        answer = await ask(self._socket, request, self._peer, body, kept)
                await self._send(answer, kept, is_head=request.method == b"HEAD")
        except h11.RemoteProtocolError as error:
            await self._refuse(request, error.error_status_hint, f"This is no request of HTTP: {error}.")
        except Refused as error:
            await self._refuse(request, error.status, str(error))
        except WorkerGone:
            await self._refuse(request, HTTPStatus.BAD_GATEWAY, _GONE)
        except BufferFull:
            await self._refuse(request, HTTPStatus.SERVICE_UNAVAILABLE, _FULL)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE and not self.is_last

    async def _next_event(self, deadline: float) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        """The next part of the request. Raises TimeoutError at the deadline, a time of the event loop."""
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                self._writer.write(
                    self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b""
                )
            async with asyncio.timeout_at(deadline):
                self._http.receive_data(await self._reader.read(CHUNK))

    async def _read_body(self, request: h11.Request, body: Buffer, kept: Buffer) -> Answer | None:
        """Reads the body into its buffer. Whether it may be longer than any may be, a worker says, before that is read; its
        refusal is returned, with its body in `kept`. Raises Refused and BufferFull."""
        declared = next((int(value) for name, value in request.headers if name == b"content-length"), 0)
        limit, began = self._body_bytes, _now()
        while True:
            length = max(declared, body.size)
            if length > limit:
                self._waited_for.pop(self, None)
                answer = await ask(self._socket, request, self._peer, body, kept, body_length=length)
                self._await_client()
                if answer.body_limit is None:
                    return answer
                limit = answer.body_limit
            try:
                event = await self._next_event(
                    began + BODY_SECONDS + max(body.size, CHUNK) / BODY_BYTES_PER_SECOND
                )
            except TimeoutError:
                raise Refused(HTTPStatus.REQUEST_TIMEOUT, _SLOW) from None
            if not isinstance(event, h11.Data):
                return None
            body.write(bytes(event.data))

    async def _refuse(self, request: h11.Request | None, status: int, sentence: str) -> None:
        """An answer of the proxy's own: a problem (RFC 9457) for the API, a line of text for others."""
        if self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.abort()  # in the middle of an answer nothing else can be said
            return
        phrase = HTTPStatus(status).phrase
        kind, text = "text/plain; charset=utf-8", f"{sentence}\n"
        if request is not None and path_of(request.target).startswith("/api/"):
            kind = "application/problem+json"
            text = json.dumps({"type": "about:blank", "title": phrase, "status": status, "detail": sentence})
        with Buffer() as body:
            body.write(text.encode())
            headers = [(b"content-type", kind.encode())]
            is_head = request is not None and request.method == b"HEAD"
            await self._send(Answer(status, phrase.encode(), headers), body, is_head=is_head)

    async def _send(self, answer: Answer, body: Buffer, *, is_head: bool) -> None:
        """Sends an answer at the client's pace. Raises TimeoutError for a client that does not read."""
        self._await_client()
        headers = [
            (name, value)
            for name, value in end_to_end(answer.headers)
            if name not in {b"content-length", BODY_LIMIT}
        ]
        has_body = answer.status >= HTTPStatus.OK and answer.status not in {
            HTTPStatus.NO_CONTENT,
            HTTPStatus.NOT_MODIFIED,
        }
        if is_head:
            headers += [one for one in answer.headers if one[0] == b"content-length"]
        elif has_body:
            headers.append((b"content-length", b"%d" % body.size))
        if self.is_last or self._http.their_state is not h11.DONE:
            headers.append((b"connection", b"close"))
        head = h11.Response(status_code=answer.status, reason=answer.reason, headers=headers)
        piece = self._http.send(head) or b""
        for chunk in body.chunks() if has_body and not is_head else ():
            piece += self._http.send(h11.Data(data=chunk)) or b""
            if len(piece) >= CHUNK:
                await self._write(piece)
                piece = b""
        await self._write(piece + (self._http.send(h11.EndOfMessage()) or b""))

    async def _write(self, piece: bytes) -> None:
        self._writer.write(piece)
        async with asyncio.timeout(PIECE_SECONDS):
            await self._writer.drain()

    async def _linger(self) -> None:
        """Lets the client read its answer while what it still sends is thrown away."""
        if self._http.their_state is h11.SEND_BODY:
            self._writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._reader.read(CHUNK):
                    pass


def path_of(target: bytes) -> str:
    """The path that Django will see, of a target of any form."""
    text = target.decode("ascii", "replace")
    return unquote(text.partition("?")[0] if text.startswith("/") else urlsplit(text).path)


def _now() -> float:
    return asyncio.get_running_loop().time()
