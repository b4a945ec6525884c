"""The tool that an address names."""

from __future__ import annotations

from uuid import UUID

from rest_framework.exceptions import NotFound
from rest_framework.response import Response

from portal.http.conditional import version_etag
from tools.api.base import TenantView
from tools.api.tools.serializers import ToolSerializer
from tools.models import Tool, ToolQuerySet


def for_answers(tools: ToolQuerySet) -> ToolQuerySet:
    """The tools with the related rows that ToolSerializer reads."""
    return tools.select_related("source").with_serving_embedding()


class OneToolView(TenantView):
    """A view of one tool, named by its UUID, or by its tool_id within `?namespace=`."""

    def find_tool(self, ref: str) -> Tool:
        """The tool, if the caller may see it. A foreign and an unknown one give the same 404."""
        visible = for_answers(Tool.objects.seen())
        tool = visible.find(ref, self.request.query_params.get("namespace", "public"))
        if tool is None:
            raise NotFound(f"There is no tool {ref!r} here.")
        return tool


def tool_response(pk: UUID, *, status: int = 200, **headers: str) -> Response:
    """A tool as the caller has just written it, which may have taken it out of the caller's sight."""
    tool = for_answers(Tool.objects.all()).get(pk=pk)
    headers["ETag"] = version_etag(tool.version)
    return Response(ToolSerializer(tool).data, status=status, headers=headers)
