"""The statements of the queue, by name. They stand in the .sql files beside this module, each with a comment that says what goes
in, what comes out, and which index serves it.

A statement is named "file.statement". In its text `%(name)s` is a parameter; `{embeddings}` is the table of an entity type's
embeddings, `{name}` the text of another statement of the file. A statement about an entity type also has the parameters
`tenant`, the current one, and `type`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from django.db import connection

from embeddings.registry import EmbeddedEntity
from portal.tenancy.context import current_tenant

Row = tuple[Any, ...]

_FOLDER = Path(__file__).parent
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_FRAGMENT = re.compile(r"\{(\w+)\}")
_HEAD = re.compile(r"\A(?:--.*\n|\s*\n)*")


def fetch(name: str, entity: EmbeddedEntity | None = None, /, **parameters: Any) -> list[Row]:
    """Runs the statement; its rows."""
    with connection.cursor() as cursor:
        cursor.execute(*_prepared(name, entity, parameters))
        rows: list[Row] = cursor.fetchall()
        return rows


def execute(name: str, entity: EmbeddedEntity | None = None, /, **parameters: Any) -> int:
    """Runs the statement; the number of rows that it changed."""
    with connection.cursor() as cursor:
        cursor.execute(*_prepared(name, entity, parameters))
        count: int = cursor.rowcount
        return count


def _prepared(
    name: str, entity: EmbeddedEntity | None, parameters: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    if entity is None:
        return text(name), parameters
    return text(name, entity.table), {"tenant": current_tenant(), "type": entity.type, **parameters}


@cache
def text(name: str, embeddings: str = "") -> str:
    """The statement, without the comment at its head. KeyError names an unknown one."""
    file, _, statement = name.partition(".")
    fragments = {**_statements(file), "embeddings": embeddings}

    def filled(fragment: str) -> str:
        return _FRAGMENT.sub(lambda found: filled(fragments[found[1]]), fragment)

    return filled(fragments[statement])


@cache
def _statements(file: str) -> dict[str, str]:
    _, *parts = _NAME.split((_FOLDER / f"{file}.sql").read_text(encoding="utf-8"))
    return {
        name: _HEAD.sub("", body).strip().rstrip(";")
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }
