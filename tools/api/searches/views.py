"""The REST endpoints of the log of searches: what was selected, and how searches went."""

from __future__ import annotations

from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from metrics.search_report import search_report
from metrics.selections import find_search, select
from portal.http.idempotency import idempotent
from portal.tenancy.models import Scope
from tools.api.base import TenantView
from tools.api.schema import operations as docs
from tools.api.schema.json_schema import body_schema, field_schema
from tools.api.searches.serializers import REPORT, SELECTION, ReportOptionsSerializer, SelectionSerializer
from tools.catalogue.visibility import require_all_sensitivities
from tools.models import Tool


class SelectionView(TenantView):
    """Which of a search's results was chosen."""

    required_scope = Scope.SEARCH_READ

    @docs.operation(
        "select_result",
        "Which of a search's results was chosen",
        "The tool must be one that the search returned. The same selection again changes nothing; another tool takes the place of the "
        "one before. 202 where the search is not in the log yet, which takes a few seconds: the selection counts once it is.",
        body=body_schema(SelectionSerializer),
        answers={200: SELECTION, 202: SELECTION},
        examples={"A tool": {"tool": "send_mail"}},
        problems=[422],
    )
    @idempotent
    def post(self, request: Request, ref: str) -> Response:
        search_id = find_search(ref)
        given = SelectionSerializer.parsed(request.data)
        tool = Tool.objects.seen().find(given["tool"], given["namespace"])
        if tool is None:
            raise NotFound(f"There is no tool {given['tool']!r} here.")
        selection = select(search_id, tool.pk)
        status = "pending" if selection.is_pending else "recorded"
        body = {"search_id": search_id.hex, "tool": str(tool.pk), "status": status}
        return Response(body, status=202 if selection.is_pending else 200)


class SearchReportView(TenantView):
    """How the searches of the last days went."""

    required_scope = Scope.TOOLS_WRITE

    @docs.operation(
        "get_search_report",
        "How the searches of the last days went",
        "It shows what all callers of the tenant have asked, so it needs a key that may see tools of every sensitivity.",
        parameters=[docs.query("days", field_schema(ReportOptionsSerializer().fields["days"]))],
        answers={200: REPORT},
    )
    def get(self, request: Request) -> Response:
        given = ReportOptionsSerializer.parsed(request.query_params.dict())
        require_all_sensitivities()
        return Response(search_report(days=given["days"]).as_dict())
