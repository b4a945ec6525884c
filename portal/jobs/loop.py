"""The loop of a worker process, whatever it works on: at every bell and every few seconds without one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Self

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from portal.jobs import heartbeats

log = logging.getLogger(__name__)

SECONDS_TO_FINISH = 1.0  # half of what the supervisor grants a process that is told to end


@contextmanager
def heartbeat(beat: Callable[[], object], *, seconds: float, name: str, trouble: str) -> Iterator[None]:
    """While the block runs, calls `beat` every so many seconds from a thread and connection of its own, because the work may
    block this one (RELIABILITY rule 9). `trouble` begins the line of the log when the database does not take it."""
    over = threading.Event()

    def beat_on() -> None:
        while not over.wait(seconds):
            try:
                beat()
            except DatabaseError as error:
                log.warning("%s: %s", trouble, error)
            finally:
                connection.close()

    thread = threading.Thread(target=beat_on, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class WorkLoop(threading.Thread):
    """Works for ever on the queue that a subclass names. Errors are logged, and the loop goes on.

    A thread of its own, so that it needs neither Celery's consumer nor its broker, and so that a signal's handler never
    touches an Event that its own thread waits for.
    """

    queue: ClassVar[str]
    running: ClassVar[Self | None] = None

    def __init__(self) -> None:
        super().__init__(name=f"{self.queue}-loop", daemon=True)
        self.ended = threading.Event()
        self._woken = threading.Event()

    def begin(self) -> None:
        """What is done once, before the first work."""

    def work(self) -> None:
        """Works until nothing is left, or `ended` is set."""
        raise NotImplementedError

    def pause(self) -> float:
        """Seconds until the next look, if no bell comes first."""
        raise NotImplementedError

    def release(self) -> None:
        """Lets others have what is in hand, when its end is not waited for."""
        raise NotImplementedError

    def run(self) -> None:
        type(self).running = self
        with heartbeats.sending_heartbeats(self.queue):
            self.protected(self.begin)
            while not self.ended.is_set():
                self._woken.clear()
                self.protected(self.work)
                if not self.ended.is_set():
                    self._woken.wait(self.pause())
        type(self).running = None

    def wake(self) -> None:
        """There is work: ends the pause."""
        self._woken.set()

    def end(self) -> None:
        """No new work from now on."""
        self.ended.set()
        self._woken.set()

    def finish(self) -> None:
        """Ends, waits a moment for what is in hand, and gives it back if that is not enough."""
        self.end()
        self.join(SECONDS_TO_FINISH)
        if self.is_alive():
            self.protected(self.release)

    @staticmethod
    def protected(step: Callable[[], object]) -> None:
        try:
            step()
        except (OperationalError, InterfaceError) as error:
            # A database that restarts must not end the worker, nor fill its log.
            log.warning("The database cannot be reached: %s", " ".join(str(error).split()))
        except Exception:
            log.exception("A worker met an unexpected error; going on.")
        finally:
            connection.close()  # back to the pool, which replaces it if the database went away
