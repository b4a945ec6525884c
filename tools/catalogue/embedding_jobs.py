"""The kinds of job of tools' embeddings: the backfill, which may be limited to one source, and the refresh."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from rest_framework import serializers

from embeddings.backfill.kinds import BackfillArguments, backfill_kind, refresh_kind
from portal.jobs.arguments import Arguments, Fields
from tools.catalogue.embedding_text import ENTITY
from tools.catalogue.visibility import jobs_of_seen_sources, seen
from tools.models import Source, Tool

BACKFILL, REFRESH = "backfill_embeddings", "refresh_embeddings"


class ToolBackfillArguments(BackfillArguments):
    """Which tools' embeddings a backfill looks at."""

    def get_fields(self) -> Fields:
        fields = super().get_fields()
        source = serializers.CharField(
            required=False,
            allow_blank=True,
            trim_whitespace=False,
            help_text="The slug of a source, whose tools alone are looked at.",
        )
        return {"statuses": fields.pop("statuses"), "source": source, **fields}

    def validate(self, data: Arguments) -> Arguments:
        slug = data.get("source", "")
        source = seen(Source.objects.filter(slug=slug)).first() if slug else None
        if slug and source is None:
            raise serializers.ValidationError({"source": ["There is no such source."]})
        return {
            **super().validate(data),
            "source": slug,
            "source_id": str(source.pk) if source else None,
        }


def _select(args: Arguments) -> QuerySet[Tool]:
    of_source = Q(source_id=args["source_id"]) if args["source_id"] else Q()
    return Tool.objects.seen().active().filter(of_source)


KINDS = (
    backfill_kind(
        ENTITY,
        name=BACKFILL,
        arguments=ToolBackfillArguments,
        select=_select,
        of=lambda args: args["source"],
        seen_jobs=jobs_of_seen_sources,
    ),
    refresh_kind(ENTITY, name=REFRESH),
)
