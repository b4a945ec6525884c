"""The kinds of job of the catalogue: embeddings that are wrong, and a refresh of chosen tools."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from embeddings import slots
from embeddings.backfill import job as backfill_job
from embeddings.backfill.job import AHEAD, BATCH_SIZE, Work
from embeddings.backfill.scan import EVERYTHING, Found
from portal.jobs.context import Context
from portal.jobs.errors import InvalidArguments
from portal.jobs.kinds import Arguments, JobKind
from tools.catalogue.embedding_text import ENTITY
from tools.models import Source, Tool, ToolEmbedding

BACKFILL, REFRESH = "backfill_embeddings", "refresh_embeddings"
MAX_IDS = 10_000
MAX_BATCH = 2000
USUAL_RATE = 40.0
"""Tools a second, of the small model on two processors; used until a job of the installation has been measured."""


class _Reader:
    """Takes the arguments of a job one by one, and collects what is wrong with them."""

    def __init__(self, given: Mapping[str, Any], known: Collection[str]) -> None:
        self.given = given
        sentence = f"There is no such argument. Known: {', '.join(sorted(known))}."
        self.errors: dict[str, list[str]] = {name: [sentence] for name in given if name not in known}

    def wrong(self, name: str, sentence: str) -> None:
        self.errors.setdefault(name, []).append(sentence)

    def number(self, name: str, *, low: float, high: float, whole: bool = True) -> Any:
        """The number; None where there is none."""
        value = self.given.get(name)
        if value is None:
            return None
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            self.wrong(name, f"A {'whole ' if whole else ''}number from {low:,} to {high:,}, please.")
            return None
        return value

    def pace(self) -> Arguments:
        """How fast to go, which every kind may be told."""
        ahead = self.number("ahead", low=0, high=1_000_000)
        return {
            "rate": self.number("rate", low=0.1, high=10_000, whole=False),
            "batch_size": self.number("batch_size", low=1, high=MAX_BATCH) or BATCH_SIZE,
            "ahead": AHEAD if ahead is None else ahead,
        }

    def done(self, args: Arguments) -> Arguments:
        if self.errors:
            raise InvalidArguments(self.errors)
        return args


PACE = ("rate", "batch_size", "ahead")


# --- Backfill ---------------------------------------------------------------------------------------------------------
def _parse_backfill(given: Mapping[str, Any]) -> Arguments:
    reader = _Reader(given, {"statuses", "source", "limit", *PACE})
    statuses = given.get("statuses") or ["all"]
    known = [*Found.values, "all"]
    if not isinstance(statuses, list) or any(one not in known for one in statuses):
        reader.wrong("statuses", f"A list of these, please: {', '.join(known)}.")
        statuses = []
    slug = given.get("source") or ""
    source = (
        Source.objects.filter(slug=slug).first()
        if isinstance(slug, str) and slug and "\0" not in slug
        else None
    )
    if slug and source is None:
        reader.wrong("source", "There is no such source.")
    return reader.done(
        {
            "statuses": ["all"] if "all" in statuses else sorted(set(statuses)),
            "source": slug,
            "source_id": str(source.pk) if source else None,
            "limit": reader.number("limit", low=1, high=10_000_000),
            **reader.pace(),
        }
    )


def _found(args: Arguments) -> frozenset[str]:
    return EVERYTHING if "all" in args["statuses"] else frozenset(args["statuses"])


def _backfill_title(args: Arguments) -> str:
    what = "all embeddings" if "all" in args["statuses"] else f"{' and '.join(args['statuses'])} embeddings"
    return f"Backfill of {what}{' of ' + args['source'] if args['source'] else ''}"


def _in_scope(args: Arguments) -> QuerySet[Tool]:
    tools: QuerySet[Tool] = Tool.objects.filter(active=True)
    return tools.filter(source_id=args["source_id"]) if args["source_id"] else tools


def _count_backfill(args: Arguments) -> tuple[int, int]:
    """Tools to look at, and those whose row already says that they need work; a text that no row knows is only found by
    the scan."""
    slot = slots.all()[0]
    tools = _in_scope(args)
    rows = ToolEmbedding.objects.filter(slot=slot.number, entity__in=tools)
    is_right = Q(status="ready", model=slot.model, active=True) | Q(status="pending", active=True)
    outdated = ~Q(status__in=EVERYTHING)
    counted = rows.aggregate(
        rows=Count("pk"),
        failed=Count("pk", filter=Q(status="failed")),
        disabled=Count("pk", filter=Q(status="disabled")),
        blank=Count("pk", filter=Q(status="blank")),
        outdated=Count("pk", filter=outdated),
        wrong=Count("pk", filter=outdated & ~is_right),
    )
    missing = tools.count() - counted["rows"]
    to_look_at = {
        Found.FAILED: counted["failed"],
        Found.DISABLED: counted["disabled"],
        Found.BLANK: counted["blank"] + missing,
        Found.OUTDATED: counted["outdated"],
    }
    to_do = {**to_look_at, Found.BLANK: missing, Found.OUTDATED: counted["wrong"]}
    found, limit = _found(args), args["limit"]
    total = sum(count for name, count in to_look_at.items() if name in found)
    todo = sum(count for name, count in to_do.items() if name in found)
    return total, todo if limit is None else min(limit, todo)


def _run_backfill(context: Context) -> bool:
    args = context.args

    def ids(after: UUID | None, limit: int) -> list[UUID]:
        tools = _in_scope(args).order_by("pk")
        return list((tools.filter(pk__gt=after) if after else tools).values_list("pk", flat=True)[:limit])

    work = Work(ENTITY, ids, labels, found=_found(args), limit=args["limit"], **_pace(args))
    return backfill_job.run(context, work)


# --- Refresh ----------------------------------------------------------------------------------------------------------
def _parse_refresh(given: Mapping[str, Any]) -> Arguments:
    reader = _Reader(given, {"ids", *PACE})
    ids: list[str] = []
    given_ids = given.get("ids")
    if not isinstance(given_ids, list) or not 1 <= len(given_ids) <= MAX_IDS:
        reader.wrong("ids", f"A list of 1 to {MAX_IDS:,} ids of tools, please.")
    else:
        try:
            ids = sorted({str(UUID(str(one))) for one in given_ids})
        except ValueError:
            reader.wrong("ids", "One of these is no UUID.")
    return reader.done({"ids": ids, **reader.pace()})


def _chosen(args: Arguments) -> QuerySet[Tool]:
    tools: QuerySet[Tool] = Tool.objects.filter(active=True, pk__in=args["ids"])
    return tools


def _count_refresh(args: Arguments) -> tuple[int, int]:
    return len(args["ids"]), _chosen(args).count()


def _run_refresh(context: Context) -> bool:
    args = context.args
    chosen = [UUID(one) for one in args["ids"]]

    def ids(after: UUID | None, limit: int) -> list[UUID]:
        start = bisect_right(chosen, after) if after else 0
        return chosen[start : start + limit]

    return backfill_job.run(context, Work(ENTITY, ids, labels, refresh=True, **_pace(args)))


def _refresh_key(args: Arguments) -> str:
    """The same choice twice is one click too many."""
    return hashlib.sha256(" ".join(args["ids"]).encode()).hexdigest()


# --- Both -------------------------------------------------------------------------------------------------------------
def _pace(args: Arguments) -> dict[str, Any]:
    return {"rate": args["rate"], "batch_size": args["batch_size"], "ahead": args["ahead"] or None}


def labels(ids: Collection[UUID]) -> dict[UUID, str]:
    """The names of tools, for people."""
    return dict(Tool.objects.filter(pk__in=list(ids)).values_list("pk", "name"))


KINDS = (
    JobKind(
        name=BACKFILL,
        label="Backfill of embeddings",
        queues=("jobs", "embeddings"),
        parse=_parse_backfill,
        title=_backfill_title,
        # Two scans at a time would only be in each other's way.
        concurrency_key=lambda _: "scan",
        count=_count_backfill,
        run=_run_backfill,
        usual_rate=USUAL_RATE,
    ),
    JobKind(
        name=REFRESH,
        label="Refresh of embeddings",
        queues=("jobs", "embeddings"),
        parse=_parse_refresh,
        title=lambda args: f"Refresh of {len(args['ids']):,} tool{'s' if len(args['ids']) != 1 else ''}",
        concurrency_key=_refresh_key,
        count=_count_refresh,
        run=_run_refresh,
        usual_rate=USUAL_RATE,
    ),
)
