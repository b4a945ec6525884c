"""One tool: its page, the edit form with optimistic concurrency, a new tool, activation and deletion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from portal.tenancy.models import Role
from tools.catalogue import embedding_text
from tools.catalogue.errors import CatalogueError, Invalid, StaleVersion
from tools.catalogue.parameter_descriptions import parameter_descriptions
from tools.catalogue.tools import create_tool, delete_tool, update_tool
from tools.models import PARAMETER_PREFIX, Tool
from tools.web.embeddings.state import badge_of, card_context, card_of, embedding_queued
from tools.web.overrides.state import OverrideRow, overrides_of, undoable
from tools.web.shell.access import TenantRequest, actor, member_page
from tools.web.shell.confirm import confirm
from tools.web.shell.errors import ErrorsAsMessages
from tools.web.shell.forms import number
from tools.web.tools.forms import FURTHER_FIELDS, MOST_PARAMETERS, NewToolForm, ToolForm, parameter_field
from tools.web.tools.markdown import to_html
from tools.web.tools.parameters import parameters_of
from tools.web.tools.state import find_tool, merge_tool, seen_version

# Fields that are folded away in the form unless they are overridden or wrong.
_MORE = {"semantic_namespace", "tech_stack", "target_personas", "annotations", "core", *FURTHER_FIELDS}
_MOST_EDITS = 2  # overrides without a conflict that are shown unfolded above the description


@member_page("GET")
def tool_page(request: TenantRequest, pk: UUID) -> HttpResponse:
    tool = find_tool(request, pk)
    text = embedding_text.source_text(tool)
    edits = overrides_of(tool) if tool.endpoint else []
    settled = sum(not one.conflict for one in edits)
    context = {
        **card_context(card_of(tool)),
        "tool": tool,
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


@member_page("GET POST", Role.OPERATOR, has_text=True)
def edit_tool(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The edit form. Answers 422 with the errors, or 409 with both versions; the form keeps what was typed."""
    tool = find_tool(request, pk)
    posted = request.POST if request.method == "POST" else None
    form = _form(tool, ToolForm.initial_of(tool), posted)
    if posted is None:
        return _form_page(request, tool, form)
    if not form.is_valid():
        return _form_page(request, tool, form, status=422)
    version = form.cleaned_data["version"] or 0
    try:
        saved = update_tool(pk=pk, expected_version=version, changes=form.changes(), actor=actor(request))
    except StaleVersion as error:
        return _conflict_page(request, error, form)
    except CatalogueError as error:
        form.add_refusals(error)
        return _form_page(request, tool, form, status=422 if isinstance(error, Invalid) else 409)
    _tell_saved(request, tool, saved)
    return redirect("tool", pk=pk)


def _form(tool: Tool, initial: Mapping[str, object], posted: QueryDict | None = None) -> ToolForm:
    imported = tool.endpoint_id is not None
    return ToolForm(posted, initial=initial, parameters=tool.parameters, is_imported=imported)


def _tell_saved(request: TenantRequest, before: Tool, saved: Tool) -> None:
    if saved.version == before.version:
        messages.info(request, "Nothing was changed.")
    elif not saved.active:
        messages.success(request, "Saved. The tool is inactive, so it is not embedded.")
    elif before.active and embedding_text.source_text(saved) == embedding_text.source_text(before):
        messages.success(request, "Saved. The embedded text is the same, so the vector is kept.")
    else:
        messages.success(request, f"Saved.{embedding_queued([saved.pk])}")


def _conflict_page(request: TenantRequest, error: StaleVersion, form: ToolForm) -> HttpResponse:
    current = find_tool(request, error.current.pk)
    merged = merge_tool(current, seen_version(current, form.cleaned_data["version"] or 0), form)
    # Unbound, so that its fields show the merged values and `version` is the current one.
    again = _form(current, merged.values)
    return _form_page(request, current, again, status=409, merge=merged, stale=str(error))


def _form_page(
    request: TenantRequest, tool: Tool, form: ToolForm, *, status: int = 200, **more: object
) -> HttpResponse:
    overridden = _overridden(tool)
    context = {
        "tool": tool,
        "badge": badge_of(tool),
        "form": form,
        "overridden": overridden,
        "further_rows": [(form[name], overridden.get(name)) for name in FURTHER_FIELDS],
        "parameter_rows": [(field, overridden.get(field.name)) for field in form.parameter_fields()],
        "more_parameters": max(0, len(parameter_descriptions(tool.parameters)) - MOST_PARAMETERS),
        "more_open": bool(_MORE & (overridden.keys() | form.errors.keys())),
        "undoable": undoable(request, tool.pk),
        **more,
    }
    return render(request, "tools/edit.html", context, status=status)


def _overridden(tool: Tool) -> dict[str, OverrideRow]:
    """The tool's overrides by the name of their field in the form."""
    found = {}
    for one in overrides_of(tool) if tool.endpoint else []:
        field = one.override.field
        if field.startswith(PARAMETER_PREFIX):
            field = parameter_field(field.removeprefix(PARAMETER_PREFIX))
        found[field] = one
    return found


@member_page("GET POST", Role.OPERATOR, has_text=True)
def new_tool(request: TenantRequest) -> HttpResponse:
    """A tool without a source."""
    defaults = {**ToolForm.initial_of(Tool()), "namespace": "public"}
    form = NewToolForm(request.POST if request.method == "POST" else None, initial=defaults)
    status = 422 if form.is_bound else 200
    if form.is_valid():
        try:
            tool = create_tool(actor=actor(request), **form.cleaned_data)
        except Invalid as error:
            form.add_refusals(error)
        except CatalogueError as error:
            form.add_error("tool_id", str(error))
            status = 409
        else:
            messages.success(request, f"Saved.{embedding_queued([tool.pk])}")
            return redirect("tool", pk=tool.pk)
    context = {"form": form, "further_rows": [(form[name], None) for name in FURTHER_FIELDS]}
    return render(request, "tools/new.html", context, status=status)


@member_page("POST", Role.OPERATOR)
def set_active(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Activates or deactivates the tool; the form carries the version that its author saw."""
    find_tool(request, pk)
    active = request.POST.get("active") == "yes"
    with ErrorsAsMessages(request):
        version = number(request.POST.get("version", ""))  # 0, which no tool has, if it is missing
        update_tool(pk=pk, expected_version=version, changes={"active": active}, actor=actor(request))
        said = "Activated. Agents find this tool again."
        messages.success(request, said if active else "Deactivated. Agents no longer find this tool.")
    return redirect("tool", pk=pk)


@member_page("GET POST", Role.ADMIN)
def delete(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Deletes a tool written by hand, after a question."""
    tool = find_tool(request, pk)
    if request.method != "POST":
        return confirm(
            request,
            title=f"Delete {tool.name}?",
            effect="The tool and its vector are deleted. Its history is kept. This cannot be undone.",
            button="Delete tool",
            dangerous=True,
            cancel=reverse("tool", args=[pk]),
        )
    with ErrorsAsMessages(request):
        delete_tool(pk=tool.pk, actor=actor(request))
        messages.success(request, f"{tool.name} was deleted.")
        return redirect("tool-list")
    return redirect("tool", pk=pk)
