"""Bodies of requests and answers while they wait: the first bytes in memory, the rest in a file without a name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Self

IN_MEMORY = 65_536
CHUNK = 65_536
BUDGET = 1_000_000_000  # bytes of all buffers together


class BufferFull(Exception):
    """All buffers together hold as much as they may."""


class Buffer:
    """Bytes that are written once and then read from the start. Leaving its block frees them."""

    _used = 0  # bytes of all buffers: they live in one thread

    def __init__(self) -> None:
        self.size = 0
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed in __exit__

    def write(self, data: bytes) -> None:
        """Appends. Raises BufferFull."""
        if Buffer._used + len(data) > BUDGET:
            raise BufferFull
        Buffer._used += len(data)
        self.size += len(data)
        self._file.write(data)

    def chunks(self) -> Iterator[bytes]:
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            yield chunk

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        Buffer._used -= self.size
        self.size = 0
        self._file.close()
