"""Word diffs of two texts. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
# The comparison is quadratic at worst; longer texts are shown one after the other.
_MOST_WORDS = 3000
_BRIDGE = 4  # characters: shorter equal stretches between two changes are shown as changed


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of text: `kind` is same, gone (only in the old) or new (only in the new)."""

    kind: str
    text: str


def word_diff(old: str, new: str) -> list[Segment]:
    """The segments of both texts in reading order. Joined without the new segments they are `old`, without the gone ones `new`."""
    if old == new:
        return [Segment("same", old)] if old else []
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    if len(before) > _MOST_WORDS or len(after) > _MOST_WORDS:
        return [segment for segment in (Segment("gone", old), Segment("new", new)) if segment.text]
    return list(_segments(before, after))


def _segments(before: list[str], after: list[str]) -> Iterator[Segment]:
    """Joins changes that are separated by short equal stretches, so that whole phrases are marked, not single words."""
    gone: list[str] = []
    new: list[str] = []
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for place, (tag, from_old, to_old, from_new, to_new) in enumerate(blocks):
        same = "".join(before[from_old:to_old]) if tag == "equal" else ""
        is_bridge = 0 < place < len(blocks) - 1 and len(same.strip()) < _BRIDGE and "\n" not in same
        if tag == "equal" and not is_bridge:
            yield from _changed(gone, new)
            gone, new = [], []
            yield Segment("same", same)
        else:
            gone += before[from_old:to_old]
            new += after[from_new:to_new]
    yield from _changed(gone, new)


def _changed(gone: list[str], new: list[str]) -> Iterator[Segment]:
    if gone:
        yield Segment("gone", "".join(gone))
    if new:
        yield Segment("new", "".join(new))


def as_text(value: object) -> str:
    """A field's value as text: lists with one entry per line, objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return "\n".join(str(entry) for entry in value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) if value else ""
    return str(value)
