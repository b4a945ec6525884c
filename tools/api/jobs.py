"""The REST endpoints of jobs: start one, look at it, cancel, resume and retry it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.http.authentication import require_scope
from portal.http.idempotency import idempotent
from portal.jobs import kinds, services
from portal.jobs.models import Job, JobFailure, JobState
from portal.tenancy.context import tenant_context
from portal.tenancy.keys import Caller
from portal.tenancy.models import Scope
from tools.api import job_docs as docs
from tools.api.callers import actor_of, caller_of
from tools.api.pages import ByItem, NewestFirst, refuse_unknown
from tools.api.refusals import as_problems, job_address
from tools.api.serializers import Strict
from tools.imports.syncing.jobs import APPLY, SYNC

RETRY_AFTER = "2"


class NewJobSerializer(Strict):
    """What to start: a kind, and its arguments."""

    kind = serializers.CharField(max_length=40)
    args = serializers.DictField(default=dict)
    dry_run = serializers.BooleanField(default=False)


def job_state(job: Job) -> dict[str, Any]:
    """A job as callers see it."""
    allowed = {"cancel": job.can_cancel, "resume": job.can_resume, "retry-failed": job.can_retry}
    return {
        **job.as_dict(),
        "links": {
            "self": job_address(job.pk),
            "errors": f"{job_address(job.pk)}/errors",
            **{
                name.replace("-", "_"): f"{job_address(job.pk)}/{name}"
                for name, may in allowed.items()
                if may
            },
        },
    }


def _find(ref: str) -> Job:
    """A foreign job and an unknown one give the same 404."""
    try:
        return services.find(UUID(ref))
    except (ValueError, Job.DoesNotExist) as error:
        raise NotFound(f"There is no job {ref!r} here.") from error


def accepted(job: Job) -> Response:
    """The answer to a request for long work."""
    return Response(
        job_state(job), status=202, headers={"Location": job_address(job.pk), "Retry-After": RETRY_AFTER}
    )


def _require_scope_of(kind: str, caller: Caller) -> None:
    """A sync writes what a source says, so it needs the scope of sources, whichever way it is started."""
    if kind in (SYNC, APPLY):
        require_scope(caller, Scope.SOURCES_WRITE)


class JobListView(APIView):
    """The tenant's jobs, newest first; and a new one."""

    required_scope = {"GET": Scope.TOOLS_READ, "POST": Scope.JOBS_RUN}

    @docs.list_jobs
    def get(self, request: Request) -> Response:
        caller, asked = caller_of(request), request.query_params
        refuse_unknown(asked, {"kind", "state", "mine", *NewestFirst.PARAMETERS})
        choices = {
            "kind": [one.name for one in kinds.all_kinds()],
            "state": JobState.values,
            "mine": ["true", "false"],
        }
        for name, known in choices.items():
            if name in asked and asked[name] not in known:
                raise ValidationError({name: f"One of these, please: {', '.join(known)}."})
        with tenant_context(caller.tenant_id):
            found = services.jobs(
                kind=asked.get("kind", ""),
                state=asked.get("state", ""),
                by=actor_of(caller) if asked.get("mine") == "true" else "",
            )
            pages = NewestFirst()
            rows: list[Job] = pages.paginate_queryset(found, request, view=self) or []
            return pages.get_paginated_response([job_state(job) for job in rows])

    @docs.start_job
    @idempotent
    def post(self, request: Request) -> Response:
        caller = caller_of(request)
        given = NewJobSerializer.parsed(request.data)
        kind, args = given["kind"], given["args"]
        _require_scope_of(kind, caller)
        with tenant_context(caller.tenant_id), as_problems():
            if given["dry_run"]:
                found = services.estimate(kind, args)
                return Response(
                    {
                        "kind": kind,
                        "total": found.total,
                        "to_do": found.to_do,
                        "rate": found.rate,
                        "rate_is_measured": found.measured,
                        "eta_seconds": found.seconds,
                    }
                )
            return accepted(services.start(kind, args, by=actor_of(caller)))


class JobView(APIView):
    """One job as it is now."""

    required_scope = Scope.TOOLS_READ

    @docs.get_job
    def get(self, request: Request, ref: str) -> Response:
        with tenant_context(caller_of(request).tenant_id):
            job = _find(ref)
            headers = {"Retry-After": RETRY_AFTER} if job.is_active else None
            return Response(job_state(job), headers=headers)


class JobErrorsView(APIView):
    """The items that failed, and why."""

    required_scope = Scope.TOOLS_READ

    @docs.list_job_errors
    def get(self, request: Request, ref: str) -> Response:
        refuse_unknown(request.query_params, ByItem.PARAMETERS)
        with tenant_context(caller_of(request).tenant_id):
            pages = ByItem()
            rows: list[JobFailure] = (
                pages.paginate_queryset(services.failures(_find(ref).pk), request, view=self) or []
            )
            return pages.get_paginated_response(
                [
                    {
                        "item_id": str(one.item_id),
                        "label": one.label,
                        "error": one.error,
                        "failed_at": one.failed_at,
                    }
                    for one in rows
                ]
            )


class _JobChangeView(APIView):
    """One of the things that can be done with a job."""

    required_scope = Scope.JOBS_RUN
    change: Any
    goes_on = True

    def changed(self, request: Request, ref: str) -> Response:
        caller = caller_of(request)
        with tenant_context(caller.tenant_id), as_problems():
            job = _find(ref)
            if self.goes_on:
                _require_scope_of(job.kind, caller)
            return accepted(self.change(job.pk))


class JobCancelView(_JobChangeView):
    change = staticmethod(services.cancel)
    goes_on = False

    @docs.cancel_job
    @idempotent
    def post(self, request: Request, ref: str) -> Response:
        return self.changed(request, ref)


class JobResumeView(_JobChangeView):
    change = staticmethod(services.resume)

    @docs.resume_job
    @idempotent
    def post(self, request: Request, ref: str) -> Response:
        return self.changed(request, ref)


class JobRetryView(_JobChangeView):
    change = staticmethod(services.retry_failed)

    @docs.retry_failed_job
    @idempotent
    def post(self, request: Request, ref: str) -> Response:
        return self.changed(request, ref)
