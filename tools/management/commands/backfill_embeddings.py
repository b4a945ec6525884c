"""Queues every embedding that is missing, stale, failed, disabled by mistake or of another model. Run again, it goes on
where it stopped; workers do the embedding."""

from __future__ import annotations

import sys
import time
from typing import Any
from uuid import UUID

from django.core.management.base import CommandParser
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from embeddings import backfill
from portal.tenancy.commands import SOME_FAILED, TenantCommand
from portal.tenancy.context import tenant_context
from tools import embedding
from tools.models import Tool


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--wait", action="store_true", help="wait until workers have embedded everything")
        parser.add_argument("--no-progress", action="store_true")

    def run_for(self, tenant_id: UUID, options: dict[str, Any]) -> int | None:
        with tenant_context(tenant_id):
            total = Tool.objects.filter(active=True).count()
        quiet = options["no_progress"] or not sys.stderr.isatty()
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            disable=quiet,
        ) as bar:
            scan = bar.add_task("Scanning", total=total)
            progress = backfill.backfill(
                embedding.ENTITY, tenant_id, active_ids=_active_ids, total=total,
                on_progress=lambda now: bar.update(scan, completed=now.seen),
            )  # fmt: skip
            if options["wait"]:
                embed = bar.add_task("Embedding", total=progress.queued)
                while (waiting := self._counts(tenant_id).pending) > 0:
                    bar.update(embed, completed=max(0, progress.queued - waiting))
                    time.sleep(0.5)
                bar.update(embed, completed=progress.queued)
        counts = self._counts(tenant_id)
        text = ", ".join(f"{name} {number:,}" for name, number in counts.as_dict().items())
        self.show(
            options,
            {"queued": progress.queued, **counts.as_dict()},
            f"Queued {progress.queued:,}. Now: {text}.",
        )
        return SOME_FAILED if counts.failed else None

    def _counts(self, tenant_id: UUID) -> backfill.Counts:
        with tenant_context(tenant_id):
            return backfill.counts(embedding.ENTITY, entity_table=Tool._meta.db_table)


def _active_ids(after: UUID | None, limit: int) -> list[UUID]:
    tools = Tool.objects.filter(active=True).order_by("pk")
    if after is not None:
        tools = tools.filter(pk__gt=after)
    return list(tools.values_list("pk", flat=True)[:limit])
