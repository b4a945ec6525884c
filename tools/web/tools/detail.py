"""The page of one tool: overview and history."""

from __future__ import annotations

import json
from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from tools.catalogue import embedding_text
from tools.web.embeddings.state import badge_of
from tools.web.embeddings.views import embedding_context
from tools.web.history.state import tool_history
from tools.web.overrides.views import overrides_of, undoable
from tools.web.shell.access import PageRequest, member_page
from tools.web.tools.markdown import to_html
from tools.web.tools.parameters import parameters_of
from tools.web.tools.state import find_tool

_MOST_EDITS = 2  # that agree with their source and still stand open above the description


@require_GET
@member_page()
def tool_page(request: PageRequest, pk: UUID) -> HttpResponse:
    """Overview."""
    tool = find_tool(request, pk)
    text = embedding_text.source_text(tool)
    edits = overrides_of(tool) if tool.endpoint else []
    settled = sum(not one.conflict for one in edits)
    context = {
        **embedding_context(tool),
        "tab": "overview",
        "badge": badge_of(tool),
        "description": to_html(tool.description),
        "parameters": parameters_of(tool.parameters),
        "parameters_json": json.dumps(tool.parameters, indent=2, ensure_ascii=False)
        if tool.parameters
        else "",
        "overrides": edits,
        "fold_edits": settled if settled > _MOST_EDITS else 0,
        "undoable": undoable(request, tool.pk),
        "source_text": text,
    }
    return render(request, "tools/detail.html", context)


@require_GET
@member_page()
def history_page(request: PageRequest, pk: UUID) -> HttpResponse:
    """Every change of the tool and of its overrides, newest first."""
    tool = find_tool(request, pk)
    given = request.GET.get("page", "")
    page = max(min(int(given), 1000) if given.isascii() and given.isdigit() and 0 < len(given) < 6 else 1, 1)
    entries, has_older = tool_history(tool.pk, page=page)
    context = {
        "tool": tool,
        "badge": badge_of(tool),
        "tab": "history",
        "entries": entries,
        "page": page,
        "has_older": has_older,
        "newest": max((entry.event for entry in entries if entry.event), default=None) if page == 1 else None,
    }
    return render(request, "history/tool.html", context)
