"""The source that an address names, and what belongs to it."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Model, QuerySet
from rest_framework.exceptions import NotFound

from tools.models import Source

Row = TypeVar("Row", bound=Model)


def find_source(slug: str, rows: QuerySet[Source] | None = None) -> Source:
    """A foreign source and an unknown one give the same 404."""
    found = Source.objects.all() if rows is None else rows
    source = found.filter(slug=slug).first()
    if source is None:
        raise NotFound(f"There is no source {slug!r} here.")
    return source


def find_in(rows: QuerySet[Row], ref: str, noun: str) -> Row:
    """A row by its UUID, of those that the address leads to."""
    try:
        return rows.get(pk=UUID(ref))
    except (ValueError, ObjectDoesNotExist) as error:
        raise NotFound(f"There is no {noun} {ref!r} here.") from error
