"""The state of one conversation with an MCP server, over HTTP or stdio: how many bytes it sent, what was odd about them, and
which values must not be repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import dataclass, field

EXIT_REFUSED, EXIT_TIMEOUT = 3, 4  # of the program session.py, which then writes one sentence
EXIT_KILLED = 5  # it, without a word
# A server could repeat a value that it was given; shorter ones are words that texts have anyway.
_SECRET_LENGTH = 4
_WORD_LENGTH = 8
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


class SessionError(Exception):
    """The session gave no list; the message is for the operator."""


class SessionTimeout(SessionError):
    """The session took longer than its time."""


class Redactor:
    """Replaces values in texts by ***: those that the server was given, and the long words in them."""

    def __init__(self, values: Iterable[str]) -> None:
        words = {
            word
            for value in values
            for word in (value, *(part for part in value.split() if len(part) >= _WORD_LENGTH))
            if len(word) >= _SECRET_LENGTH
        }
        # Also as JSON writes them. The longest first: a value may hold another.
        written = words | {json.dumps(word)[1:-1] for word in words}
        self._written = sorted(written, key=lambda word: (-len(word), word))

    def __call__(self, text: str) -> str:
        for word in self._written:
            text = text.replace(word, "***")
        return text


@dataclass(slots=True)
class Conversation:
    """One conversation, of at most `max_bytes` from the server. `redact` removes every value that the server was given."""

    redact: Redactor
    max_bytes: int
    received: int = 0  # bytes
    stray_lines: int = 0  # lines that are not messages
    first_stray_line: str = ""
    list_changes: int = 0  # how often the server said that its list has changed
    reached: bool = False  # whether a connection was opened
    status: int = 0  # of an HTTP answer, if it is 400 or more
    exit_status: int | None = None  # of a process that has ended by itself; below 0 the signal that ended it
    stderr_tail: bytes = b""  # the end of what a process wrote to its standard error
    # Kept beside being raised, since the SDK takes some errors for the end of a stream.
    fault: SessionError | None = field(default=None)

    def count_bytes(self, data: bytes) -> None:
        """Counts bytes of the server. Raises SessionError beyond max_bytes."""
        self.received += len(data)
        if self.received > self.max_bytes:
            self.fault = self.too_large()
            raise self.fault

    async def whole_lines(self, chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """The same bytes, counted, in pieces that end at line ends, and what stands behind the last one. Raises SessionError beyond
        max_bytes."""
        begun: list[bytes] = []
        async for chunk in chunks:
            self.count_bytes(chunk)
            whole, end, rest = chunk.rpartition(b"\n")
            if end:
                yield b"".join((*begun, whole, end))
                begun.clear()
            begun.append(rest)
        yield b"".join(begun)

    def too_large(self) -> SessionError:
        return SessionError(f"The server's answer is larger than {self.max_bytes / 1_000_000:g} MB.")


def strip_lone_surrogates(line: bytes) -> bytes:
    """JSON without half surrogate pairs, which the JSON reader refuses: one in a description would hide the whole list."""
    if b"\\u" not in line:
        return line
    return _ESCAPE.sub(lambda found: b"" if found["half"] else found[0], line)
