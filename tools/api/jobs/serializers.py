"""Jobs as the API takes and shows them."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.response import Response

from portal.jobs import kinds
from portal.jobs.kinds import Estimate, JobKind
from portal.jobs.models import Job, JobFailure, JobState
from portal.json_types import JsonObject
from tools.api.fields import (
    BlankAsNullField,
    CountField,
    LinksField,
    RawField,
    RowSerializer,
    StrictSerializer,
)
from tools.api.jobs.addresses import job_address
from tools.api.schema.json_schema import BOOLEAN, answer_schema, body_schema

RETRY_AFTER = "2"
KIND: JsonObject = {"type": "string", "enum": [kind.name for kind in kinds.all_kinds()]}


class JobSerializer(RowSerializer):
    """A job as callers see it, of a row with its `effective_state`."""

    kind = RawField(KIND)
    state = serializers.ChoiceField(JobState.choices, source="effective_state")
    total = CountField(source="progress.total", allow_null=True)
    done = CountField()
    failed = CountField()
    skipped = CountField()
    resumes = CountField(
        help_text="How often the job was resumed by itself after its worker stopped reporting, since a person started or resumed it."
    )
    rate = serializers.FloatField(
        source="progress.rate",
        min_value=0,
        allow_null=True,
        help_text="Items a second, since a runner took the job.",
    )
    eta_seconds = CountField(source="progress.eta_seconds", allow_null=True)
    error = BlankAsNullField(
        source="shown_error", help_text="Null for a key that may not see all that the job works on."
    )
    links = LinksField(
        "self",
        "errors",
        sometimes=("cancel", "resume", "retry_failed"),
        condition="Where the state allows it.",
    )

    class Meta:
        model = Job
        fields = (
            "id", "kind", "title", "state", "stage", "requested_by", "total", "done", "failed", "skipped", "resumes", "rate",
            "eta_seconds", "error", "created_at", "started_at", "finished_at", "links",
        )  # fmt: skip

    def get_links(self, job: Job) -> dict[str, str]:
        address = job_address(job.pk)
        allowed = {"cancel": job.can_cancel, "resume": job.can_resume, "retry-failed": job.can_retry}
        changes = {name.replace("-", "_"): f"{address}/{name}" for name, may in allowed.items() if may}
        return {"self": address, "errors": f"{address}/errors", **changes}


JOB = answer_schema(JobSerializer)


def accepted(job: Job) -> Response:
    """The answer to a request for long work."""
    headers = {"Location": job_address(job.pk), "Retry-After": RETRY_AFTER}
    return Response(JobSerializer(job).data, status=202, headers=headers)


class FailureSerializer(RowSerializer):
    """An item that failed in a job."""

    class Meta:
        model = JobFailure
        fields = ("item_id", "label", "error", "failed_at")


class EstimateSerializer(serializers.Serializer[Estimate]):
    """What a job would do."""

    kind = RawField(KIND)
    total = CountField(help_text="Items to look at.")
    to_do = CountField(help_text="Those that are known to need work.")
    rate = serializers.FloatField(min_value=0)
    rate_is_measured = serializers.BooleanField(source="measured")
    eta_seconds = CountField(source="seconds")


class NewJobSerializer(StrictSerializer):
    """What to start: a kind, and its arguments."""

    kind = serializers.CharField(max_length=40)
    args = serializers.DictField(default=dict)
    dry_run = serializers.BooleanField(default=False)


def _arguments(kind: JobKind) -> JsonObject:
    """The arguments of a kind, as its serializer declares them."""
    [schema] = body_schema(kind.arguments).values()
    return {"type": schema.pop("type"), "title": kind.name, **schema}


NEW_JOB: JsonObject = {
    "type": "object",
    "properties": {
        "kind": KIND,
        "args": {"anyOf": [_arguments(kind) for kind in kinds.all_kinds()]},
        "dry_run": {**BOOLEAN, "default": False, "description": "Only counts: 200, and nothing is started."},
    },
    "required": ["kind"],
    "additionalProperties": False,
}
