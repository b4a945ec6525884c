"""The history of a tool as people read it: who did what, when, and word by word what changed (CAT-8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.apps import apps

from tools.models import ManualOverride, Tool
from tools.web.diff import Segment, as_text, word_diff

PAGE = 25
# Bookkeeping of a row; its meaning is told by the other fields.
_SILENT = {
    "id", "tenant_id", "version", "updated_by", "description_source", "created_at", "download_count", "source_id",
}  # fmt: skip
_VERBS = {"insert": "created", "update": "changed", "delete": "deleted"}


@dataclass(frozen=True, slots=True)
class Change:
    """One field's step from old to new."""

    label: str
    diff: list[Segment]


@dataclass(frozen=True, slots=True)
class Entry:
    """One event: `what` in words, with the changes of its fields."""

    when: datetime
    who: str
    what: str
    changes: list[Change]
    version: int | None


def tool_history(pk: UUID, *, page: int = 1) -> tuple[list[Entry], bool]:
    """A page of entries, newest first, and whether older ones follow."""
    wanted = page * PAGE + 1
    entries = [
        *_entries(Tool, {"pgh_obj_id": pk}, wanted),
        *_entries(ManualOverride, {"tool_id": pk}, wanted),
    ]
    entries.sort(key=lambda entry: entry.when, reverse=True)
    return entries[(page - 1) * PAGE : page * PAGE], len(entries) > page * PAGE


def _entries(model: type[Any], which: Mapping[str, Any], wanted: int) -> Iterable[Entry]:
    event_model = apps.get_model("tools", f"{model.__name__}Event")
    rows = list(event_model.objects.filter(**which).order_by("-pgh_id").values()[: wanted + 1])
    for index, row in enumerate(rows[:wanted]):
        before = next(
            (older for older in rows[index + 1 :] if older["pgh_obj_id"] == row["pgh_obj_id"]), None
        )
        yield (_tool_entry if model is Tool else _override_entry)(model, row, before)


def _tool_entry(model: type[Any], row: Mapping[str, Any], before: Mapping[str, Any] | None) -> Entry:
    changes: list[Change] = []
    if row["pgh_label"] == "update" and before is not None:
        for field in model._meta.concrete_fields:
            name = field.attname
            if name in row and name not in _SILENT and row[name] != before[name]:
                changes.append(Change(_words(field.verbose_name), _field_diff(before[name], row[name])))
    return Entry(
        row["pgh_created_at"], _who(row), f"Tool {_VERBS[row['pgh_label']]}", changes, row["version"]
    )


def _override_entry(model: type[Any], row: Mapping[str, Any], before: Mapping[str, Any] | None) -> Entry:
    label, field = row["pgh_label"], row["field"]
    changes: list[Change] = []
    if label == "insert":
        # What was changed stands in the tool's own event of the same edit.
        what = f"Imported {field} overridden"
    elif label == "delete":
        what = f"Override of {field} removed"
    elif before is not None and before["value"] == row["value"]:
        what = f"Override of {field} kept over a newer imported text"
        changes = [Change("Imported text", _field_diff(before["imported_value"], row["imported_value"]))]
    else:
        what = f"Override of {field} changed"
    return Entry(row["pgh_created_at"], _who(row), what, changes, None)


def _field_diff(old: Any, new: Any) -> list[Segment]:
    if isinstance(old, dict) or isinstance(new, dict):
        # A schema's diff belongs to the schema changelog; here it is enough that it changed.
        return [Segment("same", "changed")]
    return word_diff(as_text(old), as_text(new))


def _words(name: Any) -> str:
    text = str(name).replace("_", " ")
    return text[:1].upper() + text[1:]


def _who(row: Mapping[str, Any]) -> str:
    context = row["pgh_context"] or {}
    return str(context.get("actor") or context.get("metadata", {}).get("actor") or "unknown")
