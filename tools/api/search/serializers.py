"""What a search takes and answers: parameters with their bounds, hits as agents see them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from rest_framework import serializers

from portal.json_types import JsonObject
from portal.tenancy.models import Sensitivity
from tools.api.fields import AnyField, refuse_unknown
from tools.api.schema.json_schema import BOOLEAN, COUNT, ID, TEXT, TEXTS, described, or_null
from tools.search.query import FILTER_NAMES, FLAGS, NUMBERS, SearchFilters, SearchQuery

# The filters that may hold more values than the others.
_MAX_FILTER_VALUES = {"names": settings.SEARCH_NAMES_MAX, "exclude": settings.SEARCH_NAMES_MAX}
# The others are shares.
_MAX_NUMBER = {"max_average_latency_ms": 86_400_000}
# Short forms that callers write; the long form is the field's name everywhere else.
ALIASES = {
    "protocol": "source_protocol",
    "domain": "routing_domain",
    "type": "tool_type",
    "exclude_names": "exclude",
    "persona": "personas",
    "status": "embedding_status",
}

_ANY = "Any of these. Several, or one with commas."
FILTERS = dict.fromkeys(FILTER_NAMES, _ANY) | {
    "tags": "All of these. Several, or one with commas.",
    "language": "A tag; any of these.",
    "personas": "Whom the tool is meant for; any of these.",
    "parameter": "The name of a parameter that the tool takes; any of these.",
    "source": "Slugs; any of these.",
    "lifecycle": "Any of `active`, `deprecated`, `retired`. Without it, all but retired tools.",
    "embedding_status": "Any of `pending`, `ready`, `failed`, `disabled`, `blank`.",
    "core": "Whether it is always offered to an agent.",
    "max_average_latency_ms": "Milliseconds that its calls take on average, at most. A tool without calls passes, unless `measured`.",
    "min_success_rate": "Of its calls, 0 to 1. A tool without calls passes, unless `measured`.",
    "min_quality": "0 to 1. A tool without calls passes, unless `measured`.",
    "measured": "True: only tools that were called, and of which all is known that is asked for.",
    "names": "tool_ids or names; any of these.",
    "exclude": "tool_ids or names; none of these.",
}
"""What a value of each filter means."""


OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "rerank": (
        ("none", "auto", "llm", "cross-encoder"),
        "Which model orders the five best results, within its time. `auto`: the one that is configured, only where the best are close.",
    ),
    "intent": (("select", "browse"), "`browse`: the caller looks around, so `auto` asks no model."),
}
USE_LLM = "use_llm"
OPTION_TEXTS = {name: text for name, (_, text) in OPTIONS.items()} | {
    USE_LLM: "True: the same as `rerank: llm`."
}
"""What a request may choose, and what that means."""


class WordsField(serializers.ListField):
    """One value, several, or a comma-separated list."""

    child = serializers.CharField(max_length=300, trim_whitespace=True)

    def to_internal_value(self, data: Any) -> list[str]:
        if isinstance(data, str):
            data = [part.strip() for part in data.split(",") if part.strip()]
        words: list[str] = super().to_internal_value(data)
        return words


class FiniteField(serializers.FloatField):
    """A number; JSON's neighbours NaN and Infinity are none."""

    def to_internal_value(self, data: Any) -> float:
        value: float = super().to_internal_value(data)
        if not math.isfinite(value):
            self.fail("invalid")
        return value


def filter_field(name: str) -> AnyField:
    """The field of a filter."""
    help_text = FILTERS[name]
    if name in FLAGS:
        return serializers.BooleanField(required=False, help_text=help_text)
    if name in NUMBERS:
        return FiniteField(
            required=False, min_value=0, max_value=_MAX_NUMBER.get(name, 1), help_text=help_text
        )
    most = _MAX_FILTER_VALUES.get(name, settings.SEARCH_FILTER_VALUES_MAX)
    return WordsField(required=False, max_length=most, help_text=help_text)


def filter_schema(name: str) -> JsonObject:
    """The schema of a filter as a parameter of an address."""
    if name in FLAGS:
        return BOOLEAN
    if name in NUMBERS:
        return {"type": "number", "minimum": 0, "maximum": _MAX_NUMBER.get(name, 1)}
    return TEXTS


def option_field(name: str) -> AnyField:
    """The field of an option."""
    help_text = OPTION_TEXTS[name]
    if name == USE_LLM:
        return serializers.BooleanField(required=False, help_text=help_text)
    return serializers.ChoiceField(choices=OPTIONS[name][0], required=False, help_text=help_text)


