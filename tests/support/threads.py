"""Threads beside a test, whose errors are the test's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, connections


@contextmanager
def in_thread(function: Callable[[], object]) -> Iterator[None]:
    """Runs `function` beside the block, waits for it at the end, and passes its error on."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def together(*works: Any) -> list[Any]:
    """Runs the works in threads that start at one moment; their results or exceptions, in order."""
    barrier = threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)

    def run_one(index: int) -> None:
        try:
            barrier.wait(20)
            results[index] = works[index]()
        except Exception as error:  # noqa: BLE001 - a result like any other
            results[index] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run_one, args=(index,)) for index in range(len(works))]
    connection.close()  # the pool has four, and the works may want them all
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
