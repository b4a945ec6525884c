"""An MCP server over stdio: its process from start to end, and its lines.

A transport of its own for the SDK's session, because the SDK's keeps a line of any length, and leaves to themselves the
processes that a server started and did not end.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ObjectSendStream, Process
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError

from tools.imports.fetching.mcp.account import acting_as, prepare_account, temporary_home
from tools.imports.fetching.mcp.conversation import Conversation, SessionError, strip_lone_surrogates
from tools.imports.formats.texts import one_line, without_controls

_SECONDS_TO_END = 1.0  # after each of: its input is closed, SIGTERM, SIGKILL
# In which nothing more comes from a server that has ended, before its output counts as read to the end: a process that it
# started may hold the pipe open for ever.
_QUIET_SECONDS = 0.3
_STDERR_TAIL = 64 * 1024
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PARENT = re.compile(r"\) . (\d+) ")

Streams = tuple[Any, Any]


def own_all_descendants() -> None:
    """Makes this process the parent of every process that a server starts and leaves; and has it interrupted, so that it ends
    them, when the portal's process dies."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it otherwise
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def end_all_descendants() -> None:
    """Kills and reaps all children that are left."""
    while children := list(_children()):
        for child in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def _children() -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = _PARENT.search(entry.read_text(errors="replace"))
            if parent and int(parent[1]) == os.getpid():
                yield int(entry.parent.name)


@asynccontextmanager
async def stdio(
    command: list[str], environment: dict[str, str], conversation: Conversation
) -> AsyncIterator[Streams]:
    """The streams of a session with the server that `command` starts: as the account of commands, with these variables beside
    PATH and LANG, and an empty folder as its home. Raises SessionError."""
    account = prepare_account()
    user, group = account or (None, None)
    with temporary_home(account) as folder:
        own = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own |= {"HOME": folder, "TMPDIR": folder}
        try:
            with acting_as(account):
                process = await anyio.open_process(
                    command, env={**own, **environment}, cwd=folder, user=user, group=group
                )
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            raise SessionError(f"The server cannot be started: {said}.") from None
        own_all_descendants()  # again, since a change of the account makes the system forget it
        incoming, incoming_receiver = anyio.create_memory_object_stream[SessionMessage | Exception]()
        outgoing_sender, outgoing = anyio.create_memory_object_stream[SessionMessage]()
        try:
            async with anyio.create_task_group() as tasks, incoming_receiver, outgoing_sender:
                tasks.start_soon(_keep_stderr_tail, process.stderr, conversation)
                tasks.start_soon(_read, process, incoming, conversation)
                tasks.start_soon(_write, process.stdin, outgoing)
                tasks.start_soon(_watch, process, incoming, conversation)
                yield incoming_receiver, outgoing_sender
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                has_ended = process.returncode is not None
                await _end(process)
                with anyio.move_on_after(_QUIET_SECONDS if has_ended else _SECONDS_TO_END):
                    await _keep_stderr_tail(process.stderr, conversation)  # what it wrote as it ended


async def _read(process: Process, incoming: Any, conversation: Conversation) -> None:
    stdout: Any = process.stdout
    async with incoming:
        async for lines in conversation.whole_lines(stdout):
            for line in lines.split(b"\n")[:-1]:  # a line without its end is no message
                if message := _message(line, conversation):
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await incoming.send(message)
        with anyio.move_on_after(_QUIET_SECONDS):
            conversation.exit_status = await _ended(process)


async def _watch(
    process: Process, incoming: ObjectSendStream[SessionMessage | Exception], conversation: Conversation
) -> None:
    """Ends the session once the server has ended and all that it wrote is read."""
    conversation.exit_status = await _ended(process)
    received = -1
    while received != conversation.received:
        received = conversation.received
        await anyio.sleep(_QUIET_SECONDS)
    await incoming.aclose()


async def _ended(process: Process) -> int:
    # Polled, since `wait()` also waits for every process that inherited the pipes.
    while process.returncode is None:  # noqa: ASYNC110
        await anyio.sleep(0.02)
    return process.returncode


def _message(line: bytes, conversation: Conversation) -> SessionMessage | None:
    """The message in a line, which may stand behind other output without a line end; other lines are counted. Raises
    SessionError for a message that cannot be read, since no other answer would come."""
    output_before, brace, rest = line.partition(b"{")
    message = None
    if brace:
        try:
            message = SessionMessage(
                jsonrpc_message_adapter.validate_json(strip_lone_surrogates(brace + rest), by_name=False)
            )
        except ValidationError as error:
            if b'"jsonrpc"' in rest and not output_before.strip():
                raise SessionError(
                    f"The server's answer cannot be read: {error.errors()[0]['msg']}."
                ) from None
    if message is None or output_before.strip():
        conversation.stray_lines += 1
        if not conversation.first_stray_line:
            text = conversation.redact((output_before if message else line)[:10_000].decode(errors="replace"))
            conversation.first_stray_line = one_line(without_controls(text)[0], limit=200)
    return message


async def _write(stdin: Any, outgoing: Any) -> None:
    # A server that has closed its input has ended, which the reader sees.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for item in outgoing:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(text.encode() + b"\n")


async def _keep_stderr_tail(stderr: Any, conversation: Conversation) -> None:
    with suppress(anyio.ClosedResourceError):
        async for chunk in stderr:
            conversation.stderr_tail = (conversation.stderr_tail + chunk)[-_STDERR_TAIL:]


async def _end(process: Process) -> None:
    stdin: Any = process.stdin
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await stdin.aclose()
    for end in (None, process.terminate, process.kill):
        if end is not None:
            with suppress(ProcessLookupError):
                end()
        with anyio.move_on_after(_SECONDS_TO_END):
            await _ended(process)
            return
