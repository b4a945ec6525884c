"""The values of single keywords of JSON Schema: which ones are taken as they are, which are put right, and which are none."""

from __future__ import annotations

import json
from collections.abc import Callable

from tools.imports.formats.specs import JsonValue, as_list, as_object
from tools.imports.formats.texts import as_text, plain_text

MAX_TEXT = 2_000
_MAX_EXAMPLE = 500
MAX_EXAMPLES = 3
TYPES = frozenset(("string", "number", "integer", "boolean", "array", "object", "null"))


def json_size(value: object) -> int:
    """Bytes of the value as compact JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))


def small(value: JsonValue) -> JsonValue:
    """An example that is short enough to be worth an agent's tokens, or None."""
    return value if value is not None and _may_be_small(value) and json_size(value) <= _MAX_EXAMPLE else None


def _may_be_small(value: JsonValue) -> bool:
    """Whether an example is worth measuring: by references, one of a million values may stand in every operation."""
    left, waiting = _MAX_EXAMPLE, [value]
    while waiting and left >= 0:
        one = waiting.pop()
        left -= len(one) if isinstance(one, dict | list | str) else 1
        if left >= 0 and isinstance(one, dict | list):
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return left >= 0


def as_written(value: JsonValue) -> JsonValue:
    """Numbers and booleans as texts, also those of a list; anything else as it is."""
    if isinstance(value, list):
        return [as_written(item) for item in value]
    return as_text(value) if isinstance(value, bool | int | float) else value


def _type(value: JsonValue) -> str | list[str] | None:
    # In a list without quotes, YAML makes the word a value.
    listed = ["null" if one is None else one for one in value] if isinstance(value, list) else [value]
    types = list(dict.fromkeys(kind for kind in listed if isinstance(kind, str) and kind in TYPES))
    return types[0] if len(types) == 1 else types or None


def _description(value: JsonValue) -> str | None:
    return plain_text(value, limit=MAX_TEXT) or None


def _word(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= MAX_TEXT else None


def _number(value: JsonValue) -> float | None:
    # The readers of documents have made text of what is not finite.
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _positive(value: JsonValue) -> float | None:
    number = _number(value)
    return number if number is not None and number > 0 else None


def _count(value: JsonValue) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None


def _flag(value: JsonValue) -> bool | None:
    return True if value is True else None


def _any(value: JsonValue) -> JsonValue:
    return value


def _list(value: JsonValue) -> list[JsonValue] | None:
    return as_list(value) or None


def _examples(value: JsonValue) -> list[JsonValue] | None:
    return [item for item in as_list(value)[:MAX_EXAMPLES] if small(item) is not None] or None


def _names(value: JsonValue) -> list[str] | None:
    return list(dict.fromkeys(text for name in as_list(value) if (text := as_text(name)))) or None


def _name_lists(value: JsonValue) -> dict[str, list[str]] | None:
    return {key: names for key, item in as_object(value).items() if (names := _names(item))} or None


ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
)
VALUES: dict[str, Callable[[JsonValue], JsonValue]] = {
    "type": _type,
    "const": _any,
    "default": small,
    "enum": _list,
    "examples": _examples,
    "required": _names,
    "dependentRequired": _name_lists,
    "multipleOf": _positive,
    **dict.fromkeys(("title", "description"), _description),
    **dict.fromkeys(("format", "pattern", "contentEncoding", "contentMediaType"), _word),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _count
    ),
    **dict.fromkeys(("minContains", "maxContains"), _count),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _flag),
}


def is_cut(key: str, value: JsonValue) -> bool:
    """Whether a text, examples or types are carried in part only."""
    if key in ("title", "description"):
        return isinstance(value, str) and len(value) > MAX_TEXT
    if key == "type":
        return isinstance(value, list) and any(one not in TYPES for one in value if isinstance(one, str))
    if key == "examples":
        return isinstance(value, list) and (
            len(value) > MAX_EXAMPLES or any(small(one) is None for one in value)
        )
    return False
