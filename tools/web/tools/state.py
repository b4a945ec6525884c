"""Which tools a member sees on pages (CAT-1): private ones are for operators and their owner; unlisted ones stand in no list."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import Http404

from tools.models import Tool, Visibility
from tools.web.embeddings.state import with_embeddings
from tools.web.shell.access import PageRequest


def listed_tools(request: PageRequest) -> QuerySet[Tool]:
    """Those that stand in this member's lists."""
    return _seen(request, Q(visibility=Visibility.PUBLIC))


def visible_tools(request: PageRequest) -> QuerySet[Tool]:
    """Those whose pages this member may open."""
    return _seen(request, ~Q(visibility=Visibility.PRIVATE))


def _seen(request: PageRequest, by_anybody: Q) -> QuerySet[Tool]:
    tools: QuerySet[Tool] = Tool.objects.all()
    if request.member.is_operator:
        return tools
    return tools.filter(by_anybody | Q(owner=request.user.get_username()))


def find_tool(request: PageRequest, pk: UUID) -> Tool:
    """The tool with all that its pages show; 404 for one that is not there or not for this member, without telling which."""
    tool: Tool | None = (
        visible_tools(request)
        .select_related("source", "endpoint")
        .prefetch_related(with_embeddings())
        .filter(pk=pk)
        .first()
    )
    if tool is None:
        raise Http404("There is no such tool here.")
    return tool
