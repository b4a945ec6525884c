"""The kinds of job that every embedded entity type can have: a backfill of wrong embeddings, and a refresh of chosen entities."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from rest_framework import serializers

from embeddings import slots
from embeddings.backfill.job import BATCH_SIZE, MAX_WAITING, Backfill, run_backfill
from embeddings.backfill.scan import ALL_STATUSES, BackfillStatus
from embeddings.registry import EmbeddedEntity
from portal.jobs.arguments import Arguments, Fields, Id, JobArguments, Number, WholeNumber
from portal.jobs.context import Context
from portal.jobs.kinds import JobKind

MAX_IDS = 10_000
MAX_BATCH_SIZE = 2000
ALL = "all"
STATUSES = [*BackfillStatus.values, ALL]
_WRONG_STATUSES = f"A list of these, please: {', '.join(STATUSES)}."
_WRONG_IDS = f"A list of 1 to {MAX_IDS:,} ids, please."
QUEUES = ("jobs", "embeddings")
USUAL_RATE = 40.0
"""Entities a second, of the small model on two processors; used until a job of the installation has been measured."""

Select = Callable[[Arguments], QuerySet[Any]]


def _pace_fields() -> Fields:
    return {
        "rate": Number(
            low=settings.JOB_MIN_RATE, high=10_000, allow_null=True, help_text="Items a second at most."
        ),
        "batch_size": WholeNumber(low=1, high=MAX_BATCH_SIZE, default=BATCH_SIZE),
        "ahead": WholeNumber(
            low=0, high=1_000_000, help_text="So many items wait for a worker at a time; 0 for all at once."
        ),
    }


def _pace(data: Arguments) -> Arguments:
    """The final form of the pace's arguments."""
    return {
        "rate": data.get("rate"),
        "batch_size": data["batch_size"],
        "ahead": data.get("ahead", MAX_WAITING),
    }


def _backfill(entity: EmbeddedEntity, args: Arguments, **options: Any) -> Backfill:
    pace = {"rate": args["rate"], "batch_size": args["batch_size"], "max_waiting": args["ahead"] or None}
    return Backfill(entity, **options, **pace)


class BackfillArguments(JobArguments):
    """Which embeddings a backfill looks at. A subclass may add fields that narrow it further."""

    statuses = serializers.ListField(
        child=serializers.ChoiceField(choices=STATUSES, error_messages={"invalid_choice": _WRONG_STATUSES}),
        default=[ALL],
        error_messages={"not_a_list": _WRONG_STATUSES},
    )

    def get_fields(self) -> Fields:
        limit = WholeNumber(low=1, high=10_000_000, allow_null=True)
        return {**super().get_fields(), "limit": limit, **_pace_fields()}

    def validate(self, data: Arguments) -> Arguments:
        statuses = data["statuses"] or [ALL]
        return {
            "statuses": [ALL] if ALL in statuses else sorted(set(statuses)),
            "limit": data.get("limit"),
            **_pace(data),
        }


class RefreshArguments(JobArguments):
    """The entities that get new vectors."""

    ids = serializers.ListField(
        child=Id(),
        min_length=1,
        max_length=MAX_IDS,
        error_messages=dict.fromkeys(("not_a_list", "min_length", "max_length", "required"), _WRONG_IDS),
    )

    def get_fields(self) -> Fields:
        return {**super().get_fields(), **_pace_fields()}

    def validate(self, data: Arguments) -> Arguments:
        return {"ids": sorted({str(one) for one in data["ids"]}), **_pace(data)}


