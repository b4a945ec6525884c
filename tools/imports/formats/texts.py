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
import unicodedata
from functools import lru_cache
from html.entities import html5
from typing import Self

# PostgreSQL holds no NUL and no lone surrogate, terminals obey C0 and C1, and XML refuses the two
# non-characters.
_REMOVED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
# Breaks that are not a line feed become one, so that a text has one kind of line end; libyaml would take
# U+2028 for one.
_BREAKS = re.compile("\r\n?|[\u2028\u2029]")
MARK = "\ufffd"
"""Ends a key that would otherwise be another one, once its control characters are removed."""
# The line end of mainframes. A blank, since it may stand in a text of JSON, where no line ends.
_NEXT_LINE = "\x85"

_BLOCKS = (
    "p|br|hr|div|ul|ol|dl|dt|dd|tr|table|thead|tbody|h[1-6]|blockquote|section|article|details|summary|pre"
)
_INLINE = "a|abbr|b|big|center|cite|del|em|font|i|img|input|ins|li|mark|q|s|small|span|strike|strong|sub|sup|u|var|code|kbd|tt|td|th"
_MARKUP = re.compile(
    r"(?P<code>```[^`]*```|`[^`\n]*`)"
    r"|<!--[^<>]*-->|<(?:script|style)\b[^<>]*>[^<]*</(?:script|style)\s*>"
    rf"|<(?P<end>/?)(?P<tag>{_BLOCKS}|{_INLINE})(?P<attributes>\s[^<>]*)?/?>"
    r"|(?P<entity>&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,30});)",
    re.IGNORECASE,
)
_BLOCK = re.compile(_BLOCKS, re.IGNORECASE)
_FIRST_ATTRIBUTE = re.compile(r"\s+[\w:-]+\s*=")
_REPLACED_BY = {"code": "`", "kbd": "`", "tt": "`", "td": " ", "th": " "}
# Tags without an end, and tags whose ends authors leave away, which then stand where a sentence is over.
_EMPTY_TAGS = frozenset(("br", "hr"))
_ENDS_LEFT_AWAY = frozenset(("p", "li", "tr", "td", "th", "dt", "dd"))
_SENTENCE_ENDS = frozenset("\n.!?:;>")
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u180b\u180c\u180d\ufe0e\ufe0f")
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
        return _REMOVED.subn("", _BREAKS.sub("\n", text.replace(_NEXT_LINE, " ")))
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


def has_visible(text: str) -> bool:
    """Whether a text shows anything: white space, format characters such as U+200B, and fillers that look empty do not."""
    return any(unicodedata.category(char)[0] not in "ZC" and char not in _FILLERS for char in text)


def truncate(text: str, limit: int) -> str:
    """The text, or its first characters and an ellipsis: at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def plain_text(value: object, *, limit: int) -> str:
    """A description as readable text of at most `limit` characters: HTML goes, Markdown and code stay."""
    return cut_text(value, limit=limit)[0]


def cut_text(value: object, *, limit: int) -> tuple[str, bool]:
    """The same, and whether its end is missing."""
    written = as_text(value)
    # Cutting first keeps the work per text bounded; markup seldom makes up more than three quarters of a
    # text.
    text = _readable_text(written[: 4 * limit])
    return truncate(text, limit), len(text) > limit or len(written) > 4 * limit


@lru_cache(maxsize=256)  # by references, one text may stand in every operation of a document
def _readable_text(text: str) -> str:
    if "<" in text or "&" in text:
        text = without_controls(_without_markup(text))[0]
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", lines).strip()


def one_line(value: object, *, limit: int) -> str:
    """A title or a name: readable text on one line."""
    return truncate(" ".join(plain_text(value, limit=4 * limit).split()), limit)


def _without_markup(text: str) -> str:
    """HTML becomes text. What only looks like it stays: a placeholder (`<q>`), a type (`List<I>`), a comparison (`1<a and b>3`)."""
    found = list(_MARKUP.finditer(text))
    tags = _tags(text, found)
    parts: list[str] = []
    end = 0
    for index, match in enumerate(found):
        parts += (
            text[end : match.start()],
            match.group() if match["tag"] and index not in tags else _readable(match),
        )
        end = match.end()
    return "".join((*parts, text[end:]))


def _tags(text: str, found: list[re.Match[str]]) -> set[int]:
    """The indexes of the matches that are tags of HTML: they have an end or are one, have attributes, or need neither."""
    tags: set[int] = set()
    begun: dict[str, list[int]] = {}
    for index, match in enumerate(found):
        if not match["tag"]:
            continue
        name = match["tag"].lower()
        if match["end"]:
            tags.add(index)
            if open_ones := begun.get(name):
                tags.add(open_ones.pop())
            continue
        begun.setdefault(name, []).append(index)
        if (
            name in _EMPTY_TAGS
            or match.group().endswith("/>")
            or _FIRST_ATTRIBUTE.match(match["attributes"] or "")
            or (name in _ENDS_LEFT_AWAY and _follows_a_sentence(text, match.start()))
        ):
            tags.add(index)
    return tags


def _follows_a_sentence(text: str, at: int) -> bool:
    while at and text[at - 1] in " \t":
        at -= 1
    return not at or text[at - 1] in _SENTENCE_ENDS


def _readable(match: re.Match[str]) -> str:
    if match["code"]:
        return match.group()
    if entity := match["entity"]:
        # Of an unknown name, Python would read the beginning as another one.
        return html.unescape(entity) if entity[1] == "#" or entity[1:] in html5 else entity
    name = (match["tag"] or "").lower()
    if name == "li":
        return "" if match["end"] else "\n- "
    return _REPLACED_BY.get(name, "\n" if _BLOCK.fullmatch(name) else "")
