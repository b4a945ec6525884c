"""A job as pages show it: its badge, its progress in words, and the queues without a worker. No view."""

from __future__ import annotations

from dataclasses import dataclass

from portal.jobs import heartbeats, kinds
from portal.jobs.models import Job, JobState
from portal.jobs.progress import duration
from portal.jobs.states import CLAIMED
from tools.web.shell.badges import Badge

BADGES = {
    JobState.QUEUED: Badge("pending", "Queued", "hourglass-split", "Waiting for a worker."),
    JobState.RUNNING: Badge("running", "Running", "play-fill", "A worker is running it."),
    JobState.CANCELLING: Badge("pending", "Cancelling", "stop-fill", "It stops after the current batch."),
    JobState.CANCELLED: Badge("disabled", "Cancelled", "slash-circle", "It was stopped and can be resumed."),
    JobState.SUCCEEDED: Badge("ready", "Succeeded", "check-circle-fill", "Everything is done."),
    JobState.PARTIAL: Badge(
        "failed", "Partial", "exclamation-triangle-fill", "It finished, but some items failed."
    ),
    JobState.FAILED: Badge(
        "failed", "Failed", "x-octagon-fill", "It stopped with an error and can be resumed."
    ),
    JobState.LOST: Badge(
        "failed", "Lost", "question-circle", "Its workers stopped reporting; it can be resumed."
    ),
}
STAGES = {
    "queueing": "Scanning for tools to embed",
    "embedding": "Embedding",
    "reading": "Reading the source",
    "planned": "Plan created",
    "applying": "Applying the plan",
}


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as a page or a row shows it."""

    job: Job

    @property
    def badge(self) -> Badge:
        return BADGES[JobState(self.job.effective_state)]

    @property
    def label(self) -> str:
        """The label of the job's kind; its name if the kind no longer exists."""
        return next((kind.label for kind in kinds.all_kinds() if kind.name == self.job.kind), self.job.kind)

    @property
    def stage(self) -> str:
        """What its worker does now; empty while none works on it."""
        if self.job.effective_state not in CLAIMED:
            return ""
        return STAGES.get(self.job.stage, self.job.stage)

    @property
    def tab_title(self) -> str:
        """The title of the browser's tab: the progress of an active job, else its outcome."""
        percent = self.job.progress.percent
        if not self.job.is_active or percent is None:
            return f"{self.badge.word}: {self.job.title}"
        return f"{percent} % {self.label}"

    @property
    def took(self) -> str:
        seconds = self.job.duration_seconds
        # It is not known when a lost job stopped.
        return "" if seconds is None or self.job.effective_state == JobState.LOST else duration(seconds)


def idle_queues(names: set[str]) -> list[tuple[str, str]]:
    """Those of the queues that no live worker consumes, each with the command that starts one."""
    live = heartbeats.live_workers()
    return [(name, heartbeats.COMMANDS[name]) for name in sorted(names) if not live.get(name)]


def queues_of(job: Job) -> set[str]:
    return {queue for kind in kinds.all_kinds() if kind.name == job.kind for queue in kind.queues}


def all_queues() -> set[str]:
    return {queue for kind in kinds.all_kinds() for queue in kind.queues}
