"""Takes the tools of an export into the catalogue, with their sources, endpoints and overrides, in one transaction.

A tool is known by its namespace and tool_id. One that exists and differs is a conflict, and the caller says what becomes
of it; one that is the same already is left alone, so a file can be imported again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection, transaction
from django.db.models.functions import Now

from embeddings.models import Priority
from portal.tenancy.context import tenant_context
from tools.catalogue import embedding_text, servers, sources
from tools.catalogue.errors import CatalogueError, Invalid
from tools.catalogue.sources import INTERVALS
from tools.catalogue.tools import catalogue_write, sync_embeddings
from tools.imports.fetching import sandbox
from tools.imports.files import export as exports
from tools.imports.files import export_format as entries
from tools.imports.files.export_format import Entry, ToolKey
from tools.imports.formats import tool_files
from tools.imports.formats.specs import DocumentRefused
from tools.imports.syncing.apply import refresh_statistics
from tools.models import Endpoint, ManualOverride, McpServer, Schedule, Source, Tool

CHUNK = 200
SKIP, UPDATE, FAIL = "skip", "update", "fail"
ON_CONFLICT = (SKIP, UPDATE, FAIL)
_ADVICE = f"Say --on-conflict {SKIP} to keep what it has, or {UPDATE} to overwrite it."
_SETTINGS_OF_ADDRESS = ("url", "server", "schedule")
_SETTINGS = ("title", "url", "sync_wins", "schedule", "auto_apply")
_COLUMNS = (*exports.TOOL_FIELDS, "source", "endpoint")
_SHOWN = 5
_Key = tuple[UUID, str]  # of an endpoint: its source and its key
R = TypeVar("R", Tool, Endpoint)


class Conflicts(CatalogueError):
    """Something is there already and differs. `names` are of tools (namespace/tool_id), sources and MCP servers; `advice` is
    what to do about it."""

    def __init__(self, names: Sequence[str], advice: str) -> None:
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        super().__init__(
            f"Nothing was stored, because the catalogue has other contents for {', '.join(names[:_SHOWN])}{more}. {advice}"
        )
        self.names = names


@dataclass(slots=True)
class EntriesReport:
    """What became of a file's tools: `tools` = added + changed + unchanged + skipped + len(left_out)."""

    file: str
    tools: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: int = 0  # they exist and differ
    left_out: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def is_export(raw: bytes, *, name: str) -> bool:
    """Whether a file of tools is one that export.py wrote. Raises DocumentRefused for one that cannot be read."""
    first = next(tool_files.split_file(raw))
    return sandbox.parse(sandbox.TOOLS, first, name=PurePosixPath(name).name).kind == tool_files.EXPORTED


def import_export(
    *,
    tenant_id: UUID,
    raw: bytes,
    name: str,
    actor: str,
    on_conflict: str = SKIP,
    namespace: str = "public",
    dry_run: bool = False,
) -> EntriesReport:
    """Imports an export, in JSON Lines or YAML; `namespace` is that of tools that name none. Adds and, with UPDATE, changes;
    removes nothing. Raises DocumentRefused, Conflicts (with FAIL) and CatalogueError; then nothing is stored."""
    report = EntriesReport(PurePosixPath(name).name, dry_run=dry_run)
    # Kept as text until its turn: the values of a large file would take ten times the room.
    read = [(place, text) for part in tool_files.split_file(raw) for place, text in _parsed(part, report)]
    with tenant_context(tenant_id), catalogue_write(actor):
        with connection.cursor() as cursor:
            # A thousand tools in one statement may take longer than a page's statements may.
            cursor.execute("SET LOCAL statement_timeout = '120s'")
        importer = _Importer(actor, on_conflict, report)
        for start in range(0, len(read), CHUNK):
            importer.take(
                [(place, json.loads(text)) for place, text in read[start : start + CHUNK]], namespace
            )
        if importer.conflicts and on_conflict == FAIL:
            raise Conflicts(importer.conflicts, _ADVICE)
        refresh_statistics(report.added + report.changed)
        if dry_run:
            transaction.set_rollback(True)
    return report


def _parsed(part: bytes, report: EntriesReport) -> Iterator[tuple[str, str]]:
    document = sandbox.parse(sandbox.TOOLS, part, name=report.file)
    if document.kind != tool_files.EXPORTED:
        raise DocumentRefused(
            f"{report.file} has tools of another form ({document.endpoints[0].key}); they have no tool_id."
        )
    report.tools += document.operations
    report.left_out += [asdict(one) for one in document.left_out]
    for spec in document.endpoints:
        yield spec.key, json.dumps(spec.metadata)


