"""The REST endpoints of syncs: read a source again, look at the plan, apply it or a choice of it, or discard it (SYN-4)."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.idempotency import idempotent
from portal.http.problems import Problem
from portal.jobs import services as jobs
from portal.tenancy.models import Scope
from tools.api.base import TenantListView, TenantView, find_row
from tools.api.jobs.serializers import JOB, accepted
from tools.api.schema import operations as docs
from tools.api.schema.json_schema import BOOLEAN, body_schema
from tools.api.sources.views import find_source, find_whole_source
from tools.api.syncs.serializers import (
    COUNTED,
    DISCARDED,
    ApplySerializer,
    ChangeSerializer,
    CountedSyncSerializer,
    SyncOptionsSerializer,
    SyncSerializer,
)
from tools.catalogue.errors import Invalid, WrongSyncState
from tools.imports.syncing import service as syncs
from tools.imports.syncing.apply import check_removals
from tools.imports.syncing.jobs import APPLY, NOTHING_CHOSEN, SYNC
from tools.models import Action, Source, Sync, SyncChange, SyncState


def _find(slug: str, ref: str) -> Sync:
    return find_row(find_whole_source(slug).syncs.all(), "sync", ref)


class SyncNowView(TenantView):
    """Reads the source anew, as a job that ends with a plan."""

    required_scope = Scope.SOURCES_WRITE

    @docs.operation(
        "sync_source",
        "Reads the source anew, as a job that ends with a plan",
        body=body_schema(SyncOptionsSerializer),
        parameters=docs.JOB_HEADERS,
        answers={202: JOB},
    )
    @idempotent
    def post(self, request: Request, slug: str) -> Response:
        source = find_source(slug)
        given = SyncOptionsSerializer.parsed(request.data)
        return accepted(jobs.start(SYNC, {"source": source.slug, **given}, by=self.rights.actor))


class SyncListView(TenantListView):
    """The syncs of a source, newest first."""

    required_scope = Scope.SOURCES_WRITE
    list_operation = (
        "list_syncs",
        "The syncs of a source, newest first",
        "With the counts of each summary. Needs a key that may see tools of every sensitivity.",
    )
    serializer_class = CountedSyncSerializer
    ordering = ("-created_at", "-pk")

    def get_queryset(self) -> QuerySet[Sync]:
        return find_whole_source(self.kwargs["slug"]).syncs.defer("summary").annotate(**COUNTED)


class SyncView(TenantView):
    """One sync with its summary."""

    required_scope = Scope.SOURCES_WRITE

    @docs.operation(
        "get_sync",
        "One sync with its summary",
        "Of a plan, the summary says what would happen. Needs a key that may see tools of every sensitivity.",
        answers=docs.one(SyncSerializer),
    )
    def get(self, request: Request, slug: str, ref: str) -> Response:
        return Response(SyncSerializer(_find(slug, ref), context={"view": self}).data)


class ChangeListView(TenantListView):
    """What a sync changes, endpoint by endpoint. It tells of every tool, so it needs a key that may see all of them."""

    required_scope = Scope.SOURCES_WRITE
    list_operation = (
        "list_changes",
        "What a sync changes, endpoint by endpoint",
        "Needs a key that may see tools of every sensitivity. What stays as it is has no entry.",
    )
    query_parameters = (
        docs.query("action", {"type": "string", "enum": Action.values}),
        docs.query("conflict", BOOLEAN),
    )
    serializer_class = ChangeSerializer
    ordering = ("key", "pk")

    def get_queryset(self) -> QuerySet[SyncChange]:
        changes = _find(self.kwargs["slug"], self.kwargs["ref"]).changes.all()
        asked = self.request.query_params
        if "action" in asked:
            changes = changes.filter(action=asked["action"])
        if "conflict" in asked:
            changes = changes.filter(conflict=asked["conflict"] == "true")
        return changes


class SyncApplyView(TenantView):
    """Applies a plan, or a choice of it, as a job."""

    required_scope = Scope.SOURCES_WRITE

    @docs.operation(
        "apply_sync",
        "Applies a plan, or a choice of it, as a job",
        "All changes, or those that `accept` lists; without those that `reject` lists. In one transaction. Needs a key that may see "
        "tools of every sensitivity.",
        body=body_schema(ApplySerializer),
        parameters=docs.JOB_HEADERS,
        answers={202: JOB},
        examples={"All of it": {"accept": None}},
    )
    @idempotent
    def post(self, request: Request, slug: str, ref: str) -> Response:
        sync = _find(slug, ref)
        given = ApplySerializer.parsed(request.data)
        confirmed, everything = given["confirm_removals"], given["accept"] is None and not given["reject"]
        changes = _chosen(sync, given["accept"], given["reject"])
        _require_applicable(sync, changes, confirmed=confirmed)
        args = {
            "sync": str(sync.pk),
            "changes": None if everything else [str(pk) for pk in changes.values_list("pk", flat=True)],
            "confirm_removals": confirmed,
        }
        return accepted(jobs.start(APPLY, args, by=self.rights.actor))


def _chosen(sync: Sync, accept: list[UUID] | None, reject: list[UUID]) -> QuerySet[SyncChange]:
    """The changes to apply. Raises ValidationError for ids that are none of this plan's."""
    chosen: QuerySet[SyncChange] = sync.changes.all()
    known = set(chosen.values_list("pk", flat=True)) if accept is not None or reject else set()
    for name, ids in (("accept", accept or []), ("reject", reject)):
        if foreign := [one for one in ids if one not in known]:
            raise ValidationError({name: f"{foreign[0]} is no change of this sync."})
    if accept is not None:
        chosen = chosen.filter(pk__in=accept)
    return chosen.exclude(pk__in=reject) if reject else chosen


def _require_applicable(sync: Sync, changes: QuerySet[SyncChange], *, confirmed: bool) -> None:
    """Refuses at once what shows without planning anew; whether the plan is stale, the job finds out."""
    source = sync.source
    if sync.state != SyncState.PLANNED:
        if source.syncs.filter(state=SyncState.PLANNED, created_at__gt=sync.created_at).exists():
            raise Problem(409, "A later plan has taken the place of this one.", code="plan_outgrown")
        raise WrongSyncState(sync.over)
    if not changes.exists():
        raise Invalid({"accept": [NOTHING_CHOSEN]})
    if not confirmed:
        check_removals(
            changes.filter(action=Action.REMOVE).count(), source.endpoints.filter(active=True).count()
        )


class SyncDiscardView(TenantView):
    """Throws a plan away. A new source that has nothing else goes with it."""

    required_scope = Scope.SOURCES_WRITE

    @docs.operation(
        "discard_sync",
        "Throws a plan away",
        "A new source that has nothing else goes with it. Needs a key that may see tools of every sensitivity.",
        answers={200: DISCARDED},
    )
    @idempotent
    def post(self, request: Request, slug: str, ref: str) -> Response:
        sync = _find(slug, ref)
        syncs.discard_sync(sync_id=sync.pk, actor=self.rights.actor)
        gone = not Source.objects.filter(slug=slug).exists()
        return Response({"id": sync.pk, "state": SyncState.DISCARDED, "source_deleted": gone})
