"""Writes a plan into the catalogue, in the caller's transaction: endpoints first, then the tools that are their projections,
then their embeddings. What an operator overrode stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from embeddings.models import Priority
from tools.catalogue import embedding_text
from tools.catalogue.errors import RemovalsNeedConfirmation
from tools.catalogue.projection import dropped_fields, is_provided, tool_fields
from tools.catalogue.tools import sync_embeddings
from tools.catalogue.visibility import require_writable
from tools.imports.formats.names import hashed_name
from tools.imports.syncing.changes import PlannedChange
from tools.imports.syncing.identity import vacated_key
from tools.imports.syncing.plan import CHUNK
from tools.models import Action, Endpoint, ManualOverride, Source, SourceKind, Tool
from tools.models.tool import TOOL_ID_LENGTH

MANY = 500  # rows written by an import after which the planner needs new statistics

Progress = Callable[[int], None]


def are_too_many(removed: int, active: int) -> bool:
    """Whether more than a fifth of a source's endpoints would vanish, which needs a person's consent (SYN-4)."""
    return bool(removed > settings.SYNC_MAX_REMOVED * active)


def check_removals(removed: int, active: int) -> None:
    """Raises RemovalsNeedConfirmation where `are_too_many`."""
    if are_too_many(removed, active):
        raise RemovalsNeedConfirmation(removed, active)


def apply_changes(
    source: Source,
    changes: Sequence[PlannedChange],
    *,
    namespace: str,
    actor: str,
    progress: Progress = lambda _: None,
) -> None:
    """Applies changes that were planned under the source's lock, which the caller still holds. Calls `progress` with the number
    of changes applied so far; it may raise to undo them all. Raises BeyondRights."""
    _Writer(source, namespace, actor, progress).write(changes)
    refresh_statistics(len(changes))


def refresh_statistics(written: int) -> None:
    """Renews the query planner's statistics after an import that wrote MANY rows."""
    if written >= MANY:
        with connection.cursor() as cursor:
            cursor.execute("SELECT tools_analyze()")


