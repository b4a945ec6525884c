"""Writing a tool: the edit form with optimistic concurrency, a new tool, an older version, activation and deletion."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from portal.tenancy.models import Role
from tools.catalogue import embedding_text
from tools.catalogue.errors import CatalogueError, Invalid, StaleVersion
from tools.catalogue.parameter_descriptions import parameter_descriptions
from tools.catalogue.tools import create_tool, delete_tool, update_tool
from tools.models import PARAMETER_PREFIX, Tool
from tools.web.embeddings.state import badge_of
from tools.web.history.state import changes_of, restorable
from tools.web.overrides.views import ShownOverride, overrides_of, undoable
from tools.web.shell.access import PageRequest, actor, member_page
from tools.web.shell.conflict import merge_tool, seen_version
from tools.web.shell.forms import MOST_PARAMETERS, NewToolForm, ToolForm, parameter_field
from tools.web.tools.state import find_tool

# Folded away in the form, unless there is something to see.
_MORE = {"semantic_namespace", "tech_stack", "target_personas", "annotations", "core"}


@require_http_methods(["GET", "POST"])
@member_page(Role.OPERATOR)
def edit_tool(request: PageRequest, pk: UUID) -> HttpResponse:
    """The form. 422 comes back with the reasons, 409 with both texts; in both cases nothing that was typed is lost."""
    tool = find_tool(request, pk)
    if request.method == "GET":
        return _form_page(
            request, tool, ToolForm(initial=ToolForm.initial_of(tool), parameters=tool.parameters)
        )
    form = ToolForm(request.POST, initial=ToolForm.initial_of(tool), parameters=tool.parameters)
    if not form.is_valid():
        return _form_page(request, tool, form, status=422)
    version = form.cleaned_data["version"] or 0
    try:
        saved = update_tool(pk=pk, expected_version=version, changes=form.changes(), actor=actor(request))
    except StaleVersion as error:
        return _conflict_page(request, error, form)
    except Invalid as error:
        form.add_refusals(error)
        return _form_page(request, tool, form, status=422)
    except CatalogueError as error:
        form.add_error(None, str(error))
        return _form_page(request, tool, form, status=409)
    _tell_saved(request, tool, saved)
    return redirect("tool", pk=pk)


def _tell_saved(request: PageRequest, before: Tool, saved: Tool) -> None:
    if saved.version == before.version:
        messages.info(request, "Nothing was changed.")
    elif not saved.active:
        messages.success(request, "Saved. The tool is inactive, so it is not embedded.")
    elif (
        embedding_text.source_text(saved) == embedding_text.source_text(before)
        and saved.active == before.active
    ):
        messages.success(request, "Saved. The embedded text is the same, so its vector stays.")
    else:
        messages.success(request, "Saved. Embedding queued.")


def _conflict_page(request: PageRequest, error: StaleVersion, form: ToolForm) -> HttpResponse:
    current = find_tool(request, error.current.pk)
    merged = merge_tool(current, seen_version(current, form.cleaned_data["version"] or 0), form)
    # Unbound, so that the fields show the merged values and the version is the one that the author now sees.
    again = ToolForm(initial=merged.values, parameters=current.parameters)
    return _form_page(request, current, again, status=409, merge=merged, stale=str(error))


def _form_page(
    request: PageRequest, tool: Tool, form: ToolForm, *, status: int = 200, **more: Any
) -> HttpResponse:
    overridden = _overridden(tool)
    context = {
        "tool": tool,
        "badge": badge_of(tool),
        "form": form,
        "overridden": overridden,
        "parameter_rows": [(field, overridden.get(field.name)) for field in form.parameter_fields()],
        "more_parameters": max(0, len(parameter_descriptions(tool.parameters)) - MOST_PARAMETERS),
        "more_open": bool(_MORE & (overridden.keys() | form.errors.keys())),
        "undoable": undoable(request, tool.pk),
        "tab": "edit",
        **more,
    }
    return render(request, "tools/edit.html", context, status=status)


def _overridden(tool: Tool) -> dict[str, ShownOverride]:
    """The tool's overrides by the name of their field in the form."""
    found = {}
    for one in overrides_of(tool) if tool.endpoint else []:
        field = one.override.field
        if field.startswith(PARAMETER_PREFIX):
            field = parameter_field(field.removeprefix(PARAMETER_PREFIX))
        found[field] = one
    return found


