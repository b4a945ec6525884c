"""The page of one tool: overview and history, and what happens to its overrides (SYN-5)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from portal.tenancy.models import Role
from tools import embedding, services
from tools.errors import CatalogueError
from tools.models import OVERRIDABLE_FIELDS, ManualOverride, Tool
from tools.web.access import PageRequest, actor, member_page
from tools.web.diff import Segment, as_text, word_diff
from tools.web.embedding_state import badge_of, with_embeddings
from tools.web.embedding_views import embedding_context
from tools.web.history import tool_history
from tools.web.markdown import to_html
from tools.web.parameters import parameters_of


def find_tool(pk: UUID) -> Tool:
    """The tool of this tenant with all that its pages show; 404 for any other, without telling why."""
    tool: Tool | None = (
        Tool.objects.select_related("source", "endpoint")
        .prefetch_related(with_embeddings(), "overrides")
        .filter(pk=pk)
        .first()
    )
    if tool is None:
        raise Http404("There is no such tool here.")
    return tool


@dataclass(frozen=True, slots=True)
class ShownOverride:
    """An override with the imported text of today; `moved` with the diff from the text that it once replaced."""

    override: ManualOverride
    imported: str
    moved: bool
    diff: list[Segment]


@require_GET
@member_page()
def tool_page(request: PageRequest, pk: UUID) -> HttpResponse:
    """Overview."""
    tool = find_tool(pk)
    text = embedding.source_text(tool)
    context = {
        **embedding_context(tool),
        "tab": "overview",
        "badge": badge_of(tool),
        "description": to_html(tool.description),
        "parameters": parameters_of(tool.parameters),
        "parameters_json": json.dumps(tool.parameters, indent=2, ensure_ascii=False)
        if tool.parameters
        else "",
        "overrides": [_shown(tool, override) for override in tool.overrides.all()] if tool.endpoint else [],
        "source_text": text,
    }
    return render(request, "tools/detail.html", context)


def _shown(tool: Tool, override: ManualOverride) -> ShownOverride:
    imported = embedding.imported_value(tool, override.field)
    return ShownOverride(
        override=override,
        imported=as_text(imported),
        moved=imported != override.imported_value,
        diff=word_diff(as_text(override.imported_value), as_text(imported)),
    )


@require_GET
@member_page()
def history_page(request: PageRequest, pk: UUID) -> HttpResponse:
    """Every change of the tool and of its overrides, newest first."""
    tool = find_tool(pk)
    given = request.GET.get("page", "")
    page = min(int(given), 1000) if given.isascii() and given.isdigit() and 0 < len(given) < 6 else 1
    entries, has_older = tool_history(tool.pk, page=max(page, 1))
    context = {
        "tool": tool,
        "badge": badge_of(tool),
        "tab": "history",
        "entries": entries,
        "page": page,
        "has_older": has_older,
    }
    return render(request, "tools/history.html", context)


def _known(field: str) -> str:
    if field not in OVERRIDABLE_FIELDS:
        raise Http404("There is no such field to override.")
    return field


@require_POST
@member_page(Role.OPERATOR)
def keep_override(request: PageRequest, pk: UUID, field: str) -> HttpResponse:
    """The operator has seen the newer imported text and stays with their own."""
    try:
        services.keep_override(pk=find_tool(pk).pk, field=_known(field), actor=actor(request))
        messages.success(request, f"Kept your {field}.")
    except CatalogueError as error:
        messages.error(request, str(error))
    return redirect("tool", pk=pk)


@require_http_methods(["GET", "POST"])
@member_page(Role.OPERATOR)
def reset_override(request: PageRequest, pk: UUID, field: str) -> HttpResponse:
    """Back to the imported text, after a question that shows it."""
    tool = find_tool(pk)
    if tool.endpoint is None:
        raise Http404("This tool has no imported text.")
    imported = as_text(embedding.imported_value(tool, _known(field)))
    if request.method == "POST":
        try:
            services.reset_override(pk=tool.pk, field=field, actor=actor(request))
            messages.success(request, f"The imported {field} is back. Embedding queued.")
        except CatalogueError as error:
            messages.error(request, str(error))
        return redirect("tool", pk=pk)
    question = {
        "title": f"Reset the {field} to the imported one?",
        "effect": "Your text is removed (the history keeps it), and the tool is embedded again with this text:",
        "quote": imported or "(empty)",
        "action": request.path,
        "button": "Reset to imported",
        "cancel": reverse("tool", args=[pk]),
    }
    return render(request, "confirm.html#question" if request.htmx else "confirm.html", question)
