"""The kinds of job, registered by the apps that define them. The app jobs only runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Q, QuerySet

from portal.jobs.arguments import Arguments, JobArguments

if TYPE_CHECKING:
    from portal.jobs.context import Context


@dataclass(frozen=True, slots=True)
class Estimate:
    """The items of a job, counted without starting it. `rate` (items a second) is of an earlier job if `measured`, else a guess."""

    total: int
    to_do: int
    rate: float
    measured: bool

    @property
    def seconds(self) -> int:
        return round(self.to_do / self.rate)


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of work. Its functions run in the tenant's context, except `run`, which opens its own short ones; all of them with
    the rights of who started the job.

    `concurrency_key` names what no two jobs of the kind may work on at a time (None: nothing). `count` returns how many items
    there are (None where only `run` can tell) and how many need work. `run` works in batches until all is done (True) or `context.stopping()` gives a reason to
    stop (False). `queues` are the queues whose workers it needs. `usual_rate` is in items a second.
    `seen_items` are the items that the current caller may see, for a kind whose items may fail one by one. `seen_jobs` is the
    condition for those of its jobs that a caller may know of who does not see everything, for a kind whose title and arguments
    name something.
    """

    name: str
    label: str
    queues: tuple[str, ...]
    arguments: type[JobArguments]
    title: Callable[[Arguments], str]
    concurrency_key: Callable[[Arguments], str | None]
    count: Callable[[Arguments], tuple[int | None, int]]
    run: Callable[[Context], bool]
    usual_rate: float
    seen_items: Callable[[], QuerySet[Any]] | None = None
    seen_jobs: Callable[[], Q] | None = None


_kinds: dict[str, JobKind] = {}


def register(kind: JobKind) -> None:
    """Called once per kind from an AppConfig.ready(); a second, different one of the same name is refused."""
    known = _kinds.setdefault(kind.name, kind)
    if known != kind:
        raise ValueError(f"the kind of job {kind.name!r} is registered already")


def get(name: str) -> JobKind:
    """The registered kind; KeyError names an unknown one."""
    return _kinds[name]


def all_kinds() -> list[JobKind]:
    return list(_kinds.values())
