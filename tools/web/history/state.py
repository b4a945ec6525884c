"""The history of a tool as people read it: who did what, when, and word by word what changed (CAT-8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Model
from django.utils.text import capfirst

from tools import fields
from tools.catalogue import history
from tools.catalogue.history import Entry, Event
from tools.catalogue.parameter_descriptions import parameter_descriptions, with_descriptions
from tools.models import ManualOverride, McpServer, Source, Tool
from tools.web.overrides.state import label_of
from tools.web.shell.diff import Segment, as_text, word_diff
from tools.web.shell.forms import number

PAGE = 25
_MOST_JSON = 4000  # characters of two objects whose difference is still worth reading
# Fields that pages do not show as changes.
_IGNORED = {"description_source"}


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one field, as a diff."""

    label: str
    diff: list[Segment]


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One event: `what` in words, with the changes of its fields. `event` is its number, of a state that can be restored."""

    when: datetime
    who: str
    what: str
    changes: list[Change]
    version: int | None = None
    event: int | None = None


def tool_history(pk: UUID, *, page: int = 1) -> tuple[list[EntryRow], bool]:
    """A page of the entries of a tool and its overrides, newest first, and whether older entries exist."""
    found = history.tool_history(pk, limit=page * PAGE + 1)
    return [entry_row(entry) for entry in found[(page - 1) * PAGE : page * PAGE]], len(found) > page * PAGE


def settings_history(row: Source | McpServer, limit: int = 10) -> list[EntryRow]:
    """The newest `limit` entries of a source or a server, newest first."""
    # By number: the time of an event is that of its transaction's start, and the first entry is the row's state.
    entries = history.entries(type(row), limit, order=["-pgh_id"], pgh_obj_id=row.pk)
    if isinstance(row, Source):
        _name_servers(entries)
    return [entry_row(entry) for entry in entries]


def entry_row(entry: Entry) -> EntryRow:
    """An event of any tracked row in words."""
    return _override_row(entry) if entry.model is ManualOverride else _model_row(entry)


def _name_servers(entries: Iterable[Entry]) -> None:
    """Replaces the ids of servers by their names, also of deleted servers."""
    rows = [event for entry in entries for event in (entry.row, entry.before) if event is not None]
    ids = {row["server_id"] for row in rows} - {None}
    events = history.events(McpServer).filter(pgh_obj_id__in=ids).order_by("pgh_id")
    slugs = dict(events.values_list("pgh_obj_id", "slug"))
    for row in rows:
        row["server_id"] = slugs.get(row["server_id"], row["server_id"])


def settings_at(row: Source | McpServer, event: str, names: Iterable[str]) -> dict[str, Any]:
    """The values of these fields after an event of this source or server; {} if there is no such event."""
    found = _state_after(row, number(event))
    if found is None:
        return {}
    if "server_id" in found:
        found["server"] = McpServer.objects.filter(pk=found["server_id"]).first()
    return {name: found[name] for name in names}


def _state_after(row: Model, event: int) -> Event | None:
    """The columns of a row after an event of it; None if there is no such event, or it deleted the row."""
    found = history.events(type(row)).filter(pgh_obj_id=row.pk, pgh_id=event)
    return found.exclude(pgh_label="delete").values().first()


def last_author(row: Source | McpServer) -> str:
    """The author of the newest event, for the start of a sentence."""
    found = history.events(type(row)).filter(pgh_obj_id=row.pk).order_by("-pgh_id").first()
    return str(((found and found.pgh_context) or {}).get("actor") or "Somebody")


def restorable(tool: Tool, event: int) -> dict[str, Any] | None:
    """The changes with which update_tool restores the tool to its state after this event; None if there is no such event.
    `active` is never restored, nor are the schemas of an imported tool, which belong to its source."""
    row = _state_after(tool, event)
    if row is None:
        return None
    kept = {"active", *(fields.SOURCE_OWNED if tool.endpoint_id else ())}
    changes = {
        name: row[name]
        for name in sorted(fields.EDITABLE)
        if name not in kept and row[name] != getattr(tool, name)
    }
    if tool.endpoint_id:
        now, then = parameter_descriptions(tool.parameters), parameter_descriptions(row["parameters"])
        texts = {name: then[name] for name in now.keys() & then.keys() if now[name] != then[name]}
        if texts:
            changes["parameter_descriptions"] = dict(sorted(texts.items()))
    return changes


def changes_of(tool: Tool, changes: Mapping[str, Any]) -> list[Change]:
    """The differences that these arguments of update_tool make to the tool, word by word."""
    texts, now = changes.get("parameter_descriptions", {}), parameter_descriptions(tool.parameters)
    return [
        *(
            Change(_words(label_of(name)), _field_diff(getattr(tool, name), value))
            for name, value in changes.items()
            if name != "parameter_descriptions"
        ),
        *(Change(f"Description of {name}", word_diff(now[name], text)) for name, text in texts.items()),
    ]


def _model_row(entry: Entry) -> EntryRow:
    labels = {field.attname: field.verbose_name for field in entry.model._meta.concrete_fields}
    changes = [
        change
        for name, old, new in entry.changes(_IGNORED)
        for change in _changes(
            name, _words(label_of(name) if entry.model is Tool else labels[name]), old, new
        )
    ]
    row = entry.row
    return EntryRow(
        row["pgh_created_at"],
        entry.actor or "unknown",
        f"{_words(entry.model._meta.verbose_name)} {entry.verb}",
        changes,
        row.get("version"),
        row["pgh_id"] if entry.verb != "deleted" else None,
    )


def _changes(name: str, label: str, old: Any, new: Any) -> Iterator[Change]:
    """Yields the changes of a field. A schema yields its changed descriptions, and one entry for the rest if that changed."""
    if name != "parameters":
        yield Change(label, _field_diff(old, new))
        return
    before, after = parameter_descriptions(old), parameter_descriptions(new)
    texts = {one: after[one] for one in before.keys() & after.keys() if before[one] != after[one]}
    for one in sorted(texts):
        yield Change(f"Description of {one}", word_diff(before[one], texts[one]))
    if with_descriptions(old, texts) != with_descriptions(new, texts):
        yield Change(label, [Segment("same", "changed")])


def _override_row(entry: Entry) -> EntryRow:
    row, before, label = entry.row, entry.before, label_of(entry.row["field"])
    changes: list[Change] = []
    if entry.verb == "created":
        # The tool's own event of the same edit shows the difference.
        what = f"Reset of {label} undone" if "undo" in entry.context else f"Imported {label} overridden"
    elif entry.verb == "deleted":
        what = f"Override of {label} {'reset to imported' if 'reset' in entry.context else 'removed'}"
    elif before is not None and before["value"] == row["value"]:
        what = f"Override of {label} kept over a newer imported text"
        changes = [Change("Imported text", _field_diff(before["imported_value"], row["imported_value"]))]
    else:
        what = f"Override of {label} changed"
    return EntryRow(row["pgh_created_at"], entry.actor or "unknown", what, changes)


def _field_diff(old: object, new: object) -> list[Segment]:
    before, after = as_text(old), as_text(new)
    # The difference of two objects as large as schemas is unreadable.
    if (
        isinstance(old, dict | None)
        and isinstance(new, dict | None)
        and len(before) + len(after) > _MOST_JSON
    ):
        return [Segment("same", "changed")]
    return word_diff(before, after)


_CAPITALS = {"mcp": "MCP", "url": "URL"}


def _words(name: object) -> str:
    return capfirst(" ".join(_CAPITALS.get(word, word) for word in str(name).replace("_", " ").split()))
