"""The texts of foreign documents: which characters are kept, and how HTML becomes text that reads well.

There is one rule for characters, applied to keys and values of every document before anything else sees them.
Tool text stays untrusted after it: escaping belongs to the pages, and flags for hidden characters to the
security scan.
"""

from __future__ import annotations

import html
import json
import math
import re
from typing import Self

# PostgreSQL holds no NUL and no lone surrogate, terminals obey C0 and C1, and XML refuses the two
# non-characters.
_REMOVED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Breaks that are not a line feed become one, so that a text has one kind of line end; libyaml would take
# U+2028 for one.
_BREAKS = re.compile("\r\n?|[\u2028\u2029]")

_CODE = r"(?P<code>```[^`]*```|`[^`\n]*`)"
_COMMENT = r"<!--[^<>]*-->|<(?:script|style)\b[^<>]*>[^<]*</(?:script|style)\s*>"
_BLOCKS = (
    "p|br|hr|div|ul|ol|dl|dt|dd|tr|table|thead|tbody|h[1-6]|blockquote|section|article|details|summary|pre"
)
_LINE = rf"(?P<line></?(?:{_BLOCKS})\b[^<>]*>)"
_ITEM = r"(?P<item><li\b[^<>]*>)"
_TICK = r"(?P<tick></?(?:code|kbd|tt)\b[^<>]*>)"
_CELL = r"(?P<cell></?(?:td|th)\b[^<>]*>)"
_INLINE = (
    r"</?(?:a|abbr|b|big|center|cite|del|em|font|i|img|input|ins|li|mark|q|s|small|span|strike|strong|sub|sup|u|var)"
    r"(?:\s[^<>]*)?/?>"
)
_ENTITY = r"(?P<entity>&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,30});)"
_MARKUP = re.compile(
    f"{_CODE}|{_COMMENT}|{_LINE}|{_ITEM}|{_TICK}|{_CELL}|{_INLINE}|{_ENTITY}",
    re.IGNORECASE,
)
_REPLACED_BY = {"line": "\n", "item": "\n- ", "tick": "`", "cell": " "}
_BLANK_LINES = re.compile(r"\n{3,}")


class WrittenFloat(float):
    """A number that was written in another way than JSON writes it: `1.10` may be an amount or a version, as its place tells."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made


def without_controls(text: str) -> tuple[str, int]:
    """The text without what a catalogue cannot hold or a terminal would obey, and how much was removed."""
    if not text.isprintable():
        return _REMOVED.subn("", _BREAKS.sub("\n", text))
    return text, 0


def clean_value(value: object) -> object:
    """A JSON value by the same rule, in all its keys and texts; numbers that JSON cannot hold become text."""
    if isinstance(value, str):
        return without_controls(value)[0]
    if isinstance(value, dict):
        return {without_controls(str(key))[0]: clean_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [clean_value(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def as_text(value: object) -> str:
    """A scalar as text (numbers as they were written, booleans as JSON writes them), anything else as the empty text."""
    if isinstance(value, str):
        return value
    if isinstance(value, WrittenFloat):
        return value.text
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return ""


def truncate(text: str, limit: int) -> str:
    """The text, or its first characters and an ellipsis: at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def plain_text(value: object, *, limit: int) -> str:
    """A description as readable text of at most `limit` characters: HTML goes, Markdown and code stay."""
    # Cutting first keeps the work per text bounded; markup seldom makes up more than three quarters of a
    # text.
    text = as_text(value)[: 4 * limit]
    if "<" in text or "&" in text:
        text = without_controls(_MARKUP.sub(_readable, text))[0]
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return truncate(_BLANK_LINES.sub("\n\n", lines).strip(), limit)


def one_line(value: object, *, limit: int) -> str:
    """A title or a name: readable text on one line."""
    return truncate(" ".join(plain_text(value, limit=4 * limit).split()), limit)


def _readable(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind == "code":
        return match.group()
    if kind == "entity":
        return html.unescape(match.group())
    return _REPLACED_BY.get(kind or "", "")
