"""Shows the progress of a job on a terminal or in a log."""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from portal.jobs.progress import Progress

LINE_SECONDS = 10
LINE_PERCENT = 5


class Bar:
    """A bar on a terminal; elsewhere a line every ten seconds or five per cent. All of it on stderr."""

    def __init__(self, title: str, *, quiet: bool) -> None:
        self.title, self.quiet = title, quiet
        self.is_drawn = not quiet and sys.stderr.isatty()
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]} failed"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not self.is_drawn,
        )
        self._task = self._bar.add_task(title, total=None, failed=0)
        self._printed_at, self._printed_percent = time.monotonic(), 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, stage: str, progress: Progress) -> None:
        described = f"{self.title}: {stage}" if stage else self.title
        self._bar.update(
            self._task,
            description=described,
            total=progress.total,
            completed=progress.processed,
            failed=progress.failed,
        )
        if not self.quiet and not self.is_drawn:
            self._print(described, progress)

    def _print(self, described: str, progress: Progress) -> None:
        percent = progress.percent or 0
        is_news = (
            percent >= self._printed_percent + LINE_PERCENT
            or time.monotonic() >= self._printed_at + LINE_SECONDS
        )
        if is_news:
            self._printed_at, self._printed_percent = time.monotonic(), percent
            print(f"{described}: {progress}", file=sys.stderr, flush=True)  # noqa: T201 - the log's reader
