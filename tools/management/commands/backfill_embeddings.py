"""Enqueues every embedding that is missing, outdated, failed, disabled by mistake or of another model, as a job that the pages
show. Without --wait a worker goes on with the job once all is queued; workers embed in either case."""

from __future__ import annotations

import signal
import time
from uuid import UUID

from django.core.management.base import CommandParser

from embeddings.backfill.job import BATCH_SIZE, EMBEDDING
from embeddings.backfill.scan import count_by_status
from portal.jobs import heartbeats, services
from portal.jobs.command import INTERRUPTED, JobCommand
from portal.jobs.errors import AlreadyRunning, InvalidArguments, JobError
from portal.jobs.models import Job, JobState
from portal.tenancy.commands import REFUSED, USAGE, Options
from portal.tenancy.context import tenant_context
from tools.catalogue.embedding_jobs import BACKFILL
from tools.catalogue.embedding_text import ENTITY
from tools.management.import_command import ACTOR


class Command(JobCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--wait", action="store_true", help="stay until workers have embedded everything")
        parser.add_argument("--no-progress", action="store_true")
        parser.add_argument(
            "--status", default="all", help="blank, failed, outdated, disabled, with commas; or all"
        )
        parser.add_argument("--source", default="", metavar="SLUG", help="tools of this source only")
        parser.add_argument("--limit", type=int, help="queue at most so many tools")
        parser.add_argument("--batch-size", type=int, default=BATCH_SIZE, help="default: %(default)s")
        parser.add_argument("--rate", type=float, help="tools a second at most")
        parser.add_argument("--dry-run", action="store_true", help="count, and start nothing")
        parser.add_argument("--detach", action="store_true", help="let a worker run the job")
        parser.add_argument("--resume", default="", metavar="JOB", help="go on with a job that was stopped")

    def run_for(self, tenant_id: UUID, options: Options) -> int | None:
        args = self._args(options)
        try:
            with tenant_context(tenant_id):
                if options["dry_run"]:
                    self._count(args, options)
                    return None
                job = self._job(tenant_id, args, options)
                # In the transaction that made the job, or a worker may claim it first.
                claimed = None if options["detach"] else Job.objects.claim(kinds=[job.kind], pk=job.pk)
        except InvalidArguments as error:
            self.stop(USAGE, str(error))
        except AlreadyRunning as error:
            self.stop(REFUSED, f"{error} Watch it with: manage.py jobs watch {error.job.pk}")
        except JobError as error:
            self.stop(REFUSED, str(error))
        if options["detach"]:
            self.show(
                options,
                {"job": str(job.pk), "state": job.effective_state},
                f"Job {job.pk} is queued. Watch it with: manage.py jobs watch {job.pk}",
            )
            self.warn_without_worker()
            return None
        if claimed is None:
            self.say("A worker runs this job; showing its progress.")
            return self._end(self.watch(job, quiet=options["no_progress"]), options)
        if options["wait"]:
            self.warn_without_worker(heartbeats.EMBEDDINGS)
        interrupted = self.run_here(
            claimed,
            quiet=options["no_progress"],
            is_enough=lambda context: not options["wait"] and context.stage == EMBEDDING,
        )
        with tenant_context(tenant_id):
            job = services.find(job.pk)
        if interrupted and job.effective_state == JobState.CANCELLED:
            self.say(f"Stopped. Go on with: manage.py backfill_embeddings --resume {job.pk}")
            return INTERRUPTED
        if options["wait"] and job.effective_state != JobState.QUEUED and not self._all_embedded(job):
            return INTERRUPTED
        return self._end(job, options)

    def _all_embedded(self, job: Job) -> bool:
        """Waits also for what edits and imports have enqueued, which is not part of the job; False if Ctrl-C ended it."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            while True:
                with job.in_tenant():
                    if not count_by_status(ENTITY).pending:
                        return True
                time.sleep(0.5)
        except KeyboardInterrupt:
            return False

    def _args(self, options: Options) -> dict[str, object]:
        return {
            "statuses": [word.strip() for word in options["status"].split(",") if word.strip()],
            "source": options["source"],
            "limit": options["limit"],
            "rate": options["rate"],
            "batch_size": options["batch_size"],
            # Without --wait all of it is queued at once.
            **({} if options["wait"] or options["detach"] else {"ahead": 0}),
        }

    def _job(self, tenant_id: UUID, args: dict[str, object], options: Options) -> Job:
        if options["resume"]:
            job = self.find(tenant_id, options["resume"])
            return job if job.state == JobState.QUEUED else services.resume(job.pk)
        try:
            return services.start(BACKFILL, args, by=ACTOR)
        except AlreadyRunning as error:
            # A queued job that no runner has claimed yet is run here.
            if error.job.effective_state != JobState.QUEUED:
                raise
            return error.job

    def _count(self, args: dict[str, object], options: Options) -> None:
        found = services.estimate(BACKFILL, args)
        self.show(
            options,
            {"total": found.total, "to_do": found.to_do, "rate": found.rate, "eta_seconds": found.seconds},
            f"{found.to_do:,} of {found.total:,} tools are known to need an embedding: about {found.seconds:,} s at "
            f"{found.rate:.0f} a second{'' if found.measured else ' (not measured yet)'}. Nothing was started.",
        )

    def _end(self, job: Job, options: Options) -> int:
        with job.in_tenant():
            job = services.find(job.pk)
            counts = count_by_status(ENTITY)
        if job.effective_state == JobState.QUEUED:
            self.say(
                f"Job {job.pk} follows it from here, in a worker. Watch it with: manage.py jobs watch {job.pk}"
            )
        queued = job.cursor.get("queued", 0)
        text = ", ".join(f"{name} {number:,}" for name, number in counts.as_dict().items())
        self.show(
            options,
            {"queued": queued, **counts.as_dict(), "job": str(job.pk), "state": job.effective_state},
            f"Queued {queued:,}. Now: {text}.",
        )
        self.say_failures(job)
        return self.exit_code(job)
