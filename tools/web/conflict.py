"""Two people edited one tool. What the second one wrote is merged with what the first one saved, field by field, from the
version that both saw; only what both changed needs a decision. Nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.apps import apps

from tools.models import Tool
from tools.web.diff import Segment, as_text, word_diff
from tools.web.forms import ToolForm


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that differs: their text, ours, and from theirs to ours word by word. `contested`: both changed it."""

    name: str
    label: str
    theirs: str
    yours: str
    diff: list[Segment]
    contested: bool


@dataclass(frozen=True, slots=True)
class Merge:
    """`values` for the form (yours, and theirs where you changed nothing), what differs, and what you get from them."""

    values: dict[str, Any]
    differing: list[FieldConflict]
    taken_over: list[FieldConflict]


def seen_version(tool: Tool, version: int) -> Mapping[str, Any] | None:
    """The tool's fields as they were at `version`, from the history; None if it does not reach back that far."""
    events = apps.get_model("tools", "ToolEvent").objects.filter(pgh_obj_id=tool.pk, version=version)
    event = events.order_by("-pgh_id").values().first()
    return dict(event) if event else None


def merge(current: Tool, seen: Mapping[str, Any] | None, form: ToolForm) -> Merge:
    """`form` is bound and valid; `seen` is the version that its author started from."""
    values: dict[str, Any] = {}
    differing: list[FieldConflict] = []
    taken_over: list[FieldConflict] = []
    for name, yours in form.cleaned_data.items():
        if name == "version":
            values[name] = current.version
            continue
        theirs = getattr(current, name)
        untouched = seen is not None and yours == seen[name]
        values[name] = theirs if untouched else yours
        if yours == theirs:
            continue
        contested = seen is None or (not untouched and theirs != seen[name])
        entry = FieldConflict(
            name=name,
            label=str(form[name].label),
            theirs=as_text(theirs),
            yours=as_text(yours),
            diff=word_diff(as_text(yours), as_text(theirs))
            if untouched
            else word_diff(as_text(theirs), as_text(yours)),
            contested=contested,
        )
        (taken_over if untouched else differing).append(entry)
    return Merge(values, differing, taken_over)
