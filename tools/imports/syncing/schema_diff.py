"""What has changed from one JSON Schema (or any JSON value) to the next, in lines that people read. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tools.imports.formats.specs import JsonValue

_SHOWN = 80  # characters of a value
_MOST_LINES = 40


def changes(old: JsonValue, new: JsonValue) -> list[str]:
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
