"""Two people edited one thing. What the second one wrote is merged with what the first one saved, field by field, from the
version that both saw; only what both changed needs a decision. Nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.web.shell.diff import Segment, as_text, word_diff
from tools.web.shell.forms import PortalForm


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
    """`values` for the form (yours, and theirs where you changed nothing), what differs, what you get from them, and what
    you wrote of parameters that are no longer there."""

    values: dict[str, Any]
    differing: list[FieldConflict] = field(default_factory=list)
    taken_over: list[FieldConflict] = field(default_factory=list)
    gone: dict[str, str] = field(default_factory=dict)


def merge(now: Mapping[str, Any], seen: Mapping[str, Any] | None, form: PortalForm) -> Merge:
    """`form` is bound and valid; `now` are the values that are stored, `seen` those that its author started from."""
    merged = Merge(values={**now})
    for name, yours in form.cleaned_data.items():
        # A parameter may have come after the author opened the form, or gone since the form was made.
        if name not in now or form[name].is_hidden:
            continue
        theirs = now[name]
        untouched = seen is not None and yours == seen.get(name, theirs)
        if yours == theirs:
            continue
        if not untouched:
            merged.values[name] = yours
        entry = FieldConflict(
            name=name,
            label=str(form[name].label),
            theirs=as_text(theirs),
            yours=as_text(yours),
            diff=word_diff(as_text(yours), as_text(theirs))
            if untouched
            else word_diff(as_text(theirs), as_text(yours)),
            contested=seen is None or (not untouched and theirs != seen.get(name)),
        )
        (merged.taken_over if untouched else merged.differing).append(entry)
    return merged
