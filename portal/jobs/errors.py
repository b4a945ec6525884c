"""Errors of jobs. Entry points show the message to the operator; the class decides the status of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portal.jobs.models import Job


class JobError(Exception):
    """A refused request about a job; nothing was stored."""


class InvalidArguments(JobError):
    """Arguments that a kind cannot work with. `errors` maps their names to sentences."""

    def __init__(self, errors: dict[str, list[str]]) -> None:
        super().__init__("; ".join(f"{name}: {' '.join(texts)}" for name, texts in errors.items()))
        self.errors = errors


class AlreadyRunning(JobError):
    """An active job has the same concurrency key; `job` is that one."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"“{job.title}” is not over yet ({job.effective_state}): job {job.pk}.")
        self.job = job


class TooManyJobs(JobError):
    """The tenant has as many unfinished jobs as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"The limit of unfinished jobs ({most:,}) is reached. Wait until some have ended, or cancel some."
        )


class WrongState(JobError):
    """The state of the job does not allow the change."""


class CannotGoOn(Exception):
    """Raised by the work of a job that cannot be done; the message tells the operator why. Of any other error a job stores where its
    cause is found."""


class Cancelled(Exception):
    """Raised by work that is one transaction, to undo it, when the job is being cancelled."""


class LostClaim(Exception):
    """The job was claimed by another runner, or is lost: the runner that catches this writes nothing more."""
