"""Lists jobs, shows or watches one, cancels it, lets it go on, or retries what failed in it."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from django.core.management.base import CommandParser

from portal.jobs import services
from portal.jobs.command import INTERRUPTED, JobCommand
from portal.jobs.errors import JobError
from portal.jobs.models import Job, JobState
from portal.tenancy.commands import USAGE, Options
from portal.tenancy.context import tenant_context

CHANGES = {"cancel": services.cancel, "resume": services.resume, "retry": services.retry_failed}


class Command(JobCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("action", choices=("list", "show", "watch", *CHANGES))
        parser.add_argument("job", nargs="?", default="", metavar="JOB")
        parser.add_argument("--kind", default="", help="with list")
        parser.add_argument("--state", default="", choices=["", *JobState.values], help="with list")
        parser.add_argument("--limit", type=int, default=20, help="with list; default: %(default)s")
        parser.add_argument("--no-progress", action="store_true", help="with watch")

    def run_for(self, tenant_id: UUID, options: Options) -> int | None:
        action = options["action"]
        if action == "list":
            self._list(tenant_id, options)
            return None
        if not options["job"]:
            self.stop(USAGE, f"Which job? See: manage.py jobs list, then: manage.py jobs {action} JOB")
        job = self.find(tenant_id, options["job"])
        if action == "show":
            self._show(job, options)
            return None
        if action == "watch":
            try:
                job = self.watch(job, quiet=options["no_progress"])
            except KeyboardInterrupt:
                return INTERRUPTED
            self._show(job, options)
            return self.exit_code(job)
        try:
            with tenant_context(tenant_id):
                job = CHANGES[action](job.pk)
        except JobError as error:
            self.refused(error)
        self._show(job, options)
        if job.is_active:
            self.warn_without_worker()
        return None

    def _list(self, tenant_id: UUID, options: Options) -> None:
        with tenant_context(tenant_id):
            found = services.jobs(kind=options["kind"], state=options["state"]).running_first()
            rows = list(found[: max(1, options["limit"])])
        text = "\n".join(
            f"{job.pk}  {job.created_at:%Y-%m-%d %H:%M}  {job.effective_state:<10} {job.title}: {job.progress}"
            for job in rows
        )
        self.show(options, {"jobs": [job.as_dict() for job in rows]}, text or "There are no jobs.")

    def _show(self, job: Job, options: Options) -> None:
        with job.in_tenant():
            job = services.find(job.pk)
            groups = services.failures_by_error(job.pk)
        lines = [
            f"{job.title} ({job.effective_state}), job {job.pk} of {job.requested_by}",
            f"{job.stage + ': ' if job.stage else ''}{job.progress}",
            *([job.error] if job.error else []),
            *(f"  {line.at:%H:%M:%S} {line.text}" for line in job.log_lines),
            *map(str, groups),
        ]
        failures = [asdict(group) for group in groups]
        log = [{"at": line.at.isoformat(), "text": line.text} for line in job.log_lines]
        self.show(options, {**job.as_dict(), "failures": failures, "log": log}, "\n".join(lines))