class SearchSerializer(serializers.Serializer[JsonObject]):
    """A search request; the filters stand beside `query` or inside `filters`."""

    query = serializers.CharField(max_length=settings.SEARCH_QUERY_MAX_LENGTH, trim_whitespace=True)
    top_k = serializers.IntegerField(
        min_value=1, max_value=settings.SEARCH_TOP_K_MAX, default=settings.SEARCH_TOP_K
    )
    correct = serializers.BooleanField(default=True)
    filters = serializers.DictField(required=False)

    def get_fields(self) -> dict[str, AnyField]:
        fields = super().get_fields()
        # Only the filters that were given: making the others would be a tenth of a search's time in Python.
        for name in self._given:
            fields[name] = filter_field(name) if name in FILTER_NAMES else option_field(name)
        return fields

    _given: Iterable[str] = (*OPTION_TEXTS, *FILTER_NAMES)

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise serializers.ValidationError({"non_field_errors": ["Send a JSON object."]})
        flat = {ALIASES.get(name, name): value for name, value in data.items()}
        if isinstance(flat.get("filters"), dict):
            inside = {ALIASES.get(name, name): value for name, value in flat.pop("filters").items()}
            refuse_unknown(inside, FILTER_NAMES)
            flat |= inside
        known = SearchSerializer._given
        refuse_unknown(flat, (*self._declared_fields, *known))
        self._given = [name for name in known if name in flat]
        return super().to_internal_value(flat)

    def to_query(self) -> SearchQuery:
        data = self.validated_data
        filters: dict[str, Any] = {
            name: tuple(data[name]) if isinstance(data[name], list) else data[name]
            for name in FILTER_NAMES
            if name in data
        }
        options = {name: data[name] for name in OPTIONS if name in data}
        if data.get(USE_LLM):
            options.setdefault("rerank", "llm")
        return SearchQuery(
            text=data["query"],
            top_k=data["top_k"],
            filters=SearchFilters(**filters),
            correct=data["correct"],
            **options,
        )


_FOUND_TOOL = described(
    id=ID, tool_id=TEXT, namespace=TEXT, name=TEXT, description=TEXT, server=TEXT,
    source=or_null(TEXT), category=TEXT, tags=TEXTS, tool_type=TEXT, source_protocol=TEXT, routing_domain=TEXT,
    sensitivity={"type": "string", "enum": Sensitivity.values}, average_latency_ms=or_null({"type": "number"}),
    success_rate=or_null({"type": "number"}), embedding_status=or_null(TEXT),
)  # fmt: skip
_NUMBER = {"type": "number"}
_RANK = or_null({"type": "integer", "minimum": 1})


def _of_score(schema: JsonObject, description: str) -> JsonObject:
    return {**schema, "description": description}


COMPONENTS = {
    **described(
        similarity=_of_score(or_null(_NUMBER), "The cosine of the question's vector and the tool's; null without a vector."),
        keyword=_of_score(or_null(_NUMBER), "The sum over the question's words: their weight in the tool times their rarity."),
        semantic_rank=_of_score(_RANK, "The place among the nearest vectors; null if it is not among them."),
        keyword_rank=_of_score(_RANK, "The place among the matches of words; null if it is not among them."),
        fused=_of_score(_NUMBER, "Similarity and keywords, each by its best, weighted by the question."),
        sentences=_of_score(
            or_null(_NUMBER), "Added for the sentence of the question that suits the tool best; null: it has no several sentences."
        ),
        name_match=_of_score(
            or_null(_NUMBER), "Added because the question says what the tool is called, in these or other words; null: not compared."
        ),
        relevance=_of_score(_NUMBER, "fused + sentences + name_match, as a share of the best tool's."),
        quality=_of_score(_NUMBER, "Of its calls, 0 to 1; 0.5 for a tool that was never called."),
        recency=_of_score(
            _NUMBER, "1 for a successful call of now, half of it a week later; 0.5 for a tool that was never called."
        ),
        semantic_weight=_of_score(_NUMBER, "The factor that an operator has given the tool."),
        equal_name=_of_score(
            or_null(_NUMBER), "Added because the question is the tool's name and nothing else; null: it is not."
        ),
    ),
    "description": "What the score is made of: relevance, quality and recency, each times its weight; their sum times semantic_weight (a "
    "sum below 0 is divided by it); and equal_name.",
}  # fmt: skip
ANSWER = described(
    query=TEXT,
    corrected_query=or_null({**TEXT, "description": "What was searched for, if words of the query were mistyped."}),
    corrections={"type": "array", "items": described(**{"from": TEXT, "to": TEXT})},
    results={
        "type": "array",
        "items": described(
            rank={"type": "integer", "minimum": 1},
            score={"type": "number"},
            match_type={"type": "string", "enum": ["semantic", "keyword", "both"]},
            components=COMPONENTS,
            contributions=_of_score(
                {"type": "object", "additionalProperties": _NUMBER},
                "What each part adds to the score; their sum is the score.",
            ),
            tool=_FOUND_TOOL,
        ),
    },
    metadata=described(
        result_count=COUNT, mode=TEXT, degraded=TEXTS, reranked=BOOLEAN, used_llm_rerank=BOOLEAN,
        rerank=described(
            kind={"type": "string", "enum": ["none", "llm", "cross-encoder"]},
            outcome={
                "type": "string",
                "enum": ["changed", "confirmed", "not_asked", "not_configured", "not_needed", "too_late", "busy", "failed"],
            },
            took_ms={"type": "number"},
        ),
        cached=BOOLEAN, filters_applied={"type": "object"}, took_ms={"type": "number"}, search_id=TEXT,
    ),
)  # fmt: skip
# Where the search's rows and the answer differ: the source by its slug.
_OF_ROW = {"source": "source__slug"}


def found_tool(row: Mapping[str, Any]) -> JsonObject:
    """A row of the search as an answer shows it. Not a serializer, which would cost more than the ranking."""
    return {name: row[_OF_ROW.get(name, name)] for name in _FOUND_TOOL["properties"]}
