"""What the log says of the searches of a window (SRC-9): for the command, the API and the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection

from portal.json_types import JsonObject
from portal.tenancy.context import current_tenant

DAYS = 7
MAX_DAYS = 365
QUESTIONS = 20
"""Questions without a good answer that a report names, at most."""
SHARES = (0.5, 0.95, 0.99)

# A row that the log has not written yet (mode '') is no search so far. Index: search_log_age.
_WINDOW = """
    FROM metrics_loggedsearch AS search
    WHERE tenant_id = %(tenant)s AND at >= now() - make_interval(days => %(days)s) AND mode <> ''
"""
_FIGURES = f"""
    SELECT count(*), count(selected_tool), avg(1.0 / selected_rank), count(*) FILTER (WHERE reranked),
        count(*) FILTER (WHERE mode = 'keyword'), count(*) FILTER (WHERE cardinality(degraded) > 0),
        count(*) FILTER (WHERE cardinality(results) = 0), count(*) FILTER (WHERE best_similarity < %(threshold)s)
    {_WINDOW}
"""
_LATENCIES = f"""
    SELECT stage.name, percentile_cont(%(shares)s::float8[]) WITHIN GROUP (ORDER BY stage.ms)
    FROM (SELECT took_ms, timings {_WINDOW}) AS search
    CROSS JOIN LATERAL (
        SELECT 'total' AS name, search.took_ms AS ms UNION ALL SELECT key, value::float8 FROM jsonb_each_text(search.timings)
    ) AS stage
    GROUP BY stage.name ORDER BY stage.name
"""
_QUESTIONS = f"""
    SELECT query, count(*) AS times, max(best_similarity), max(at)
    {_WINDOW} AND best_similarity < %(threshold)s
    GROUP BY query ORDER BY times DESC, max(at) DESC LIMIT %(questions)s
"""


@dataclass(frozen=True, slots=True)
class WeakQuestion:
    """A question whose best tool was not similar enough. `best_similarity` is the best of all `times` that it was asked."""

    query: str
    times: int
    best_similarity: float
    last_asked: datetime


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The figures of the last `days`. Rates lie between 0 and 1, and are None where there is nothing to divide by."""

    days: int
    searches: int
    selections: int
    acceptance_rate: float | None  # searches with a selection, of all
    mean_reciprocal_rank: float | None  # of the selected tools
    reranked_share: float | None
    keyword_only_share: float | None
    degraded_share: float | None
    without_results: int
    without_good_answer: int  # best similarity below `threshold`; without vectors nobody knows
    threshold: float
    latency_ms: dict[str, dict[str, float]]  # by stage, `total` among them: p50, p95, p99
    questions: tuple[WeakQuestion, ...]  # without a good answer, the most frequent first

    def as_dict(self) -> JsonObject:
        return {**asdict(self), "questions": [asdict(one) for one in self.questions]}


def search_report(*, days: int = DAYS) -> SearchReport:
    """The report of the current tenant's searches."""
    parameters: dict[str, Any] = {
        "tenant": current_tenant(),
        "days": days,
        "threshold": settings.SEARCH_MIN_SIMILARITY,
        "shares": list(SHARES),
        "questions": QUESTIONS,
    }

    def rows(statement: str) -> Sequence[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            found: Sequence[tuple[Any, ...]] = cursor.fetchall()
            return found

    searches, selections, mean, reranked, by_keyword, degraded, empty, weak = rows(_FIGURES)[0]

    def share(count: int) -> float | None:
        return round(count / searches, 4) if searches else None

    return SearchReport(
        days=days,
        searches=searches,
        selections=selections,
        acceptance_rate=share(selections),
        mean_reciprocal_rank=None if mean is None else round(float(mean), 4),
        reranked_share=share(reranked),
        keyword_only_share=share(by_keyword),
        degraded_share=share(degraded),
        without_results=empty,
        without_good_answer=weak,
        threshold=settings.SEARCH_MIN_SIMILARITY,
        latency_ms={
            stage: {f"p{round(100 * at)}": round(ms, 2) for at, ms in zip(SHARES, found, strict=True)}
            for stage, found in rows(_LATENCIES)
        },
        questions=tuple(WeakQuestion(*row) for row in rows(_QUESTIONS)),
    )
