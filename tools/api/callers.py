"""Who asks, and which tools that key may see."""

from __future__ import annotations

from contextlib import suppress
from typing import cast
from uuid import UUID

from django.db.models import Prefetch, QuerySet
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request

from embeddings import slots
from portal.tenancy.keys import Caller
from portal.tenancy.models import Scope, Sensitivity
from tools.models import Tool, ToolEmbedding, Visibility


def caller_of(request: Request) -> Caller:
    return cast(Caller, request.auth)


def _tools() -> QuerySet[Tool]:
    """With what a full answer needs."""
    serving = ToolEmbedding.objects.filter(slot=slots.serving().number).defer("vector")
    tools: QuerySet[Tool] = Tool.objects.select_related("source").prefetch_related(
        Prefetch("embeddings", serving)
    )
    return tools


def visible_tools(caller: Caller) -> QuerySet[Tool]:
    """The tools that this key may see one by one, with what a full answer needs; private ones only if it may edit."""
    tools = _tools().filter(sensitivity__in=Sensitivity.up_to(caller.max_sensitivity))
    return tools if may_edit(caller) else tools.exclude(visibility=Visibility.PRIVATE)


def find_tool(caller: Caller, ref: str, namespace: str) -> Tool:
    """By UUID, or by tool_id within the namespace. A foreign and an unknown one give the same 404."""
    tool = None
    with suppress(ValueError):
        tool = visible_tools(caller).filter(pk=UUID(ref)).first()
    # A tool_id may look like a UUID, too.
    tool = tool or visible_tools(caller).filter(tool_id=ref, namespace=namespace).first()
    if tool is None:
        raise NotFound(f"There is no tool {ref!r} here.")
    return tool


def written_tool(pk: UUID) -> Tool:
    """A tool as the caller has just written it, which may have taken it out of the caller's sight."""
    tool: Tool = _tools().get(pk=pk)
    return tool


def may_edit(caller: Caller) -> bool:
    return bool(caller.scopes & {Scope.TOOLS_WRITE, Scope.ADMIN})


def namespace_of(request: Request) -> str:
    """Of a tool that the address names by its tool_id."""
    return str(request.query_params.get("namespace", "public"))


def actor_of(caller: Caller) -> str:
    """The author that the history names."""
    return f"API key {caller.key_name}"


def require_scope(caller: Caller, scope: Scope) -> None:
    """Beside the view's own `required_scope`, where what is asked for needs more."""
    if not caller.scopes & {scope, Scope.ADMIN}:
        raise PermissionDenied(f"This key lacks the scope {scope}.")


def require_unbound(caller: Caller) -> None:
    """Whole documents and plans tell of every tool, so a key that may not see all of them may not read these."""
    if caller.max_sensitivity != Sensitivity.RESTRICTED:
        raise PermissionDenied(f"This key is bound to tools that are {caller.max_sensitivity} at most.")
