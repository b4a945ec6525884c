"""The log of searches as the API takes and shows it."""

from __future__ import annotations

from rest_framework import serializers

from metrics.search_report import DAYS, MAX_DAYS
from tools.api.fields import StrictSerializer
from tools.api.schema.json_schema import COUNT, ID, TEXT, TIME, described, or_null
from tools.models.tool import TOOL_ID_LENGTH

RATE = or_null({"type": "number", "minimum": 0, "maximum": 1})


class SelectionSerializer(StrictSerializer):
    """Which tool was chosen of a search's results."""

    tool = serializers.CharField(max_length=TOOL_ID_LENGTH, help_text="The tool's `id` or `tool_id`.")
    namespace = serializers.CharField(
        max_length=200,
        default="public",
        help_text="Of a tool that is named by its tool_id; `public` without it.",
    )


SELECTION = described(
    search_id=TEXT,
    tool=ID,
    status={
        "type": "string",
        "enum": ["recorded", "pending"],
        "description": "`pending`: the search is not in the log yet. The selection counts once it is, if the search returned the tool.",
    },
)


class ReportOptionsSerializer(StrictSerializer):
    """The window of a report."""

    days = serializers.IntegerField(min_value=1, max_value=MAX_DAYS, default=DAYS)


REPORT = described(
    days={"type": "integer", "minimum": 1},
    searches=COUNT,
    selections={**COUNT, "description": "Searches with a selected tool."},
    acceptance_rate={**RATE, "description": "Selections, of all searches."},
    mean_reciprocal_rank={**RATE, "description": "Of the selected tools' ranks."},
    reranked_share=RATE,
    keyword_only_share=RATE,
    degraded_share=RATE,
    without_results=COUNT,
    without_good_answer={**COUNT, "description": "Searches whose best similarity is below `threshold`."},
    threshold={"type": "number"},
    latency_ms={
        "type": "object",
        "description": "By stage, `total` among them.",
        "additionalProperties": described(
            p50={"type": "number"}, p95={"type": "number"}, p99={"type": "number"}
        ),
    },
    questions={
        "type": "array",
        "description": "Without a good answer, the most frequent first.",
        "items": described(query=TEXT, times=COUNT, best_similarity={"type": "number"}, last_asked=TIME),
    },
)
