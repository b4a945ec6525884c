"""The REST endpoints of jobs: start one, look at it, cancel, resume and retry it."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.authentication import require_scope
from portal.http.idempotency import idempotent
from portal.jobs import services
from portal.jobs.models import Job, JobFailure, JobState
from portal.tenancy.keys import Caller
from portal.tenancy.models import Scope
from tools.api.base import TenantListView, TenantView, find_row
from tools.api.jobs.serializers import (
    JOB,
    KIND,
    NEW_JOB,
    RETRY_AFTER,
    EstimateSerializer,
    FailureSerializer,
    JobSerializer,
    NewJobSerializer,
    accepted,
)
from tools.api.schema import operations as docs
from tools.api.schema.json_schema import BOOLEAN, answer_schema
from tools.catalogue.embedding_jobs import BACKFILL
from tools.imports.syncing.jobs import APPLY, SYNC


def _find(ref: str) -> Job:
    return find_row(services.jobs(), "job", ref)


def _require_scope_of(kind: str, caller: Caller) -> None:
    """A sync writes what a source says, so it needs the scope of sources, whichever way it is started."""
    if kind in (SYNC, APPLY):
        require_scope(caller, Scope.SOURCES_WRITE)


class JobListView(TenantListView):
    """The tenant's jobs, newest first; and a new one."""

    required_scope = {"GET": Scope.TOOLS_READ, "POST": Scope.JOBS_RUN}
    list_operation = ("list_jobs", "Long work, the newest first")
    query_parameters = (
        docs.query("kind", KIND),
        docs.query("state", {"type": "string", "enum": JobState.values}),
        docs.query("mine", BOOLEAN, "Only what this key has started."),
    )
    serializer_class = JobSerializer
    ordering = ("-created_at", "-pk")

    def get_queryset(self) -> QuerySet[Job]:
        asked = self.request.query_params
        return services.jobs(
            kind=asked.get("kind", ""),
            state=asked.get("state", ""),
            by=self.rights.actor if asked.get("mine") == "true" else "",
        )

    @docs.operation(
        "start_job",
        "Starts long work, or counts what it would do",
        "With `dry_run` nothing is started. A second job of the same scope is refused while the first is not over "
        "(409 `already_running`, with its address as `Location`). Syncs need the scope sources:write, too.",
        body={"application/json": NEW_JOB},
        parameters=docs.JOB_HEADERS,
        answers={200: answer_schema(EstimateSerializer), 202: JOB},
        examples={
            "Embed what failed": {"kind": BACKFILL, "args": {"statuses": ["failed"]}, "dry_run": True},
        },
    )
    @idempotent
    def post(self, request: Request) -> Response:
        given = NewJobSerializer.parsed(request.data)
        kind, args = given["kind"], given["args"]
        _require_scope_of(kind, self.caller)
        if given["dry_run"]:
            return Response({"kind": kind, **EstimateSerializer(services.estimate(kind, args)).data})
        return accepted(services.start(kind, args, by=self.rights.actor))


class JobView(TenantView):
    """One job as it is now."""

    required_scope = Scope.TOOLS_READ

    @docs.operation(
        "get_job",
        "How a job stands",
        "A job whose runner dies is resumed by itself, three times; then it is `lost`, and waits for `resume`. `partial` ended with "
        "failures.",
        parameters=[
            docs.header("Retry-After", "Seconds after which to look again, while it is not over.", 200)
        ],
        answers={200: JOB},
    )
    def get(self, request: Request, ref: str) -> Response:
        job = _find(ref)
        headers = {"Retry-After": RETRY_AFTER} if job.is_active else None
        return Response(JobSerializer(job).data, headers=headers)


class JobErrorsView(TenantListView):
    """The items that failed, and why."""

    required_scope = Scope.TOOLS_READ
    list_operation = ("list_job_errors", "The items that failed in a job, and why")
    serializer_class = FailureSerializer
    ordering = ("item_id", "pk")

    def get_queryset(self) -> QuerySet[JobFailure]:
        return services.failures(_find(self.kwargs["ref"]).pk)


def _change_view(
    change: Callable[[UUID], Job], operation_id: str, summary: str, *, goes_on: bool = True
) -> type[TenantView]:
    """Makes the view of a change that a service makes to a job; after it the job `goes_on`, or not."""

    class JobChangeView(TenantView):
        """One of the things that can be done with a job."""

        required_scope = Scope.JOBS_RUN

        @docs.operation(operation_id, summary, parameters=docs.JOB_HEADERS, answers={202: JOB})
        @idempotent
        def post(self, request: Request, ref: str) -> Response:
            job = _find(ref)
            if goes_on:
                _require_scope_of(job.kind, self.caller)
            return accepted(change(job.pk))

    return JobChangeView


JobCancelView = _change_view(
    services.cancel, "cancel_job", "Lets the batch in hand be the last one", goes_on=False
)
JobResumeView = _change_view(
    services.resume, "resume_job", "Goes on where a cancelled, lost or failed job stopped"
)
JobRetryView = _change_view(
    services.retry_failed, "retry_failed_job", "Takes up what failed in a job that went through"
)
