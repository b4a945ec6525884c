"""A plan's changes as pages show them: what is done to which tool, and each field's difference. No view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils.text import capfirst

from tools.imports.syncing.differences import SCHEMAS
from tools.models import Action, SyncChange, SyncState, Tool
from tools.web.overrides.state import label_of
from tools.web.shell.badges import Badge
from tools.web.shell.diff import Segment, as_text, word_diff

STATES = {
    SyncState.PLANNED: Badge("running", "Planned", "list-task", "Waiting to be applied or discarded."),
    SyncState.APPLIED: Badge("ready", "Applied", "check-circle-fill", "Its changes were made."),
    SyncState.DISCARDED: Badge("disabled", "Discarded", "slash-circle", "Nothing was changed."),
    SyncState.FAILED: Badge(
        "failed", "Failed", "x-octagon-fill", "The source could not be read; nothing was changed."
    ),
}
ACTIONS = {
    Action.ADD: Badge("ready", "Added", "plus-lg", "A new tool."),
    Action.CHANGE: Badge("running", "Changed", "pencil-square", "An existing tool."),
    Action.MOVE: Badge(
        "running",
        "Moved",
        "arrow-left-right",
        "Another path or method; the tool keeps its id, overrides and history.",
    ),
    Action.REMOVE: Badge("failed", "Removed", "trash", "The tool is deactivated and keeps its overrides."),
}


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field's difference: of a text by words, of a schema in `lines`. `override` is "conflict" where an operator's value
    stays while the imported value changes, and "reset" where the override is removed."""

    label: str
    diff: list[Segment]
    lines: list[str]
    override: str


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One row of the plan."""

    change: SyncChange
    ticked: bool
    has_tool: bool

    @property
    def badge(self) -> Badge:
        return ACTIONS[Action(self.change.action)]

    @property
    def fields(self) -> list[FieldRow]:
        """The fields without the key, which the head of the row shows."""
        return [_field_row(**one) for one in self.change.fields if one["field"] != "key"]

    @property
    def overwrites(self) -> bool:
        """Whether an override is removed, because sync wins."""
        return any(one["override"] == "reset" for one in self.change.fields)

    @property
    def kept(self) -> list[str]:
        return [label_of(name) for name in self.change.kept]


def _field_row(field: str, before: object, after: Any, override: str) -> FieldRow:
    lines = after if field in SCHEMAS else []
    diff = [] if field in SCHEMAS else word_diff(as_text(before), as_text(after))
    return FieldRow(capfirst(label_of(field)), diff, lines, override)


def change_rows(changes: list[SyncChange], has: Callable[[SyncChange], bool]) -> list[ChangeRow]:
    """The changes as rows; `has` tells whether a change is ticked."""
    pks = [one.tool_uuid for one in changes if one.tool_uuid]
    known = set(Tool.objects.filter(pk__in=pks).values_list("pk", flat=True))
    return [ChangeRow(change, has(change), change.tool_uuid in known) for change in changes]
