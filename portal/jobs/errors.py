"""What can be refused about a job, in the operator's words. Entry points show the message; the class decides the status."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portal.jobs.models import Job


class JobError(Exception):
    """A request about a job that was refused; nothing was stored."""


class InvalidArguments(JobError):
    """What a kind cannot work with. `errors` maps names of arguments to sentences."""

    def __init__(self, errors: dict[str, list[str]]) -> None:
        super().__init__("; ".join(f"{name}: {' '.join(texts)}" for name, texts in errors.items()))
        self.errors = errors


class AlreadyRunning(JobError):
    """A job that does the same is not over; `job` is that one."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"“{job.title}” is not over yet ({job.shown_state}): job {job.pk}.")
        self.job = job


class WrongState(JobError):
    """The state that the job has now forbids it."""


class CannotGoOn(Exception):
    """Raised by the work of a job that cannot be done; the sentence is for who started it."""


class Cancelled(Exception):
    """Somebody wants the job to end; raised out of a transaction, which it undoes."""


class LostClaim(Exception):
    """Another runner has the job, or nobody: whoever meets this writes nothing more."""