class _Writer:
    """Writes the changes of one sync in chunks: additions, then changes, then removals."""

    def __init__(self, source: Source, namespace: str, actor: str, progress: Progress) -> None:
        self.source, self.namespace, self.actor, self._progress = source, namespace, actor, progress
        self._taken = set(Tool.objects.filter(namespace=namespace).values_list("tool_id", flat=True))
        self._done = 0

    def write(self, changes: Sequence[PlannedChange]) -> None:
        displaced = self._displaced(changes)
        self._in_chunks(self._add, [one for one in changes if one.action == Action.ADD])
        # In the order of ids, and tools before their endpoints, as every write of the catalogue locks its rows.
        known = sorted((one for one in changes if one.endpoint_id), key=lambda one: str(one.tool_uuid))
        self._in_chunks(self._change, [one for one in known if one.action in (Action.CHANGE, Action.MOVE)])
        self._in_chunks(self._remove, [one for one in known if one.action == Action.REMOVE])
        self._vacate(displaced)

    def _in_chunks(self, step: Callable[[list[PlannedChange]], None], changes: list[PlannedChange]) -> None:
        for start in range(0, len(changes), CHUNK):
            chunk = changes[start : start + CHUNK]
            step(chunk)
            self._done += len(chunk)
            self._progress(self._done)

    def _add(self, chunk: list[PlannedChange]) -> None:
        endpoints, tools = [], []
        for one in chunk:
            if one.spec is None:
                continue
            endpoint = Endpoint(
                source=self.source, content_hash=one.content_hash, layers=one.layers, **one.spec.as_json()
            )
            tool = Tool(
                source=self.source, endpoint=endpoint, namespace=self.namespace, updated_by=self.actor,
                tool_id=self._tool_id(one.spec.name, one.key), **tool_fields(one.spec, self.source),
            )  # fmt: skip
            tool.search_text = embedding_text.search_text(tool)
            endpoints.append(endpoint)
            tools.append(tool)
        require_writable(tools)
        Endpoint.objects.bulk_create(endpoints)
        Tool.objects.bulk_create(tools)
        sync_embeddings(tools, priority=Priority.BACKFILL)

    def _tool_id(self, name: str, key: str) -> str:
        """The id of a new tool: verbatim from a file of tools, else the operation's name, with a hash of its key where another
        tool has that name."""
        wanted = key if self.source.kind == SourceKind.MANUAL else name
        if wanted in self._taken:
            wanted = hashed_name(name, key)
        self._taken.add(wanted)
        return wanted[:TOOL_ID_LENGTH]

    def _change(self, chunk: list[PlannedChange]) -> None:
        planned = {one.endpoint_id: one for one in chunk}
        tools, endpoints = self._locked(chunk)
        dropped = {
            pk: dropped_fields(one, spec)
            for pk, one in endpoints.items()
            if (spec := planned[pk].spec) is not None
        }
        reactivated = {one.pk for one in endpoints.values() if one.deactivated_tool and not one.active}
        for one in endpoints.values():
            self._update(one, planned[one.pk])
        self._project(tools, dropped, reactivated)

    def _locked(
        self, chunk: list[PlannedChange], **only: bool
    ) -> tuple[list[Tool], dict[UUID | None, Endpoint]]:
        """The tools of the chunk and its endpoints, in the order in which an edit and a deletion lock them too."""
        ids = [one.endpoint_id for one in chunk if one.endpoint_id is not None]
        tools = list(
            Tool.objects.filter(endpoint_id__in=ids, **only).order_by("pk").select_for_update(no_key=True)
        )
        require_writable(tools)
        found = Endpoint.objects.filter(pk__in=ids).order_by("pk").select_for_update(no_key=True)
        endpoints: dict[UUID | None, Endpoint] = {one.pk: one for one in found}
        for tool in tools:
            tool.endpoint, tool.source = endpoints[tool.endpoint_id], self.source
        return tools, endpoints

    @staticmethod
    def _update(endpoint: Endpoint, planned: PlannedChange) -> None:
        """Writes the endpoint's columns that differ, row by row: Django's bulk_update, with a CASE for each row and column, takes
        several times as long."""
        if planned.spec is None:
            raise ValueError("a change has a spec")
        columns = {
            **planned.spec.as_json(), "layers": planned.layers, "content_hash": planned.content_hash,
            "active": True, "deactivated_tool": False,
        }  # fmt: skip
        changed = {name: value for name, value in columns.items() if getattr(endpoint, name) != value}
        for name, value in changed.items():
            setattr(endpoint, name, value)
        if changed:
            Endpoint.objects.filter(pk=endpoint.pk).update(**changed, updated_at=Now())

    def _project(
        self, tools: list[Tool], dropped: dict[UUID | None, dict[str, Any]], reactivated: set[UUID]
    ) -> None:
        """Writes the columns of the tools that differ from the source's fields and the overrides. Tools whose endpoint is
        `reactivated` are active again."""
        overrides = self._overrides(tools)
        for tool in tools:
            fields = dropped[tool.endpoint_id] | tool_fields(*tool.backing, overrides.get(tool.pk))
            if tool.endpoint_id in reactivated:
                fields["active"] = True
            changed = {name: value for name, value in fields.items() if getattr(tool, name) != value}
            for name, value in changed.items():
                setattr(tool, name, value)
            if changed:
                tool.version += 1
                changed |= {"version": tool.version, "updated_at": Now(), "updated_by": self.actor}
            search_text = embedding_text.search_text(tool)
            if search_text != tool.search_text:  # no form shows it, so it alone makes no new version
                tool.search_text = changed["search_text"] = search_text
            if changed:
                Tool.objects.filter(pk=tool.pk).update(**changed)
        require_writable(tools)
        sync_embeddings(tools, priority=Priority.BACKFILL)

    def _overrides(self, tools: list[Tool]) -> dict[UUID, dict[str, Any]]:
        """The overrides that stay, by tool; where the source's syncs win, only those of fields that the source does not provide."""
        kept: dict[UUID, dict[str, Any]] = {}
        obsolete = []
        endpoints = {tool.pk: tool.endpoint for tool in tools if tool.endpoint is not None}
        for one in ManualOverride.objects.filter(tool__in=tools):
            if self.source.sync_wins and is_provided(one.field, endpoints[one.tool_id], self.source):
                obsolete.append(one.pk)
            else:
                kept.setdefault(one.tool_id, {})[one.field] = one.value
        if obsolete:
            ManualOverride.objects.filter(pk__in=obsolete).delete()
        return kept

    def _remove(self, chunk: list[PlannedChange]) -> None:
        tools, endpoints = self._locked(chunk, active=True)
        for tool in tools:
            endpoints[tool.endpoint_id].deactivated_tool = True
            tool.active = False
            tool.version += 1
            tool.updated_at, tool.updated_by = Now(), self.actor
        keys = {one.endpoint_id: one.key for one in chunk}
        for pk, endpoint in endpoints.items():
            endpoint.key = keys[pk]  # another one, where its path was taken over
            endpoint.active, endpoint.updated_at = False, Now()
        Endpoint.objects.bulk_update(endpoints.values(), ["key", "active", "deactivated_tool", "updated_at"])
        Tool.objects.bulk_update(tools, ["active", "version", "updated_at", "updated_by"])
        sync_embeddings(tools)

    def _displaced(self, changes: Sequence[PlannedChange]) -> list[PlannedChange]:
        """The endpoints whose keys operations have come to, and which no change of this sync moves away: they vanished earlier,
        or their own change was not chosen. They get other keys, and are known by their operationIds when they return."""
        came = [one.key for one in changes if one.action in (Action.ADD, Action.MOVE)]
        moved = [one.endpoint_id for one in changes if one.endpoint_id is not None]
        found = Endpoint.objects.filter(source=self.source, key__in=came).exclude(pk__in=moved)
        return [
            PlannedChange(Action.CHANGE, vacated_key(key, pk), None, endpoint_id=pk)
            for pk, key in found.order_by("tools__pk").values_list("pk", "key")
        ]

    def _vacate(self, displaced: list[PlannedChange]) -> None:
        for start in range(0, len(displaced), CHUNK):
            chunk = displaced[start : start + CHUNK]
            keys = {one.endpoint_id: one.key for one in chunk}
            _, endpoints = self._locked(chunk)
            for pk, endpoint in endpoints.items():
                endpoint.key, endpoint.updated_at = keys[pk], Now()
            Endpoint.objects.bulk_update(endpoints.values(), ["key", "updated_at"])
