"""One value that a request takes, how it is written, and the variables of a path that are such values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tools.imports.formats.json_schema import Piece
from tools.imports.formats.specs import JsonObject, JsonValue, as_object
from tools.imports.formats.texts import truncate

MAX_PARAMETERS = 1_000
MAX_PARAMETER_NAME = 200
_SERIALIZATION: dict[str, type] = {
    "style": str,
    "explode": bool,
    "allowReserved": bool,
    "allowEmptyValue": bool,
    "collectionFormat": str,
    "contentType": str,
}
# With a pair of braces inside, as in {id:[0-9]{3}}.
_VARIABLE = re.compile(r"\{((?:[^{}/?#]|\{[^{}]*\})+)\}")
# What others write around a variable's name: {key+} of API Gateway, {*path} of Spring and ASP.NET, {+name} and {list*} of
# RFC 6570, {id:int} and {id=5} of routers.
_BEFORE, _AFTER, _TYPE = "+.;&*", "+*", re.compile("[:=]")
_LIST = re.compile(r"[^:=()\[\]{}]+")


class Input(NamedTuple):
    """One value that a request takes.

    `place` is path, query, header, cookie, form or body; `annotations` are schema keywords that the operation
    adds; `serialization` holds OpenAPI's words on how the value is written (style, explode, collectionFormat …).
    """

    place: str
    name: str
    piece: Piece
    annotations: JsonObject
    required: bool
    serialization: JsonObject


def serialization_of(source: JsonValue) -> JsonObject:
    written = as_object(source)
    return {
        key: truncate(value, MAX_PARAMETER_NAME) if isinstance(value, str) else value
        for key, kind in _SERIALIZATION.items()
        if isinstance(value := written.get(key), kind)
    }


def variables_of(path: str, declared: set[str]) -> Iterator[tuple[str, str]]:
    """Each variable of a path once: as the path writes it, and by its name without what stands around it. A list (`{x,y}`) is
    several, unless a parameter is `declared` by that very name."""
    for written in dict.fromkeys(_VARIABLE.findall(path)):
        is_list = written not in declared and _LIST.fullmatch(written)
        for part in written.split(",") if is_list else [written]:
            name = _TYPE.split(part.lstrip(_BEFORE), maxsplit=1)[0].rstrip(_AFTER)
            yield part, name.strip() or part
