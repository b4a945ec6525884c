"""Reads a source again from its URL or MCP server and shows what has changed; --apply applies the changes. Each source is
a job, which the pages show."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

from django.core.management.base import CommandParser

from portal.jobs import services
from portal.jobs.command import INTERRUPTED, JobCommand
from portal.jobs.errors import AlreadyRunning, InvalidArguments, JobError
from portal.jobs.models import Job, JobState
from portal.tenancy.commands import DONE, REFUSED, SOME_FAILED, USAGE, Options
from portal.tenancy.context import tenant_context
from tools.imports.syncing.jobs import SYNC
from tools.management.import_command import ACTOR
from tools.models import Action, Source, Sync, SyncChange, SyncState

SHOWN = 20
_SIGNS = {Action.ADD: "+", Action.CHANGE: "~", Action.MOVE: ">", Action.REMOVE: "-"}
_COUNTS = ("added", "changed", "moved", "removed", "unchanged", "protected", "conflicts")


class Command(JobCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("source", nargs="?", metavar="SLUG")
        which.add_argument("--all", action="store_true", help="every source that has a URL or an MCP server")
        parser.add_argument("--plan", metavar="FILE", help="write every change to this file, as JSON")
        parser.add_argument("--apply", action="store_true", help="apply what was found")
        parser.add_argument(
            "--confirm-removals",
            "--yes",
            action="store_true",
            help="also if more than a fifth of a source would vanish",
        )
        parser.add_argument("--no-progress", action="store_true")
        parser.add_argument("--detach", action="store_true", help="let workers run the jobs")

    def run_for(self, tenant_id: UUID, options: Options) -> int | None:
        codes: list[int] = []
        found: list[dict[str, object]] = []
        for slug in self._slugs(tenant_id, options):
            code, one = self._sync(tenant_id, slug, options)
            codes.append(code)
            found.append(one)
            if code == INTERRUPTED:
                break
        told: dict[str, object] = {"sources": found} if options["all"] else found[0]
        if options["plan"]:
            self._write(options["plan"], told)
        for one in found:
            one.pop("changes", None)
        if options["json"]:
            self.stdout.write(json.dumps(told, ensure_ascii=False))
        if not options["all"] or INTERRUPTED in codes:
            return codes[-1]
        return SOME_FAILED if any(codes) else DONE

    def _slugs(self, tenant_id: UUID, options: Options) -> list[str]:
        if not options["all"]:
            return [options["source"]]
        with tenant_context(tenant_id):
            return [source.slug for source in Source.objects.all() if source.is_readable]

    def _sync(self, tenant_id: UUID, slug: str, options: Options) -> tuple[int, dict[str, object]]:
        """The exit code and what is told of one source."""
        args = {"source": slug, "apply": options["apply"], "confirm_removals": options["confirm_removals"]}
        try:
            with tenant_context(tenant_id):
                job = services.start(SYNC, args, by=ACTOR)
                # In the transaction that made it, or else a worker may be faster.
                claimed = None if options["detach"] else Job.objects.claim(kinds=[SYNC], pk=job.pk)
        except InvalidArguments as error:
            return self._told(USAGE, slug, " ".join(error.errors.get("source", [str(error)])))
        except AlreadyRunning as error:
            return self._told(REFUSED, slug, f"{error} Watch it with: manage.py jobs watch {error.job.pk}")
        except JobError as error:
            return self._told(REFUSED, slug, str(error))
        told = {"source": slug, "job": str(job.pk)}
        if options["detach"]:
            self._text(
                options, f"{slug}: job {job.pk} is queued. Watch it with: manage.py jobs watch {job.pk}"
            )
            self.warn_without_worker()
            return DONE, {**told, "state": job.effective_state}
        if claimed is None:
            self.watch(job, quiet=options["no_progress"])
        elif self.run_here(claimed, quiet=options["no_progress"]):
            self.say(
                f"Stopped: nothing of {slug} was applied. Start again with: manage.py sync_source {slug}"
            )
            return INTERRUPTED, {**told, "state": JobState.CANCELLED}
        with tenant_context(tenant_id):
            job = services.find(job.pk)
            if job.effective_state != JobState.SUCCEEDED:
                return self._told(REFUSED, slug, job.error or f"The job is {job.effective_state}.", **told)
            sync = Sync.objects.get(pk=job.cursor["sync"])
            return self._found(slug, job, sync, options)

    def _found(self, slug: str, job: Job, sync: Sync, options: Options) -> tuple[int, dict[str, object]]:
        told: dict[str, object] = {"source": slug, "job": str(job.pk), "sync": str(sync.pk)}
        # A plan that waited already, and still says what there is to do, is this job's as well.
        if sync.created_at < job.created_at and sync.job_id != job.pk:
            self._text(options, f"{slug}: nothing has changed since the last sync.")
            return DONE, {**told, "state": "unchanged", "changes": []}
        changes = list(sync.changes.all())
        told |= {"state": sync.state, "summary": sync.summary, "changes": [_change(one) for one in changes]}
        self._text(options, "\n".join(_lines(slug, sync, changes)))
        if options["apply"] and sync.state == SyncState.PLANNED:
            return self._told(
                REFUSED,
                slug,
                f"{job.log[-1]['text']} To apply it: manage.py sync_source {slug} --apply --confirm-removals",
                **told,
            )
        return DONE, told

    def _told(self, code: int, slug: str, sentence: str, **told: object) -> tuple[int, dict[str, object]]:
        self.say(f"{slug}: {sentence}")
        return code, {"source": slug, **told, "error": sentence}

    def _text(self, options: Options, text: str) -> None:
        if not options["json"]:
            self.stdout.write(text)

    def _write(self, name: str, data: dict[str, object]) -> None:
        try:
            Path(name).write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", "utf-8")
        except OSError as error:
            self.stop(REFUSED, f"{name} cannot be written: {error.strerror}.")


def _change(change: SyncChange) -> dict[str, object]:
    return {
        "action": change.action,
        "key": change.key,
        "old_key": change.old_key or None,
        "name": change.name,
        "fields": change.fields,
        "kept": change.kept,
        "conflict": change.conflict,
        "applied": change.applied,
    }


def _lines(slug: str, sync: Sync, changes: list[SyncChange]) -> list[str]:
    counts = ", ".join(f"{sync.summary.get(name, 0):,} {name}" for name in _COUNTS)
    lines = [f"{slug}: {sync.get_state_display().lower()}: {counts}"]
    for one in changes[:SHOWN]:
        fields = ", ".join(str(field["field"]) for field in one.fields)
        lines.append(
            f"  {_SIGNS[Action(one.action)]} {one.name} ({f'{one.old_key} → ' if one.old_key else ''}{one.key})"
            f"{f': {fields}' if fields else ''}{'; an override is in conflict' if one.conflict else ''}"
        )
    if len(changes) > SHOWN:
        lines.append(f"  … and {len(changes) - SHOWN:,} more changes (--plan FILE writes them all)")
    return lines