@require_http_methods(["GET", "POST"])
@member_page(Role.OPERATOR)
def new_tool(request: PageRequest) -> HttpResponse:
    """A tool without a source."""
    defaults = {**ToolForm.initial_of(Tool()), "namespace": "public"}
    form = NewToolForm(request.POST or None, initial=defaults)
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                tool = create_tool(actor=actor(request), **form.cleaned_data)
            except Invalid as error:
                form.add_refusals(error)
            except CatalogueError as error:
                form.add_error("tool_id", str(error))
                status = 409
            else:
                messages.success(request, "Saved. Embedding queued.")
                return redirect("tool", pk=tool.pk)
    return render(request, "tools/new.html", {"form": form}, status=status)


@require_http_methods(["GET", "POST"])
@member_page(Role.OPERATOR)
def restore_version(request: PageRequest, pk: UUID, event: int) -> HttpResponse:
    """A tool's fields as they were after an event of its history, after a question that shows what would change."""
    tool = find_tool(request, pk)
    changes = restorable(tool, event)
    if changes is None:
        raise Http404("There is no such version here.")
    back = redirect("tool-history", pk=pk)
    if not changes:
        messages.info(request, "Nothing to restore: the tool is as it was then.")
        return back
    if request.method == "POST":
        version = request.POST.get("version", "")
        try:
            update_tool(
                pk=pk, expected_version=int(version) if version.isdigit() else 0, changes=changes, actor=actor(request)
            )  # fmt: skip
        except CatalogueError as error:
            messages.error(request, f"Nothing was restored. {error}")
        else:
            messages.success(request, "Restored. Embedding queued where its text changed.")
        return back
    question = {"tool": tool, "changes": changes_of(tool, changes), "action": request.path}
    return render(
        request, "history/restore.html#question" if request.htmx else "history/restore.html", question
    )


@require_POST
@member_page(Role.OPERATOR)
def set_active(request: PageRequest, pk: UUID) -> HttpResponse:
    """Deactivates or activates; the form carries the version that its author saw."""
    tool = find_tool(request, pk)
    wanted = request.POST.get("active") == "yes"
    version = request.POST.get("version", "")
    try:
        update_tool(
            pk=tool.pk,
            expected_version=int(version) if version.isdigit() else 0,
            changes={"active": wanted},
            actor=actor(request),
        )
    except CatalogueError as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request,
            "Activated. Agents find this tool again."
            if wanted
            else "Deactivated. Agents no longer find this tool.",
        )
    return redirect("tool", pk=pk)


@require_http_methods(["GET", "POST"])
@member_page(Role.ADMIN)
def delete(request: PageRequest, pk: UUID) -> HttpResponse:
    """Deletes a tool written by hand, after a question."""
    tool = find_tool(request, pk)
    if request.method == "POST":
        try:
            delete_tool(pk=tool.pk, actor=actor(request))
        except CatalogueError as error:
            messages.error(request, str(error))
            return redirect("tool", pk=pk)
        messages.success(request, f"{tool.name} was deleted.")
        return redirect("tool-list")
    question = {
        "title": f"Delete {tool.name}?",
        "effect": "The tool, its vector and its edits are removed. Its history stays. This cannot be undone.",
        "action": request.path,
        "button": "Delete tool",
        "dangerous": True,
        "cancel": reverse("tool", args=[pk]),
    }
    return render(request, "shell/confirm.html#question" if request.htmx else "shell/confirm.html", question)
