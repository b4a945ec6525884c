"""Who asks, and which tools that key may see."""

from __future__ import annotations

from contextlib import suppress
from typing import cast
from uuid import UUID

from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request

from portal.tenancy.keys import Caller
from portal.tenancy.rights import Rights
from tools.models import Tool, ToolQuerySet


def caller_of(request: Request) -> Caller:
    return cast(Caller, request.auth)


def rights_of(request: Request) -> Rights:
    """What the key of the request may see and do."""
    return Rights.of_key(caller_of(request))


def with_answer_rows(tools: ToolQuerySet) -> ToolQuerySet:
    """The tools with what a full answer needs."""
    return tools.select_related("source").with_serving_embedding()


def visible_tools(caller: Caller) -> ToolQuerySet:
    """The tools that this key may see one by one, with what a full answer needs; private ones only if it may edit."""
    return with_answer_rows(Tool.objects.visible_to(Rights.of_key(caller)))


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
    return with_answer_rows(Tool.objects.all()).get(pk=pk)


def namespace_of(request: Request) -> str:
    """Of a tool that the address names by its tool_id."""
    return str(request.query_params.get("namespace", "public"))


def actor_of(caller: Caller) -> str:
    """The author that the history names."""
    return Rights.of_key(caller).actor


def require_unbound(caller: Caller) -> None:
    """Whole documents and plans tell of every tool, so a key that may not see all of them may not read these."""
    if not Rights.of_key(caller).sees_all_sensitivities:
        raise PermissionDenied(f"This key is bound to tools that are {caller.max_sensitivity} at most.")
