"""The changes that a sync makes to one tool, field by field, as a plan shows them. Reads no rows but those that it is given."""

from __future__ import annotations

import json
from collections.abc import Iterator

from portal.json_types import JsonObject, JsonValue
from tools.catalogue.parameter_descriptions import parameter_descriptions
from tools.models import PARAMETER_PREFIX, Tool

SCHEMAS = ("parameters", "output", "annotations")  # a change of these is shown as lines of differences
_NOT_SHOWN = ("description_source", "source_protocol")  # not shown in a plan
_SHOWN = 80  # characters of a value
_MOST_LINES = 40


def field_changes(
    tool: Tool, before: JsonObject, after: JsonObject, overrides: JsonObject, *, sync_wins: bool
) -> Iterator[JsonObject]:
    """Yields one `field_change` a field that differs between what the tool's source provided and what it provides now.
    `override` is "conflict" where an operator's value stays over a new imported one, and "reset" where the source's syncs win."""
    override = "reset" if sync_wins else "conflict"
    texts = [name for name in overrides if name.startswith(PARAMETER_PREFIX)]
    for name, new in after.items():
        if name in _NOT_SHOWN:
            continue
        is_overridden = name in overrides and not sync_wins
        # Of what an operator's value covers, the source's own.
        is_covered = is_overridden or (name == "parameters" and texts and not sync_wins)
        old = before.get(name) if is_covered else getattr(tool, name)
        if old == new or (is_overridden and new == overrides[name]):
            continue
        shown = ([], _schema_changes(old, new)) if name in SCHEMAS else (old, new)
        yield field_change(name, shown[0], shown[1], override if name in overrides else "")
    if not texts:
        return
    old_texts = parameter_descriptions(tool.parameters if sync_wins else before["parameters"])
    new_texts = parameter_descriptions(after["parameters"])
    for name in texts:
        old, new = (found.get(name.removeprefix(PARAMETER_PREFIX), "") for found in (old_texts, new_texts))
        if old != new and (sync_wins or new != overrides[name]):
            yield field_change(name, old, new, override)


def field_change(name: str, before: JsonValue, after: JsonValue, override: str = "") -> JsonObject:
    """One entry of SyncChange.fields."""
    return {"field": name, "before": before, "after": after, "override": override}


def _schema_changes(old: JsonValue, new: JsonValue) -> list[str]:
    """One line a difference, by the path to it: `added properties/limit`, `properties/limit/maximum: 10 → 100`."""
    lines: list[str] = []
    for line in _differences(old, new, ""):
        if len(lines) == _MOST_LINES:
            return [*lines, "… and more"]
        lines.append(line)
    return lines


def _differences(old: JsonValue, new: JsonValue, path: str) -> Iterator[str]:
    if old == new and isinstance(old, bool) == isinstance(new, bool):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys(), key=str):
            at = f"{path}/{key}" if path else str(key)
            if key not in old:
                yield f"added {at}"
            elif key not in new:
                yield f"removed {at}"
            else:
                yield from _differences(old[key], new[key], at)
    else:
        yield f"{path or 'the whole'}: {_shown(old)} → {_shown(new)}"


def _shown(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
