"""The tools that a member sees on pages (CAT-1), and the merge of two edits of one tool. No view."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tools.catalogue import history
from tools.models import Tool, ToolQuerySet
from tools.web.shell.access import TenantRequest, find_row, rights_of
from tools.web.shell.conflict import Merge, merge
from tools.web.tools.forms import ToolForm, parameter_field


def listed_tools(request: TenantRequest) -> ToolQuerySet:
    """The tools of this member's lists."""
    return Tool.objects.listed_for(rights_of(request))


def visible_tools(request: TenantRequest) -> ToolQuerySet:
    """The tools whose pages this member may open."""
    return Tool.objects.visible_to(rights_of(request))


def find_tool(request: TenantRequest, pk: UUID) -> Tool:
    """The tool with all that its pages show. Raises Http404 if it does not exist or this member may not see it, without
    saying which."""
    tools = visible_tools(request).select_related("source", "endpoint").with_serving_embedding()
    return find_row(tools, "tool", pk=pk)


def seen_version(tool: Tool, version: int) -> Mapping[str, object] | None:
    """The form's values as they were at `version`, from the history; None if the history does not reach back that far."""
    events = history.events(Tool).filter(pgh_obj_id=tool.pk, version=version)
    event = events.order_by("-pgh_id").values().first()
    return ToolForm.initial_from(event) if event else None


def merge_tool(current: Tool, seen: Mapping[str, object] | None, form: ToolForm) -> Merge:
    """As `merge`, with the texts that were written for parameters that no longer exist."""
    merged = merge(ToolForm.initial_of(current), seen, form)
    merged.gone.update(
        {
            name: text
            for name, text in form.gone.items()
            if text.strip() and (seen is None or seen.get(parameter_field(name)) != text)
        }
    )
    return merged
