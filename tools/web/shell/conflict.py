"""Edit conflicts: the second author's form is merged with what the first one saved, field by field, from the version that
both saw. Only fields that both changed need a decision. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.web.history.state import settings_at
from tools.web.shell.diff import Segment, as_text, word_diff
from tools.web.shell.forms import PortalForm, SettingsForm


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that differs: the saved text, the form's text, and the diff between them. `contested`: both changed it."""

    label: str
    theirs: str
    yours: str
    diff: list[Segment]
    contested: bool


@dataclass(frozen=True, slots=True)
class Merge:
    """The merged `values` of the form, the fields that differ, the labels of those taken over from the saved version, and the
    texts of parameters that no longer exist."""

    values: dict[str, object]
    differing: list[FieldConflict] = field(default_factory=list)
    taken_over: list[str] = field(default_factory=list)
    gone: dict[str, str] = field(default_factory=dict)


def merge(now: Mapping[str, object], seen: Mapping[str, object] | None, form: PortalForm) -> Merge:
    """Merges a bound and valid form with the stored values `now`; `seen` are the values that its author started from."""
    merged = Merge(values={**now})
    for name, yours in form.cleaned_data.items():
        # A parameter may have been added or removed since the author opened the form.
        if name not in now or form[name].is_hidden or yours == now[name]:
            continue
        label, theirs = str(form[name].label), now[name]
        if seen is not None and yours == seen.get(name, theirs):
            merged.taken_over.append(label)
            continue
        merged.values[name] = yours
        before, after = as_text(theirs), as_text(yours)
        contested = seen is None or theirs != seen.get(name)
        merged.differing.append(FieldConflict(label, before, after, word_diff(before, after), contested))
    return merged


def merge_settings(row: Any, form: SettingsForm) -> Merge:
    """Merges a form of settings with those that somebody else has saved since."""
    seen = settings_at(row, str(form.cleaned_data["seen"]), form.names)
    return merge(form.values_of(row), seen or None, form)