def backfill_kind(
    entity: EmbeddedEntity,
    *,
    name: str,
    arguments: type[BackfillArguments] = BackfillArguments,
    select: Select | None = None,
    of: Callable[[Arguments], str] = lambda _: "",
    seen_jobs: Callable[[], Q] | None = None,
) -> JobKind:
    """The kind of job that embeds what is wrong. `select(args)` narrows it to some of the active entities, which `of(args)`
    names in the title; `seen_jobs` is as in JobKind."""
    chosen: Select = select or (lambda _: entity.active())

    def statuses(args: Arguments) -> frozenset[str]:
        return ALL_STATUSES if ALL in args["statuses"] else frozenset(args["statuses"])

    def title(args: Arguments) -> str:
        which = "all" if ALL in args["statuses"] else " and ".join(args["statuses"])
        return f"Backfill of {which} embeddings{f' of {of(args)}' if of(args) else ''}"

    def run(context: Context) -> bool:
        args = context.args

        def ids(after: UUID | None, limit: int) -> list[UUID]:
            rows = chosen(args).order_by("pk")
            return list((rows.filter(pk__gt=after) if after else rows).values_list("pk", flat=True)[:limit])

        options = {"ids": ids, "statuses": statuses(args), "limit": args["limit"]}
        return run_backfill(context, _backfill(entity, args, **options))

    return JobKind(
        name=name,
        label="Backfill of embeddings",
        queues=QUEUES,
        arguments=arguments,
        title=title,
        # Two scans at a time would only wait for each other's locks.
        concurrency_key=lambda _: "scan",
        count=lambda args: count_backfill(entity, chosen(args), statuses(args), args["limit"]),
        run=run,
        usual_rate=USUAL_RATE,
        seen_items=entity.visible,
        seen_jobs=seen_jobs,
    )


def count_backfill(
    entity: EmbeddedEntity, chosen: QuerySet[Any], statuses: frozenset[str], limit: int | None
) -> tuple[int, int]:
    """How many entities a backfill looks at, and how many of them are known to need work by their row; only the scan finds a
    text that no row has the hash of."""
    rows = slots.serving_rows(entity.model.objects.filter(Q(entity__in=chosen)))
    model = slots.serving().model
    is_right = Q(status="ready", model=model, active=True) | Q(status="pending", active=True)
    outdated = ~Q(status__in=ALL_STATUSES)
    counted = rows.aggregate(
        rows=Count("pk"),
        failed=Count("pk", filter=Q(status="failed")),
        disabled=Count("pk", filter=Q(status="disabled")),
        blank=Count("pk", filter=Q(status="blank")),
        outdated=Count("pk", filter=outdated),
        wrong=Count("pk", filter=outdated & ~is_right),
    )
    missing = chosen.count() - counted["rows"]
    to_look_at = {
        BackfillStatus.FAILED: counted["failed"],
        BackfillStatus.DISABLED: counted["disabled"],
        BackfillStatus.BLANK: counted["blank"] + missing,
        BackfillStatus.OUTDATED: counted["outdated"],
    }
    to_do = {**to_look_at, BackfillStatus.BLANK: missing, BackfillStatus.OUTDATED: counted["wrong"]}
    if settings.EMBEDDING_PROVIDER == "disabled":  # then it is what it should be
        to_do[BackfillStatus.DISABLED] = 0
    total = sum(count for status, count in to_look_at.items() if status in statuses)
    todo = sum(count for status, count in to_do.items() if status in statuses)
    return total, todo if limit is None else min(limit, todo)


def refresh_kind(entity: EmbeddedEntity, *, name: str) -> JobKind:
    """The kind of job that gives chosen entities new vectors; the old ones serve meanwhile."""

    def run(context: Context) -> bool:
        chosen = [UUID(one) for one in context.args["ids"]]

        def ids(after: UUID | None, limit: int) -> list[UUID]:
            start = bisect_right(chosen, after) if after else 0
            return chosen[start : start + limit]

        return run_backfill(context, _backfill(entity, context.args, ids=ids, refresh=True))

    return JobKind(
        name=name,
        label="Refresh of embeddings",
        queues=QUEUES,
        arguments=RefreshArguments,
        title=lambda args: (
            f"Refresh of {len(args['ids']):,} {entity.type}{'s' if len(args['ids']) != 1 else ''}"
        ),
        # The same choice twice is one click too many.
        concurrency_key=lambda args: hashlib.sha256(" ".join(args["ids"]).encode()).hexdigest(),
        count=lambda args: (len(args["ids"]), entity.active().filter(pk__in=args["ids"]).count()),
        run=run,
        usual_rate=USUAL_RATE,
        seen_items=entity.visible,
    )