class _Importer:
    """One import while it runs."""

    def __init__(self, actor: str, on_conflict: str, report: EntriesReport) -> None:
        self.actor, self.on_conflict, self.report = actor, on_conflict, report
        self.conflicts: list[str] = []
        self._sources: dict[str, tuple[dict[str, Any], Source]] = {}
        self._servers: dict[str, McpServer | None] = {}
        self._seen: set[ToolKey] = set()

    def take(self, values: Sequence[tuple[str, Mapping[str, Any]]], namespace: str) -> None:
        """Stores the tools of these entries."""
        given: list[Entry] = []
        for place, value in values:
            try:
                given.append(self._entry(entries.read(place, value, namespace=namespace)))
            except (ValueError, Invalid) as error:
                self._leave_out(place, str(error))
        tools = self._existing(given)
        wanted = [one for one in given if self._is_wanted(one, tools.get(one.key))]
        endpoints = self._endpoints(wanted)
        followers = Tool.objects.filter(endpoint__in=endpoints.values()).select_related("endpoint")
        owners = {_key(tool.endpoint): (tool.namespace, tool.tool_id) for tool in followers if tool.endpoint}
        self._write([one for one in wanted if self._fits(one, tools.get(one.key), owners)], tools, endpoints)

    def _leave_out(self, place: str, reason: str) -> None:
        self.report.left_out.append({"operation": place, "reason": reason})

    def _entry(self, one: Entry) -> Entry:
        """The entry, whose source is replaced by the stored one. Raises ValueError, Invalid."""
        if one.key in self._seen:
            raise ValueError(f"the tool {one.name} stands on an earlier line already")
        self._seen.add(one.key)
        if one.source is not None:
            one.tool.source = self._source(one.source, one.server)
            if one.endpoint is not None:
                one.endpoint.source = one.tool.source
        return one

    # Sources ------------------------------------------------------------------------------------------------------------
    def _source(self, given: Source, server: McpServer | None) -> Source:
        fields = exports.values(given, exports.SOURCE_FIELDS)
        fields["server"] = exports.values(server, exports.SERVER_FIELDS) if server else None
        if given.slug in self._sources:
            first, stored = self._sources[given.slug]
            if first != fields:
                raise ValueError(f"describes the source {given.slug} in another way than an earlier line")
            return stored
        stored = self._stored_source(given, server)
        self._sources[given.slug] = fields, stored
        return stored

    def _stored_source(self, given: Source, given_server: McpServer | None) -> Source:
        found: Source | None = Source.objects.select_for_update(no_key=True).filter(slug=given.slug).first()
        if found is not None and found.kind != given.kind:
            raise ValueError(
                f"is of a source {given.slug} of kind {given.get_kind_display()}, which is here of kind {found.get_kind_display()}"
            )
        if found is None:
            given.server = given_server
            sources.check_address(given, _SETTINGS_OF_ADDRESS)
        server = self._server(given_server)
        if given_server is not None and server is None:
            given.schedule = Schedule.NEVER  # it has no address now
        if found is None:
            interval = INTERVALS.get(Schedule(given.schedule))
            given.server, given.next_sync_at = server, Now() + interval if interval else None
            given.save(force_insert=True)
            given.refresh_from_db()
            return given
        wanted = {**{name: getattr(given, name) for name in _SETTINGS}, "server": server}
        different = [name for name, value in wanted.items() if getattr(found, name) != value]
        if different and self.on_conflict == UPDATE:
            return sources.update_source(pk=found.pk, actor=self.actor, **wanted)
        if different:
            self.conflicts.append(f"the source {found.slug}")
            self.report.warnings.append(
                f"The source {found.slug} keeps its own {', '.join(name.replace('_', ' ') for name in different)}."
            )
        return found

    def _server(self, given: McpServer | None) -> McpServer | None:
        """The stored server, or None where this installation does not allow it."""
        if given is None:
            return None
        if given.slug not in self._servers:
            self._servers[given.slug] = self._stored_server(given)
        return self._servers[given.slug]

    def _stored_server(self, given: McpServer) -> McpServer | None:
        fields = exports.values(given, exports.SERVER_FIELDS)
        found: McpServer | None = McpServer.objects.filter(slug=given.slug).first()
        try:
            if found is None:
                return servers.create_server(actor=self.actor, **fields)
            if exports.values(found, exports.SERVER_FIELDS) == fields:
                return found
            if self.on_conflict == UPDATE:
                return servers.update_server(pk=found.pk, actor=self.actor, **fields)
        except Invalid as error:
            self.report.warnings.append(f"The MCP server {given.slug} was not taken over: {error}")
            return found
        self.conflicts.append(f"the MCP server {found.slug}")
        self.report.warnings.append(f"The MCP server {found.slug} stays as it is.")
        return found

    # Tools --------------------------------------------------------------------------------------------------------------
    def _existing(self, given: Sequence[Entry]) -> dict[ToolKey, Tool]:
        """The stored tools of these entries, locked in the order of ids, as every write does."""
        tools = Tool.objects.filter(
            namespace__in={one.tool.namespace for one in given},
            tool_id__in={one.tool.tool_id for one in given},
        )
        locked = exports.with_all(tools).order_by("pk").select_for_update(of=("self",), no_key=True)
        return {(tool.namespace, tool.tool_id): tool for tool in locked}

    def _is_wanted(self, one: Entry, tool: Tool | None) -> bool:
        if tool is None:
            return True
        if one.is_same_as(tool):
            self.report.unchanged += 1
            return False
        if self.on_conflict == UPDATE:
            return True
        self.conflicts.append(one.name)
        self.report.skipped += 1
        return False

    def _endpoints(self, given: Sequence[Entry]) -> dict[_Key, Endpoint]:
        wanted = [one.endpoint for one in given if one.endpoint is not None]
        found = Endpoint.objects.filter(
            source__in={one.source_id for one in wanted}, key__in={one.key for one in wanted}
        )
        return {_key(one): one for one in found.order_by("pk").select_for_update(no_key=True)}

    def _fits(self, one: Entry, tool: Tool | None, owners: dict[_Key, ToolKey]) -> bool:
        """Whether endpoint and tool belong to each other only; otherwise the entry is left out."""
        key = one.endpoint and _key(one.endpoint)
        if tool is not None and tool.endpoint is not None and _key(tool.endpoint) != key:
            self._leave_out(one.place, f"the tool {one.name} follows another endpoint here, {tool.endpoint}")
            return False
        owner = owners.setdefault(key, one.key) if key else one.key
        if owner != one.key:
            self._leave_out(one.place, f"its endpoint {one.endpoint} belongs to the tool {'/'.join(owner)}")
        return owner == one.key

    def _write(
        self, given: Sequence[Entry], tools: dict[ToolKey, Tool], endpoints: dict[_Key, Endpoint]
    ) -> None:
        made: list[Endpoint] = []
        known: list[Endpoint] = []
        for one in given:
            if one.endpoint is not None:
                stored = endpoints.get(_key(one.endpoint))
                (made if stored is None else known).append(stored or one.endpoint)
                one.tool.endpoint = (
                    _fill(stored, one.endpoint, exports.ENDPOINT_FIELDS) if stored else one.endpoint
                )
        Endpoint.objects.bulk_create(made)
        Endpoint.objects.bulk_update(known, [*exports.ENDPOINT_FIELDS, "updated_at"])
        new = [one.tool for one in given if one.key not in tools]
        changed = [_fill(tools[one.key], one.tool, _COLUMNS) for one in given if one.key in tools]
        for tool in (*new, *changed):
            tool.search_text, tool.updated_by = embedding_text.search_text(tool), self.actor
        for tool in changed:
            tool.version += 1
        Tool.objects.bulk_create(new)
        Tool.objects.bulk_update(changed, [*_COLUMNS, "search_text", "version", "updated_at", "updated_by"])
        for one in given:
            for override in one.overrides:
                override.tool = tools.get(one.key, one.tool)
            if one.key in tools:
                gone = ManualOverride.objects.filter(tool=tools[one.key])
                gone.exclude(field__in=[override.field for override in one.overrides]).delete()
        ManualOverride.objects.bulk_create(
            [override for one in given for override in one.overrides],
            update_conflicts=True,
            unique_fields=["tenant", "tool", "field"],
            update_fields=["value", "imported_value", "made_by", "made_at"],
        )
        sync_embeddings([*new, *changed], priority=Priority.BACKFILL)
        self.report.added += len(new)
        self.report.changed += len(changed)


def _key(endpoint: Endpoint) -> _Key:
    return endpoint.source_id, endpoint.key


def _fill(row: R, given: R, names: Sequence[str]) -> R:
    """Writes these fields of `given` into the row."""
    for name in names:
        setattr(row, name, getattr(given, name))
    row.updated_at = Now()
    return row
