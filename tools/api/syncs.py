"""The REST endpoints of syncs: read a source anew, look at the plan, apply it or a choice of it, or discard it (SYN-4)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import F, Func, IntegerField, QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.http.idempotency import idempotent
from portal.http.problems import Problem
from portal.jobs import services as jobs
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope
from tools.api import sync_docs as docs
from tools.api.callers import actor_of, caller_of, require_unbound
from tools.api.jobs import accepted
from tools.api.pages import ByKey, NewestFirst, refuse_unknown
from tools.api.refusals import as_problems, job_address
from tools.api.source_docs import COUNTS
from tools.api.source_serializers import ApplySerializer, SyncSerializer
from tools.api.sources import find_in, find_source
from tools.catalogue.errors import Invalid, WrongSyncState
from tools.imports.syncing import service as syncs
from tools.imports.syncing.apply import check_removals
from tools.imports.syncing.jobs import APPLY, NOTHING_CHOSEN, SYNC
from tools.models import Action, Source, Sync, SyncChange, SyncState

# Each summary may list as many operations as a document has.
_COUNTED = {f"counted_{name}": F(f"summary__{name}") for name in COUNTS} | {
    f"counted_{name}": Func(F(f"summary__{name}"), function="jsonb_array_length", output_field=IntegerField())
    for name in ("left_out", "warnings")
}


def _counts(sync: Any) -> dict[str, int]:
    """The summary of a sync of `_COUNTED` in numbers; empty of one that failed."""
    counts = {name.removeprefix("counted_"): getattr(sync, name) for name in _COUNTED}
    return {} if counts["operations"] is None else {name: count or 0 for name, count in counts.items()}


def sync_state(slug: str, sync: Sync, **found: Any) -> dict[str, Any]:
    """A sync as callers see it, with what it found and what can be done with it."""
    address = f"/api/v1/sources/{slug}/syncs/{sync.pk}"
    links = {"self": address, "changes": f"{address}/changes"}
    if sync.state == SyncState.PLANNED:
        links |= {"apply": f"{address}/apply", "discard": f"{address}/discard"}
    if sync.document_id:
        links["document"] = f"/api/v1/sources/{slug}/documents/{sync.document_id}"
    if sync.job_id:
        links["job"] = job_address(sync.job_id)
    return {
        "id": sync.pk,
        "state": sync.state,
        **found,
        "error": sync.error or None,
        "created_at": sync.created_at,
        "created_by": sync.created_by,
        "ended_at": sync.ended_at,
        "ended_by": sync.ended_by or None,
        "links": links,
    }


def _change_state(change: SyncChange) -> dict[str, Any]:
    return {
        "id": change.pk,
        "action": change.action,
        "key": change.key,
        "old_key": change.old_key or None,
        "name": change.name,
        "tool": change.tool_uuid,
        "fields": change.fields,
        "kept": change.kept,
        "conflict": change.conflict,
        "applied": change.applied,
    }


def _find(slug: str, ref: str) -> Sync:
    sync: Sync = find_in(find_source(slug).syncs.all(), ref, "sync")
    return sync


class SyncNowView(APIView):
    """Reads the source anew, as a job that ends with a plan."""

    required_scope = Scope.SOURCES_WRITE

    @docs.sync_source
    @idempotent
    def post(self, request: Request, slug: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id), as_problems():
            source = find_source(slug)
            given = SyncSerializer.parsed(request.data)
            return accepted(jobs.start(SYNC, {"source": source.slug, **given}, by=actor_of(caller)))


class SyncListView(APIView):
    """The syncs of a source, newest first."""

    required_scope = Scope.SOURCES_WRITE

    @docs.list_syncs
    def get(self, request: Request, slug: str) -> Response:
        refuse_unknown(request.query_params, NewestFirst.PARAMETERS)
        with tenant_context(caller_of(request).tenant_id):
            pages = NewestFirst()
            found = find_source(slug).syncs.defer("summary").annotate(**_COUNTED)
            rows: list[Sync] = pages.paginate_queryset(found, request, view=self) or []
            return pages.get_paginated_response([sync_state(slug, one, counts=_counts(one)) for one in rows])


class SyncView(APIView):
    """One sync with its summary."""

    required_scope = Scope.SOURCES_WRITE

    @docs.get_sync
    def get(self, request: Request, slug: str, ref: str) -> Response:
        with tenant_context(caller_of(request).tenant_id):
            sync = _find(slug, ref)
            return Response(sync_state(slug, sync, summary=sync.summary))


class ChangeListView(APIView):
    """What a sync changes, endpoint by endpoint. It tells of every tool, so it needs a key that may see all of them."""

    required_scope = Scope.SOURCES_WRITE

    @docs.list_changes
    def get(self, request: Request, slug: str, ref: str) -> Response:
        caller, asked = caller_of(request), request.query_params
        require_unbound(caller)
        refuse_unknown(asked, {"action", "conflict", *ByKey.PARAMETERS})
        for name, known in {"action": Action.values, "conflict": ["true", "false"]}.items():
            if name in asked and asked[name] not in known:
                raise ValidationError({name: f"One of these, please: {', '.join(known)}."})
        with tenant_context(caller.tenant_id):
            changes = _find(slug, ref).changes.all()
            if "action" in asked:
                changes = changes.filter(action=asked["action"])
            if "conflict" in asked:
                changes = changes.filter(conflict=asked["conflict"] == "true")
            pages = ByKey()
            rows: list[SyncChange] = pages.paginate_queryset(changes, request, view=self) or []
            return pages.get_paginated_response([_change_state(one) for one in rows])


class SyncApplyView(APIView):
    """Applies a plan, or a choice of it, as a job."""

    required_scope = Scope.SOURCES_WRITE

    @docs.apply_sync
    @idempotent
    def post(self, request: Request, slug: str, ref: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id), as_problems():
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
            return accepted(jobs.start(APPLY, args, by=actor_of(caller)))


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
    """Refuses at once what shows without planning anew; whether the catalogue has outgrown the plan, the job finds out."""
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


class SyncDiscardView(APIView):
    """Throws a plan away. A new source that has nothing else goes with it."""

    required_scope = Scope.SOURCES_WRITE

    @docs.discard_sync
    @idempotent
    def post(self, request: Request, slug: str, ref: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id), as_problems():
            sync = _find(slug, ref)
            syncs.discard_sync(sync_id=sync.pk, actor=actor_of(caller))
            gone = not Source.objects.filter(slug=slug).exists()
        return Response({"id": sync.pk, "state": SyncState.DISCARDED, "source_deleted": gone})
