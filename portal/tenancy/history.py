"""Tracks the history of a model's rows (CAT-8): triggers write it, so that bulk and raw writes are seen too.

`track` makes a table of events beside the model's. Its migration needs `isolate(table, worker="")` and `append_only(table)` of
rls.py. Who writes names the author by `pghistory.context(actor=…)`; portal/http/history_context.py adds the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pghistory
from django.db import models

M = TypeVar("M", bound=type[models.Model])


def track(
    exclude: Sequence[str] = (), otherwise: Mapping[str, models.Field[Any, Any]] | None = None
) -> Callable[[M], M]:
    """Makes every insert, change and delete of the model an event with its author, in a table of its own. `exclude` names fields
    that events do not hold: secrets, and what changes without anybody's decision. `otherwise` gives the fields that older events
    hold in another way."""
    decorate: Callable[[M], M] = pghistory.track(
        pghistory.InsertEvent(),
        pghistory.UpdateEvent(),
        pghistory.DeleteEvent(),
        exclude=list(exclude),
        attrs=dict(otherwise or {}),
    )
    return decorate
