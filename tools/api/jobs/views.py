"""The REST endpoints of jobs: start one, look at it, cancel, resume and retry it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.authentication import require_scope
from portal.http.idempotency import idempotent
from portal.jobs import services
from portal.jobs.models import Job, JobFailure, JobState
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

Handler = TypeVar("Handler", bound=Callable[..., Any])


def _find(ref: str) -> Job:
    return find_row(services.jobs(), "job", ref)


class _JobView(TenantView):
    def require_scope_of(self, kind: str) -> None:
        """A sync writes what a source says, so it needs the scope of sources, whichever way it is started."""
        if kind in (SYNC, APPLY):
            require_scope(self.caller, Scope.SOURCES_WRITE)


class JobListView(_JobView, TenantListView):
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
        self.require_scope_of(kind)
        if given["dry_run"]:
            return Response({"kind": kind, **EstimateSerializer(services.estimate(kind, args)).data})
        return accepted(services.start(kind, args, by=self.rights.actor))


class JobView(TenantView):
    """One job as it is now."""

    required_scope = Scope.TOOLS_READ

    @docs.operation(
        "get_job",
        "How a job stands",
        "`lost` is a job whose runner has said nothing for a minute; it can be resumed. `partial` ended with failures.",
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


class _JobChangeView(_JobView):
    """One of the things that can be done with a job."""

    required_scope = Scope.JOBS_RUN
    change: ClassVar[staticmethod[[UUID], Job]]
    goes_on: ClassVar[bool] = True

    def changed(self, ref: str) -> Response:
        job = _find(ref)
        if self.goes_on:
            self.require_scope_of(job.kind)
        return accepted(self.change(job.pk))


def _change(name: str, summary: str) -> Callable[[Handler], Handler]:
    return docs.operation(name, summary, parameters=docs.JOB_HEADERS, answers={202: JOB})


class JobCancelView(_JobChangeView):
    change = staticmethod(services.cancel)
    goes_on = False

    @_change("cancel_job", "Lets the batch in hand be the last one")
    @idempotent
    def post(self, request: Request, ref: str) -> Response:
        return self.changed(ref)


class JobResumeView(_JobChangeView):
    change = staticmethod(services.resume)

    @_change("resume_job", "Goes on where a cancelled, lost or failed job stopped")
    @idempotent
    def post(self, request: Request, ref: str) -> Response:
        return self.changed(ref)


class JobRetryView(_JobChangeView):
    change = staticmethod(services.retry_failed)

    @_change("retry_failed_job", "Takes up what failed in a job that went through")
    @idempotent
    def post(self, request: Request, ref: str) -> Response:
        return self.changed(ref)
