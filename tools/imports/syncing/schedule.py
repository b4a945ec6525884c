"""Starts the syncs whose time has come."""

from __future__ import annotations

import logging

from django.db import DatabaseError
from django.db.models import F, Q
from django.db.models.functions import Now

from portal.jobs import services as jobs
from portal.jobs.errors import JobError, TooManyJobs
from portal.tenancy.context import tenant_context, tenant_ids
from tools.catalogue.sources import INTERVALS
from tools.imports.syncing.jobs import SYNC
from tools.models import Schedule, Source

log = logging.getLogger(__name__)

ACTOR = "schedule"


def start_due_syncs() -> int:
    """Starts a job for every source that is due, in every tenant, and returns how many. A source that missed several times is
    synced once."""
    started = 0
    for tenant_id in tenant_ids():
        try:
            with tenant_context(tenant_id):
                started += _start_due()
        except DatabaseError:
            # One tenant's trouble is not the others'; it is due again in a minute.
            log.exception("The due syncs of tenant %s were not started.", tenant_id)
    return started


def _start_due() -> int:
    due = Q(next_sync_at__lte=Now()) | Q(next_sync_at=None)
    # A row that another beat holds is being started there. A failure brings the next time nearer again.
    sources = (
        Source.objects.exclude(schedule=Schedule.NEVER)
        .filter(due)
        .select_for_update(skip_locked=True, no_key=True)
    )
    started = 0
    for source in sources.order_by(F("next_sync_at").asc(nulls_first=True)):
        try:
            started += _start(source)
        except TooManyJobs as error:
            # They stay due, and are looked at again in a minute.
            log.info("The sync of %s and later ones wait: %s", source.slug, error)
            break
        Source.objects.filter(pk=source.pk).update(next_sync_at=Now() + INTERVALS[Schedule(source.schedule)])
    return started


def _start(source: Source) -> bool:
    try:
        jobs.start(SYNC, {"source": source.slug, "apply": source.auto_apply}, by=ACTOR)
    except TooManyJobs:
        raise
    except JobError as error:
        log.info("The sync of %s was not started: %s", source.slug, error)
        return False
    return True
