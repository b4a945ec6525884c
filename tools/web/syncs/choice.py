"""Which changes of a plan an operator has ticked: all but those that they unticked. The session stores it until the plan is
applied, so that it survives paging, filters and a reload."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.sessions.backends.base import SessionBase
from django.db.models import Count, Q, QuerySet

from tools.models import Action, Sync, SyncChange, SyncState


@dataclass(frozen=True, slots=True)
class Ticked:
    """The number of changes of an action, and how many of them are ticked."""

    total: int
    ticked: int


class Choice:
    """For each action whether its changes are ticked, and the ids of the exceptions."""

    def __init__(self, sync: Sync, session: SessionBase) -> None:
        self._sync, self._session = sync, session
        # By tenant: only the current tenant's plans can be queried when choices of finished plans are deleted.
        self._key = f"sync_choices {sync.tenant_id}"
        stored: Mapping[str, Any] = session.get(self._key, {}).get(str(sync.pk), {})
        self._on = {str(action): bool(stored.get(action, {}).get("on", True)) for action in Action}
        self._but = {str(action): set(stored.get(action, {}).get("but", ())) for action in Action}

    def has(self, change: SyncChange) -> bool:
        return self._on[change.action] != (str(change.pk) in self._but[change.action])

    def tick(self, changes: Iterable[SyncChange], chosen: Collection[UUID]) -> None:
        """Ticks those of the changes that are `chosen`, and unticks the others."""
        for change in changes:
            is_exception = (change.pk in chosen) != self._on[change.action]
            but = self._but[change.action]
            (but.add if is_exception else but.discard)(str(change.pk))

    def tick_action(self, action: str, *, ticked: bool) -> None:
        """Ticks or unticks all changes of an action, on every page."""
        self._on[action], self._but[action] = ticked, set()

    def save(self) -> None:
        kept = {
            action: {"on": self._on[action], "but": sorted(self._but[action])}
            for action in self._on
            if self._but[action] or not self._on[action]
        }
        self._store({str(self._sync.pk): kept} if kept else {})

    def forget(self) -> None:
        self._store({})

    def _store(self, mine: dict[str, object]) -> None:
        """Stores this choice beside those of the other waiting plans."""
        stored = self._session.get(self._key, {})
        others = Sync.objects.filter(pk__in=stored.keys() - {str(self._sync.pk)}, state=SyncState.PLANNED)
        choices = {str(pk): stored[str(pk)] for pk in others.values_list("pk", flat=True)} | mine
        if choices != stored:
            self._session[self._key] = choices

    def counts(self) -> dict[str, Ticked]:
        """The counts by action, for every action."""
        rows = self._sync.changes.order_by().values_list("action").annotate(Count("pk"))
        totals: dict[str, int] = dict(rows)
        return {
            action: Ticked(
                total := totals.get(action, 0),
                total - len(self._but[action]) if on else len(self._but[action]),
            )
            for action, on in self._on.items()
        }

    def ticked(self) -> QuerySet[SyncChange]:
        which = Q(pk__in=[])
        for action, on in self._on.items():
            exceptions = Q(pk__in=self._but[action])
            which |= Q(action=action) & (~exceptions if on else exceptions)
        return self._sync.changes.filter(which)

    def mark(self) -> str:
        """A digest of the choice: the same for the same choice."""
        shown = json.dumps(
            [self._on, {action: sorted(ids) for action, ids in self._but.items()}], sort_keys=True
        )
        return hashlib.sha256(shown.encode()).hexdigest()[:16]
