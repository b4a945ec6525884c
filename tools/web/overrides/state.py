"""An override as pages show it, beside what its source says now; and the resets that a visitor may undo. No view."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict
from uuid import UUID

from django.utils import timezone

from tools import fields
from tools.catalogue import overrides
from tools.catalogue.overrides import OverrideStatus
from tools.models import PARAMETER_PREFIX, ManualOverride, Tool
from tools.web.shell.access import TenantRequest
from tools.web.shell.diff import Segment, as_text, word_diff

_MOST_UNDO = 5


@dataclass(frozen=True, slots=True)
class OverrideRow:
    """An override beside what its source says now. `diff` leads from the imported text to the operator's, `moved` from the
    imported text that was overridden to that of now; it is empty where they are the same."""

    override: ManualOverride
    label: str
    imported: str
    diff: list[Segment]
    moved: list[Segment]
    conflict: bool
    gone: bool


class ResetNote(TypedDict):
    """A reset in the visitor's session: its id, what it reset, when (seconds since 1970), and the tool if it was only one."""

    reset: str
    what: str
    at: float
    tool: str


def override_row(override: ManualOverride, status: OverrideStatus) -> OverrideRow:
    imported, value = as_text(status.imported), as_text(override.value)
    return OverrideRow(
        override=override,
        label=label_of(override.field),
        imported=imported,
        diff=word_diff(imported, value),
        moved=word_diff(as_text(override.imported_value), imported) if status.conflict else [],
        conflict=status.conflict,
        gone=status.gone,
    )


def overrides_of(tool: Tool) -> list[OverrideRow]:
    """The overrides of one tool, conflicts first."""
    mine = ManualOverride.objects.filter(tool=tool)
    rows = mine.in_bulk()
    return [override_row(rows[one.pk], one) for one in overrides.override_statuses(mine) if one.pk in rows]


def label_of(field: str) -> str:
    """The name of a tool's field within a sentence."""
    if field.startswith(PARAMETER_PREFIX):
        return f"description of {field.removeprefix(PARAMETER_PREFIX)}"
    known = fields.BY_NAME.get(field)
    return known.words if known else field.replace("_", " ")


def remember_reset(request: TenantRequest, reset: UUID, what: str, chosen: list[OverrideStatus]) -> None:
    """Keeps the reset in the session, so that its visitor is offered to undo it."""
    tools = {str(one.tool_id) for one in chosen}
    entry: ResetNote = {
        "reset": str(reset), "what": what, "at": timezone.now().timestamp(),
        "tool": tools.pop() if len(tools) == 1 else "",
    }  # fmt: skip
    request.session[_key(request)] = [entry, *undoable(request)][:_MOST_UNDO]


def forget_resets(request: TenantRequest, resets: Collection[UUID]) -> None:
    request.session[_key(request)] = [one for one in undoable(request) if UUID(one["reset"]) not in resets]


def undoable(request: TenantRequest, tool: UUID | None = None) -> list[ResetNote]:
    """The visitor's resets of the last ten minutes, newest first; only those of one tool if `tool` is given."""
    start = (timezone.now() - overrides.UNDO + timedelta(seconds=5)).timestamp()
    return [
        one
        for one in request.session.get(_key(request), [])
        if one["at"] > start and (tool is None or one["tool"] == str(tool))
    ]


def _key(request: TenantRequest) -> str:
    """By tenant, since a note names tools."""
    return f"resets {request.member.tenant_id}"
