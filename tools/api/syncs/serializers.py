"""Syncs and their changes as the API takes and shows them."""

from __future__ import annotations

from typing import Any

from django.db.models import F, Func, IntegerField
from rest_framework import serializers

from portal.json_types import JsonObject
from tools.api.fields import (
    BlankAsNullField,
    ComputedField,
    LinksField,
    RawField,
    RowSerializer,
    StrictSerializer,
)
from tools.api.jobs.addresses import job_address
from tools.api.schema.json_schema import BOOLEAN, COUNT, ID, described
from tools.api.sources.serializers import COUNTS, REPORT
from tools.models import Sync, SyncChange, SyncState

MAX_CHANGES = 40_000
"""Of one plan: as many endpoints as one document may bring and another take away."""
_NOTHING: JsonObject = {"type": "object", "maxProperties": 0}  # of one that failed
_COUNTED_NAMES = (*COUNTS, "left_out", "warnings")
# Annotations of a query. Each summary may list as many operations as a document has.
COUNTED = {f"counted_{name}": F(f"summary__{name}") for name in COUNTS} | {
    f"counted_{name}": Func(F(f"summary__{name}"), function="jsonb_array_length", output_field=IntegerField())
    for name in ("left_out", "warnings")
}


class SyncSerializer(RowSerializer):
    """A sync with its summary, and what can be done with it."""

    summary = RawField({"anyOf": [REPORT, _NOTHING]})
    error = BlankAsNullField()
    ended_by = BlankAsNullField()
    links = LinksField(
        "self",
        "changes",
        sometimes=("apply", "discard", "document", "job"),
        condition="Where there is one, or the state allows it.",
    )

    class Meta:
        model = Sync
        fields: tuple[str, ...] = (
            "id", "state", "summary", "error", "created_at", "created_by", "ended_at", "ended_by", "links",
        )  # fmt: skip

    def get_links(self, sync: Sync) -> dict[str, str]:
        source = f"/api/v1/sources/{self.context['view'].kwargs['slug']}"
        address = f"{source}/syncs/{sync.pk}"
        links = {"self": address, "changes": f"{address}/changes"}
        if sync.state == SyncState.PLANNED:
            links |= {"apply": f"{address}/apply", "discard": f"{address}/discard"}
        if sync.document_id:
            links["document"] = f"{source}/documents/{sync.document_id}"
        if sync.job_id:
            links["job"] = job_address(sync.job_id)
        return links


class CountedSyncSerializer(SyncSerializer):
    """A sync of a list, with its summary in numbers (`COUNTED`), which are empty of one that failed."""

    counts = ComputedField({"anyOf": [described(**dict.fromkeys(_COUNTED_NAMES, COUNT)), _NOTHING]})

    class Meta(SyncSerializer.Meta):
        fields = tuple("counts" if name == "summary" else name for name in SyncSerializer.Meta.fields)

    def get_counts(self, sync: Sync) -> dict[str, int]:
        counts = {name: getattr(sync, f"counted_{name}") for name in _COUNTED_NAMES}
        failed = counts["operations"] is None
        return {} if failed else {name: count or 0 for name, count in counts.items()}


class _FieldChangeSerializer(serializers.Serializer[Any]):
    field = serializers.CharField()
    before = serializers.JSONField()
    after = serializers.JSONField()
    override = serializers.CharField(help_text="`conflict`: an operator's text stays.")


class ChangeSerializer(RowSerializer):
    """What a sync changes of one endpoint."""

    key = serializers.CharField(help_text="Of the endpoint.")
    old_key = BlankAsNullField(help_text="Of a move.")
    tool = serializers.UUIDField(
        source="tool_uuid", allow_null=True, help_text="The tool that is there already."
    )
    fields: Any = _FieldChangeSerializer(many=True)
    kept = serializers.ListField(
        child=serializers.CharField(), help_text="Overrides that nothing has changed under."
    )

    class Meta:
        model = SyncChange
        fields = (
            "id", "action", "key", "old_key", "name", "tool", "fields", "kept", "conflict", "applied",
        )  # fmt: skip


class SyncOptionsSerializer(StrictSerializer):
    """How to sync."""

    apply = serializers.BooleanField(default=False, help_text="Applies the plan, too.")
    confirm_removals = serializers.BooleanField(
        default=False, help_text="More than a fifth of the source's endpoints may vanish."
    )


class ApplySerializer(StrictSerializer):
    """Which changes of a plan to apply: all, or those of `accept`; without those of `reject`."""

    accept = serializers.ListField(
        child=serializers.UUIDField(), max_length=MAX_CHANGES, default=None, allow_null=True
    )
    reject = serializers.ListField(child=serializers.UUIDField(), max_length=MAX_CHANGES, default=list)
    confirm_removals = serializers.BooleanField(
        default=False, help_text="More than a fifth of the source's endpoints may vanish."
    )


DISCARDED = described(id=ID, state={"type": "string", "enum": [SyncState.DISCARDED]}, source_deleted=BOOLEAN)
