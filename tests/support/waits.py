"""What the product waits for outside of the database: a provider, a server, the parser of a document. None of it is waited for
inside of a transaction (RELIABILITY rule 6): every test of the suite fails that sees it, and so does every process with a
provider of tests/support/embeddings/providers.py.
"""

from __future__ import annotations

import subprocess
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpcore
from django.db import connection

_CHILDREN = {
    "tools.imports.fetching.sandbox": "the parser",
    "tools.imports.fetching.mcp.session": "an MCP server",
}


@dataclass(frozen=True, slots=True)
class Wait:
    what: str
    seconds: float | None = None
    """So long at most; None where somebody else bounds it."""


class _Watch:
    def __init__(self) -> None:
        self.waits: list[Wait] = []
        self.violations: list[str] = []
        # The transactions that were there before the product was asked: a test's own. None while a test is prepared.
        self.own: frozenset[int] | None = frozenset()


_watch = _Watch()


def wait_for(what: str, seconds: float | None = None) -> None:
    """Called where a wait begins."""
    _watch.waits.append(Wait(what, seconds))
    if _watch.own is None or all(id(block) in _watch.own for block in connection.atomic_blocks):
        return
    # Whoever catches the error below must not hide it.
    _watch.violations.append("".join(traceback.format_stack(limit=12)))
    raise AssertionError(f"{what} is waited for inside of a transaction")


def noted() -> list[Wait]:
    """The waits of this test so far, in this process."""
    return list(_watch.waits)


def take_violations() -> list[str]:
    """The violations of this test so far, which then do not fail it."""
    found, _watch.violations = _watch.violations, []
    return found


def prepare() -> None:
    """From now on, and between tests, nothing is watched: fixtures may do as they like."""
    _watch.own = None


@contextmanager
def watched() -> Iterator[None]:
    """A test. Its fixtures may have opened transactions, as `tenant` does."""
    _watch.waits.clear()
    _watch.violations.clear()
    _watch.own = frozenset(id(block) for block in connection.atomic_blocks)
    try:
        yield
    finally:
        prepare()
    assert not _watch.violations, f"waited for inside of a transaction:\n{_watch.violations[0]}"


@contextmanager
def own_transactions() -> Iterator[None]:
    """A block whose open transactions are the test's own: for one that is about what the product writes in them."""
    before, _watch.own = _watch.own, frozenset(id(block) for block in connection.atomic_blocks)
    try:
        yield
    finally:
        _watch.own = before


def install() -> None:
    """Watches the HTTP client and the children that read documents and ask MCP servers, for the rest of this process."""
    communicate, stream = subprocess.Popen.communicate, httpcore.ConnectionPool.stream

    def watched_communicate(child: Any, input: Any = None, timeout: float | None = None) -> Any:  # noqa: A002 - its name there
        arguments = child.args if isinstance(child.args, list) else []
        for module in _CHILDREN.keys() & {one for one in arguments if isinstance(one, str)}:
            wait_for(_CHILDREN[module], timeout)
        return communicate(child, input, timeout)

    def watched_stream(pool: Any, *args: Any, **options: Any) -> Any:
        wait_for("a server")
        return stream(pool, *args, **options)

    subprocess.Popen.communicate = watched_communicate  # type: ignore[method-assign]
    httpcore.ConnectionPool.stream = watched_stream  # type: ignore[method-assign]
    prepare()
