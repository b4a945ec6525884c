"""How far a job is, in numbers and in one line of text for pages, commands and logs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is. `rate` is items a second since it was last claimed, `eta_seconds` the rest at that rate."""

    total: int | None
    processed: int
    done: int
    failed: int
    skipped: int
    percent: int | None
    rate: float | None
    eta_seconds: int | None

    def __str__(self) -> str:
        """For example: 1,240 of 5,000 · 3 failed · 2 skipped · 41/s · about 2 min left."""
        of = f" of {self.total:,}" if self.total is not None else ""
        parts = [f"{self.processed:,}{of}"]
        parts += [f"{self.failed:,} failed"] if self.failed else []
        parts += [f"{self.skipped:,} skipped"] if self.skipped else []
        parts += [f"{self.rate:,.0f}/s" if self.rate >= 10 else f"{self.rate:.1f}/s"] if self.rate else []
        parts += [f"about {duration(self.eta_seconds)} left"] if self.eta_seconds is not None else []
        return " · ".join(parts)


def duration(seconds: float) -> str:
    """Seconds in the units of people: “45 s”, “2 min”, “3 h 20 min”."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours:,} h {rest} min" if rest else f"{hours:,} h"
