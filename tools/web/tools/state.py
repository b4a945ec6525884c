"""Which tools a member sees on pages (CAT-1): private ones are for operators and their owner; unlisted ones stand in no list."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404

from tools.models import Tool, ToolQuerySet
from tools.web.shell.access import PageRequest, rights_of


def listed_tools(request: PageRequest) -> ToolQuerySet:
    """Those that stand in this member's lists."""
    return Tool.objects.listed_for(rights_of(request))


def visible_tools(request: PageRequest) -> ToolQuerySet:
    """Those whose pages this member may open."""
    return Tool.objects.visible_to(rights_of(request))


def find_tool(request: PageRequest, pk: UUID) -> Tool:
    """The tool with all that its pages show; 404 for one that is not there or not for this member, without telling which."""
    found = visible_tools(request).select_related("source", "endpoint").with_serving_embedding()
    tool = found.filter(pk=pk).first()
    if tool is None:
        raise Http404("There is no such tool here.")
    return tool
