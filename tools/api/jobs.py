"""The REST doors of jobs: start one, look at it, cancel, resume and retry it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.idempotency import idempotent
from portal.jobs import kinds, services
from portal.jobs.errors import AlreadyRunning, InvalidArguments, JobError
from portal.jobs.models import Job, JobFailure, JobState
from portal.problems import Problem
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Scope
from tools.api import job_docs as docs
from tools.api.pages import ToolPages, refuse_unknown
from tools.api.views import actor_of, caller_of

RETRY_AFTER = "2"


class NewJobSerializer(serializers.Serializer[Any]):
    """What to start: a kind, and its arguments."""

    kind = serializers.CharField(max_length=40)
    args = serializers.DictField(default=dict)
    dry_run = serializers.BooleanField(default=False)

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            refuse_unknown(data, self.fields)
        return super().to_internal_value(data)


class JobPages(ToolPages):
    """Newest first."""

    ordering = ("-created_at", "-pk")

    def could_be_ours(self, position: Any) -> bool:
        return position is None or _is(datetime.fromisoformat, position)


class FailurePages(ToolPages):
    """In the order of the items."""

    ordering = ("item_id", "pk")

    def could_be_ours(self, position: Any) -> bool:
        return position is None or _is(UUID, position)


def _is(kind: Callable[[str], object], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def as_problem(error: JobError) -> Problem:
    if isinstance(error, InvalidArguments):
        entries = [
            {"code": "invalid", "detail": text, "pointer": "/kind" if name == "kind" else f"/args/{name}"}
            for name, texts in error.errors.items()
            for text in texts
        ]
        return Problem(422, str(error), code="validation_error", errors=entries)
    if isinstance(error, AlreadyRunning):
        return Problem(409, str(error), code="already_running", headers={"Location": address(error.job.pk)})
    return Problem(409, str(error))


def address(pk: UUID) -> str:
    return f"/api/v1/jobs/{pk}"


def job_state(job: Job) -> dict[str, Any]:
    """A job as callers see it."""
    allowed = {"cancel": job.can_cancel, "resume": job.can_resume, "retry-failed": job.can_retry}
    return {
        **job.as_dict(),
        "links": {
            "self": address(job.pk),
            "errors": f"{address(job.pk)}/errors",
            **{name.replace("-", "_"): f"{address(job.pk)}/{name}" for name, may in allowed.items() if may},
        },
    }


def _find(ref: str) -> Job:
    """A foreign job and an unknown one give the same 404."""
    try:
        return services.find(UUID(ref))
    except (ValueError, Job.DoesNotExist) as error:
        raise NotFound(f"There is no job {ref!r} here.") from error


def _accepted(job: Job) -> Response:
    return Response(
        job_state(job), status=202, headers={"Location": address(job.pk), "Retry-After": RETRY_AFTER}
    )


class JobListView(APIView):
    """The tenant's jobs, newest first; and a new one."""

    required_scope = {"GET": Scope.TOOLS_READ, "POST": Scope.JOBS_RUN}

    @docs.list_jobs
    def get(self, request: Request) -> Response:
        caller, asked = caller_of(request), request.query_params
        refuse_unknown(asked, {"kind", "state", "mine", *JobPages.PARAMETERS})
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
            pages = JobPages()
            rows: list[Job] = pages.paginate_queryset(found, request, view=self) or []
            return pages.get_paginated_response([job_state(job) for job in rows])

    @docs.start_job
    @idempotent
    def post(self, request: Request) -> Response:
        caller = caller_of(request)
        serializer = NewJobSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        kind, args = serializer.validated_data["kind"], serializer.validated_data["args"]
        with tenant_context(caller.tenant_id):
            try:
                if serializer.validated_data["dry_run"]:
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
                return _accepted(services.start(kind, args, by=actor_of(caller)))
            except JobError as error:
                raise as_problem(error) from error


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
        refuse_unknown(request.query_params, FailurePages.PARAMETERS)
        with tenant_context(caller_of(request).tenant_id):
            pages = FailurePages()
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

    def changed(self, request: Request, ref: str) -> Response:
        with tenant_context(caller_of(request).tenant_id):
            try:
                return _accepted(self.change(_find(ref).pk))
            except JobError as error:
                raise as_problem(error) from error


class JobCancelView(_JobChangeView):
    change = staticmethod(services.cancel)

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
