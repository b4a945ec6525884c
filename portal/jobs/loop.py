"""The loop of a worker process: it works when it is woken, and every few seconds without that."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Self

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from portal.jobs import heartbeats

log = logging.getLogger(__name__)

NICENESS = 15
"""Of the threads of a loop and of all that they start, such as the model's: where processors are short, requests come first (R9)."""
SECONDS_TO_FINISH = 1.0  # half of what the supervisor grants a process that is told to end


@contextmanager
def heartbeat(beat: Callable[[], object], *, seconds: float, name: str, trouble: str) -> Iterator[None]:
    """Calls `beat` every `seconds` while the block runs, from a thread and connection of its own, because the work may block this
    one (RELIABILITY rule 9). `trouble` starts the log line of a beat that the database refuses."""
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
    """Works on the queue that a subclass names until `end` is called. Errors are logged, and the loop goes on.

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
        """Runs once, before the first work."""

    def work(self) -> None:
        """Works until nothing is due, or `ended` is set."""
        raise NotImplementedError

    def pause(self) -> float:
        """Returns the seconds until the next poll, unless `wake` is called before."""
        raise NotImplementedError

    def settle(self) -> None:
        """Runs once, after the last work: waits for what it has left running."""

    def release(self) -> None:
        """Releases the claimed work that `finish` does not wait for."""
        raise NotImplementedError

    def run(self) -> None:
        type(self).running = self
        with heartbeats.sending_heartbeats(self.queue):
            os.nice(NICENESS)  # on Linux of this thread alone
            self.protected(self.begin)
            while not self.ended.is_set():
                self._woken.clear()
                self.protected(self.work)
                if not self.ended.is_set():
                    self._woken.wait(self.pause())
            self.protected(self.settle)
        type(self).running = None

    def wake(self) -> None:
        """Ends the pause, as there is work."""
        self._woken.set()

    def end(self) -> None:
        """Starts no new work from now on."""
        self.ended.set()
        self._woken.set()

    def finish(self) -> None:
        """Ends the loop: waits SECONDS_TO_FINISH for the current work, and releases it if that is not enough."""
        self.end()
        self.join(SECONDS_TO_FINISH)
        if self.is_alive():
            self.protected(self.release)

    def run_until_signal(self) -> None:
        """Runs as the only work of this process, until SIGINT or SIGTERM."""
        ends = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        self.start()
        signal.sigwait(ends)
        self.finish()

    @staticmethod
    def protected(step: Callable[[], object]) -> bool:
        """Runs the step; logs its error and closes the connection. Returns whether it ended without one."""
        try:
            step()
            return True
        except (OperationalError, InterfaceError) as error:
            # A database that restarts must not end the worker, nor fill its log.
            log.warning("The database cannot be reached: %s", " ".join(str(error).split()))
        except Exception:
            log.exception("A worker met an unexpected error and goes on.")
        finally:
            connection.close()  # back to the pool, which replaces it if the database went away
        return False
