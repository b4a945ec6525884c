"""Which models keep a history (CAT-8): triggers write it, so that bulk and raw writes are seen too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pghistory
from django.db import models

M = TypeVar("M", bound=type[models.Model])


def track(exclude: Sequence[str] = ()) -> Callable[[M], M]:
    """Every insert, change and delete of the model becomes an event with its author, in a table of its own."""
    decorate: Callable[[M], M] = pghistory.track(
        pghistory.InsertEvent(), pghistory.UpdateEvent(), pghistory.DeleteEvent(), exclude=list(exclude)
    )
    return decorate
