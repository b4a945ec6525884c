"""What the OpenAPI document says of the operations on jobs. Decorators of the views in jobs.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiExample, extend_schema

from portal.jobs import kinds
from portal.jobs.kinds import JobKind
from portal.jobs.models import JobState
from tools.api.docs import (
    BOOLEAN,
    COUNT,
    ID,
    TEXT,
    TIME,
    Json,
    described,
    header,
    or_null,
    page,
    page_parameters,
    query,
)
from tools.catalogue.embedding_jobs import BACKFILL

Handler = TypeVar("Handler", bound=Callable[..., Any])

_NUMBER: Json = {"type": "number", "minimum": 0}
_KIND: Json = {"type": "string", "enum": [kind.name for kind in kinds.all_kinds()]}
_LINK: Json = {"type": "string", "format": "uri-reference"}
_LINKS = described(self=_LINK, errors=_LINK)
_LINKS["properties"] |= {
    name: {**_LINK, "description": "Where the state allows it."}
    for name in ("cancel", "resume", "retry_failed")
}
JOB = described(
    id=ID, kind=_KIND, title=TEXT, state={"type": "string", "enum": JobState.values},
    stage=TEXT, requested_by=TEXT, total=or_null(COUNT), done=COUNT, failed=COUNT, skipped=COUNT,
    rate={**or_null(_NUMBER), "description": "Items a second, since a runner took the job."},
    eta_seconds=or_null(COUNT), error=or_null(TEXT), created_at=TIME, started_at=or_null(TIME),
    finished_at=or_null(TIME), links=_LINKS,
)  # fmt: skip
_ESTIMATE = described(
    kind=_KIND, total={**COUNT, "description": "Items to look at."},
    to_do={**COUNT, "description": "Those that are known to need work."},
    rate=_NUMBER, rate_is_measured=BOOLEAN, eta_seconds=COUNT,
)  # fmt: skip
_FAILURE = described(item_id=ID, label=TEXT, error=TEXT, failed_at=TIME)


def _arguments(kind: JobKind) -> Json:
    """The arguments of a kind, as its serializer declares them."""
    schema = kind.arguments.json_schema()
    return {"type": schema.pop("type"), "title": kind.name, **schema}


_NEW: Json = {
    "type": "object",
    "properties": {
        "kind": _KIND,
        "args": {"anyOf": [_arguments(kind) for kind in kinds.all_kinds()]},
        "dry_run": {**BOOLEAN, "default": False, "description": "Only counts: 200, and nothing is started."},
    },
    "required": ["kind"],
    "additionalProperties": False,
}
LOCATION = header("Location", "The job.", 202)
RETRY = header("Retry-After", "Seconds after which to look again.", 202)

list_jobs = extend_schema(
    operation_id="list_jobs",
    summary="Long work, the newest first",
    parameters=[
        query("kind", _KIND),
        query("state", {"type": "string", "enum": JobState.values}),
        query("mine", BOOLEAN, "Only what this key has started."),
        *page_parameters(),
    ],
    responses={200: page(JOB)},
)
start_job = extend_schema(
    operation_id="start_job",
    summary="Starts long work, or counts what it would do",
    description="With `dry_run` nothing is started. A second job of the same scope is refused while the first is not over "
    "(409 `already_running`, with its address as `Location`). Syncs need the scope sources:write, too.",
    request={"application/json": _NEW},
    parameters=[LOCATION, RETRY],
    responses={200: _ESTIMATE, 202: JOB},
    examples=[
        OpenApiExample(
            "Embed what failed",
            {"kind": BACKFILL, "args": {"statuses": ["failed"]}, "dry_run": True},
            request_only=True,
        )
    ],
)
get_job = extend_schema(
    operation_id="get_job",
    summary="How a job stands",
    description="`lost` is a job whose runner has said nothing for a minute; it can be resumed. `partial` ended with failures.",
    parameters=[header("Retry-After", "Seconds after which to look again, while it is not over.", 200)],
    responses={200: JOB},
)
list_job_errors = extend_schema(
    operation_id="list_job_errors",
    summary="The items that failed in a job, and why",
    parameters=page_parameters(),
    responses={200: page(_FAILURE)},
)


def _change(name: str, summary: str) -> Callable[[Handler], Handler]:
    return extend_schema(
        operation_id=name,
        summary=summary,
        request=None,
        parameters=[LOCATION, RETRY],
        responses={202: JOB},
    )


cancel_job = _change("cancel_job", "Lets the batch in hand be the last one")
resume_job = _change("resume_job", "Goes on where a cancelled, lost or failed job stopped")
retry_failed_job = _change("retry_failed_job", "Takes up what failed in a job that went through")
