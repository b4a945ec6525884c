"""Shows how the searches of the last days went: accepted results, latency, questions without a good answer (SRC-9)."""

from __future__ import annotations

from uuid import UUID

from django.core.management.base import CommandParser

from metrics.search_report import DAYS, MAX_DAYS, SearchReport, search_report
from portal.tenancy.commands import Options, TenantCommand, whole_number
from portal.tenancy.context import tenant_context


class Command(TenantCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--days",
            type=whole_number(1, MAX_DAYS),
            default=DAYS,
            metavar="DAYS",
            help="default: %(default)s",
        )

    def run_for(self, tenant_id: UUID, options: Options) -> None:
        with tenant_context(tenant_id):
            report = search_report(days=options["days"])
        self.show(options, report.as_dict(), as_text(report))


def as_text(report: SearchReport) -> str:
    """The report in lines of a terminal."""
    if not report.searches:
        return f"No search was logged in the last {report.days} days."
    lines = [
        f"{_counted(report.searches)} in the last {report.days} days, {report.selections:,} with a selection",
        f"acceptance rate        {_percent(report.acceptance_rate)}",
        f"mean reciprocal rank   {_number(report.mean_reciprocal_rank)}",
        f"re-ranked by a model   {_percent(report.reranked_share)}",
        f"by keyword alone       {_percent(report.keyword_only_share)}",
        f"degraded               {_percent(report.degraded_share)}",
        f"without results        {report.without_results:,}",
        "",
        "latency in ms          p50      p95      p99",
        *(
            f"  {stage:<16}" + "".join(f"{value:9.1f}" for value in values.values())
            for stage, values in report.latency_ms.items()
        ),
        "",
        f"{_counted(report.without_good_answer)} without a good answer (best similarity below {report.threshold:g})",
        *(f"  {one.times:>6,d}  best {one.best_similarity:.2f}  {one.query}" for one in report.questions),
    ]
    return "\n".join(lines)


def _counted(searches: int) -> str:
    return "1 search" if searches == 1 else f"{searches:,} searches"


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
