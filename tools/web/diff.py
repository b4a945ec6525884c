"""Word by word, what one text has that the other has not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
# The comparison is quadratic at worst; past this the texts are shown one after the other.
_MOST_WORDS = 3000


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of text: `kind` is same, gone (only in the old) or new (only in the new)."""

    kind: str
    text: str


def word_diff(old: str, new: str) -> list[Segment]:
    """The segments of both texts in reading order; joined without the new ones they are `old`, without the gone, `new`."""
    if old == new:
        return [Segment("same", old)] if old else []
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    if len(before) > _MOST_WORDS or len(after) > _MOST_WORDS:
        return [segment for segment in (Segment("gone", old), Segment("new", new)) if segment.text]
    return list(_segments(before, after))


def _segments(before: list[str], after: list[str]) -> Iterator[Segment]:
    for tag, from_old, to_old, from_new, to_new in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield Segment("same", "".join(before[from_old:to_old]))
            continue
        if to_old > from_old:
            yield Segment("gone", "".join(before[from_old:to_old]))
        if to_new > from_new:
            yield Segment("new", "".join(after[from_new:to_new]))


def as_text(value: Any) -> str:
    """A field's value as people read it: lists one entry a line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return "\n".join(str(entry) for entry in value)
    return str(value)
