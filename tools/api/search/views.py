"""The REST endpoints of search."""

from __future__ import annotations

import hashlib

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from portal.http.conditional import tagged
from portal.json_types import JsonObject
from portal.tenancy.models import Scope
from tools.api.base import ApiView
from tools.api.schema import operations as docs
from tools.api.schema.json_schema import BOOLEAN, TEXT, TEXTS, field_schema
from tools.api.search.serializers import ANSWER, FILTERS, SearchSerializer, found_tool
from tools.search.query import FILTER_NAMES, FLAGS
from tools.search.service import search

_TIMING = docs.header("Server-Timing", "Milliseconds of each stage.", 200)


class SearchView(ApiView):
    """Which tools serve this need? `GET` for curl and caches, `POST` for long filters."""

    required_scope = Scope.SEARCH_READ

    @docs.operation(
        "search_by_get",
        "Which tools serve this need? (for curl and caches)",
        parameters=[
            docs.query(
                "query",
                {**TEXT, "minLength": 1, "maxLength": settings.SEARCH_QUERY_MAX_LENGTH},
                required=True,
            ),
            docs.query("top_k", field_schema(SearchSerializer().fields["top_k"])),
            *(
                docs.query(name, BOOLEAN, FILTERS[name])
                if name in FLAGS
                else docs.query(name, TEXTS, FILTERS[name])
                for name in FILTER_NAMES
            ),
            _TIMING,
            *docs.IF_NONE_MATCH,
        ],
        answers={200: ANSWER} | docs.UNCHANGED,
    )
    def get(self, request: Request) -> Response:
        parameters = {
            name: values if len(values) > 1 else values[0] for name, values in request.query_params.lists()
        }
        body, headers = self._answer(parameters)
        # Of what was found, not of how long it took. Only here: a POST is not cached, and need not be read twice.
        found = repr((body["results"], body["metadata"]["mode"], body["metadata"]["degraded"]))
        etag = f'W/"{hashlib.sha256(found.encode()).hexdigest()[:32]}"'
        return tagged(request, body, etag, **headers)

    @docs.operation(
        "search_by_post",
        "Which tools serve this need?",
        body=SearchSerializer,
        parameters=[_TIMING],
        answers={200: ANSWER},
        examples={
            "A need with a filter": {
                "query": "refund a customer's last payment",
                "top_k": 5,
                "tags": ["billing"],
            },
            "Among what a gateway can run now": {
                "query": "what is the weather in Oslo?",
                "names": ["get_forecast", "get_time"],
                "exclude": ["get_forecast_beta"],
            },
            "Deprecated tools of a language that take an account": {
                "query": "close an account",
                "filters": {"language": ["python"], "parameter": ["account_id"], "lifecycle": ["deprecated"]},
            },
        },
    )
    def post(self, request: Request) -> Response:
        body, headers = self._answer(request.data)
        return Response(body, headers=headers)

    def _answer(self, data: object) -> tuple[JsonObject, dict[str, str]]:
        serializer = SearchSerializer(data=data)
        serializer.is_valid(raise_exception=True)
        answer = search(self.rights, serializer.to_query())
        body = {
            "query": answer.query.text,
            "results": [
                {
                    "rank": hit.rank,
                    "score": round(hit.score, 6),
                    "match_type": hit.match_type,
                    "components": hit.components,
                    "tool": found_tool(hit.tool),
                }
                for hit in answer.hits
            ],
            "metadata": {
                "result_count": len(answer.hits),
                "mode": answer.mode,
                "degraded": list(answer.degraded),
                "reranked": False,
                "used_llm_rerank": False,
                "filters_applied": answer.query.filters.applied(),
                "took_ms": answer.took_ms,
                "search_id": answer.search_id,
            },
        }
        timing = ", ".join(f"{stage};dur={spent}" for stage, spent in answer.timings.items())
        return body, {"Server-Timing": timing, "Cache-Control": "private, no-cache"}
