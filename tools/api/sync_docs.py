"""What the OpenAPI document says of the operations on syncs. Decorators of the views in syncs.py."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from tools.api.docs import (
    BOOLEAN,
    COUNT,
    ID,
    TEXT,
    TEXTS,
    TIME,
    Json,
    described,
    or_null,
    page,
    page_parameters,
    query,
)
from tools.api.job_docs import JOB, LOCATION, RETRY
from tools.api.source_docs import COUNTS, LINK, REPORT
from tools.api.source_serializers import MAX_CHANGES
from tools.models import Action, SyncState

_LINKS = described(self=LINK, changes=LINK)
_LINKS["properties"] |= {
    name: {**LINK, "description": "Where there is one, or the state allows it."}
    for name in ("apply", "discard", "document", "job")
}
_NOTHING: Json = {"type": "object", "maxProperties": 0}  # of one that failed


def _sync(**found: Json) -> Json:
    return described(
        id=ID, state={"type": "string", "enum": SyncState.values}, **found, error=or_null(TEXT), created_at=TIME,
        created_by=TEXT, ended_at=or_null(TIME), ended_by=or_null(TEXT), links=_LINKS,
    )  # fmt: skip


_SYNC = _sync(summary={"anyOf": [REPORT, _NOTHING]})
_COUNTED_SYNC = _sync(
    counts={"anyOf": [described(**dict.fromkeys((*COUNTS, "left_out", "warnings"), COUNT)), _NOTHING]}
)
_ACTION: Json = {"type": "string", "enum": Action.values}
_CHANGE = described(
    id=ID, action=_ACTION, key={**TEXT, "description": "Of the endpoint."},
    old_key={**or_null(TEXT), "description": "Of a move."}, name=TEXT,
    tool={**or_null(ID), "description": "The tool that is there already."},
    fields={
        "type": "array",
        "items": described(field=TEXT, before={}, after={}, override={**TEXT, "description": "`conflict`: an operator's text stays."}),
    },
    kept={**TEXTS, "description": "Overrides that nothing has changed under."}, conflict=BOOLEAN, applied=BOOLEAN,
)  # fmt: skip
_CONFIRM: Json = {
    **BOOLEAN, "default": False, "description": "More than a fifth of the source's endpoints may vanish.",
}  # fmt: skip
_IDS: Json = {"type": "array", "items": ID, "maxItems": MAX_CHANGES}

sync_source = extend_schema(
    operation_id="sync_source",
    summary="Reads the source anew, as a job that ends with a plan",
    request={
        "application/json": {
            "type": "object",
            "properties": {
                "apply": {**BOOLEAN, "default": False, "description": "Applies the plan, too."},
                "confirm_removals": _CONFIRM,
            },
            "additionalProperties": False,
        }
    },
    parameters=[LOCATION, RETRY],
    responses={202: JOB},
)
list_syncs = extend_schema(
    operation_id="list_syncs",
    summary="The syncs of a source, newest first",
    description="With the counts of each summary; the whole of it stands in the sync itself.",
    parameters=page_parameters(),
    responses={200: page(_COUNTED_SYNC)},
)
get_sync = extend_schema(
    operation_id="get_sync",
    summary="One sync with its summary",
    description="Of a plan, the summary says what would happen.",
    responses={200: _SYNC},
)
list_changes = extend_schema(
    operation_id="list_changes",
    summary="What a sync changes, endpoint by endpoint",
    description="Needs a key that may see tools of every sensitivity. What stays as it is has no entry.",
    parameters=[query("action", _ACTION), query("conflict", BOOLEAN), *page_parameters()],
    responses={200: page(_CHANGE)},
)
apply_sync = extend_schema(
    operation_id="apply_sync",
    summary="Applies a plan, or a choice of it, as a job",
    description="All changes, or those that `accept` lists; without those that `reject` lists. In one transaction.",
    request={
        "application/json": {
            "type": "object",
            "properties": {"accept": or_null(_IDS), "reject": _IDS, "confirm_removals": _CONFIRM},
            "additionalProperties": False,
        }
    },
    parameters=[LOCATION, RETRY],
    responses={202: JOB},
    examples=[OpenApiExample("All of it", {"accept": None}, request_only=True)],
)
discard_sync = extend_schema(
    operation_id="discard_sync",
    summary="Throws a plan away",
    description="A new source that has nothing else goes with it.",
    request=None,
    responses={
        200: described(id=ID, state={"type": "string", "enum": [SyncState.DISCARDED]}, source_deleted=BOOLEAN)
    },
)
