"""Every write to a source but its syncs (tools/imports/syncing/service.py). Each is one transaction of the current tenant."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import TextChoices
from django.db.models.functions import Now

from embeddings.models import Priority
from embeddings.queue.enqueue import delete_tasks
from metrics.statistics import delete_statistics
from portal.outbound.addresses import validate_url
from portal.outbound.errors import FetchError
from portal.tenancy.context import current_tenant
from tools.catalogue import embedding_text
from tools.catalogue.errors import Invalid
from tools.catalogue.history import ANY_EVENT, require_event
from tools.catalogue.projection import tool_fields
from tools.catalogue.tools import catalogue_write, refuse_unknown_fields, save_tools, validate_fields
from tools.catalogue.visibility import require_all_sensitivities, require_whole
from tools.models import (
    DescriptionSource,
    ManualOverride,
    McpServer,
    Schedule,
    Source,
    SourceKind,
    SyncState,
    Tool,
)

INTERVALS = {
    Schedule.HOURLY: timedelta(hours=1),
    Schedule.DAILY: timedelta(days=1),
    Schedule.WEEKLY: timedelta(weeks=1),
}
SETTINGS = ("title", "url", "server", "schedule", "auto_apply", "sync_wins")
"""What a person may set of a source; `server` is a McpServer or None."""


class ToolsOfDeleted(TextChoices):
    """What becomes of the tools of a source that is deleted."""

    DELETE = "delete"
    DEACTIVATE = "deactivate"


@contextmanager
def source_write(slug: str, actor: str) -> Iterator[None]:
    """One atomic write of a source. One at a time; a second one waits as long as a save would, and is then told so."""
    with catalogue_write(actor):
        with connection.cursor() as cursor:
            # A thousand tools in one statement may take longer than a page's statements may.
            cursor.execute("SET LOCAL statement_timeout = '120s'")
            cursor.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"source {current_tenant()} {slug}"]
            )
        yield


def update_source(*, pk: UUID, actor: str, expected_event: int | None = ANY_EVENT, **changes: Any) -> Source:
    """Changes what a source is called, where and when it is read, and whether its syncs win over edits (SYN-5). What changes
    nothing writes nothing. `expected_event` is the number of the newest event that the author saw. Raises StaleSettings,
    Invalid, BeyondRights, Source.DoesNotExist."""
    refuse_unknown_fields(changes, SETTINGS)
    with catalogue_write(actor):
        source: Source = Source.objects.select_for_update(no_key=True).get(pk=pk)
        require_whole(source)
        require_event(source, expected_event)
        read_at = source.server.slug if source.server else source.url
        called = source.display_title
        changed = [name for name, value in changes.items() if getattr(source, name) != value]
        if not changed:
            return source
        if changed != ["title"]:
            # The others decide what later syncs write, which run with the rights of the tenant or of somebody else.
            require_all_sensitivities()
        for name in changed:
            setattr(source, name, changes[name])
        # Which addresses are allowed is checked when one is requested: Django would refuse a host without a dot, and take a password.
        others = {field.name for field in Source._meta.fields} - set(changed)
        validate_fields(source, changes, exclude=others | {"url"})
        check_address(source, changed)
        if {"schedule", "url", "server"} & set(changed):
            interval = INTERVALS.get(Schedule(source.schedule))
            source.next_sync_at = Now() + interval if interval else None
        if {"url", "server"} & set(changed):
            _leave(source, read_at, actor)
        source.updated_at = Now()
        source.save(update_fields=[*changed, "next_sync_at", "updated_at"])
        source.refresh_from_db()
        if source.display_title != called:
            _name_server(source, actor)
    return source


def _name_server(source: Source, actor: str) -> None:
    """Gives the tools of a source its new title, which is part of what is embedded and searched, as its next sync would."""
    mine = source.tools.filter(endpoint__isnull=False).order_by("pk")
    renamed = {}
    for tool in mine.select_for_update(of=("self",), no_key=True).prefetch_related("endpoint"):
        tool.source = source
        server = tool_fields(*tool.backing)["server"]
        if tool.server != server:
            tool.server = server
            renamed[tool] = ("server",)
    save_tools(renamed, actor, priority=Priority.BACKFILL)


def _leave(source: Source, read_at: str, actor: str) -> None:
    """What was read at an address that is no longer the source's is not applied, and no plan has a say in where it is read."""
    waiting = source.syncs.filter(state=SyncState.PLANNED)
    waiting.update(url="", server_uuid=None)
    if read_at:
        waiting.filter(document__name=read_at[:300]).update(
            state=SyncState.DISCARDED, ended_at=Now(), ended_by=actor
        )


def check_address(source: Source, changed: Container[str]) -> None:
    """Where the source is read, and that it can be. Raises Invalid."""
    try:
        if "url" in changed and source.url:
            validate_url(source.url)
    except FetchError as refused:
        raise Invalid({"url": [str(refused)]}) from None
    server: McpServer | None = source.server
    if source.kind == SourceKind.MANUAL:
        given = [name for name in ("url", "server", "schedule") if name in changed and getattr(source, name)]
        if given:
            raise Invalid(
                {name: ["A file of tools is imported, and not read from an address."] for name in given}
            )
        return
    if server is not None and source.kind != SourceKind.MCP:
        raise Invalid({"server": ["Only a source of kind MCP is read from an MCP server."]})
    if server is not None and source.url:
        other = "url" if "url" in changed else "server"
        raise Invalid({other: ["A source has a URL or an MCP server, not both."]})
    if source.schedule and not (source.url or server):
        raise Invalid(
            {
                "schedule": [
                    "The source has no address to be read from, so it cannot be read by itself. Give it a URL first."
                ]
            }
        )


def delete_source(*, pk: UUID, actor: str, tools: str = ToolsOfDeleted.DELETE) -> int:
    """Removes a source with its documents, syncs and endpoints; returns how many tools it had. `tools` is a value of
    ToolsOfDeleted: they go with it, or are kept inactive, as tools written by hand, with the texts that they have now. Raises BeyondRights, Source.DoesNotExist, Busy."""
    slug = Source.objects.values_list("slug", flat=True).get(pk=pk)
    with source_write(slug, actor):
        source = Source.objects.select_for_update(no_key=True).get(pk=pk)
        require_whole(source)
        # Locked in order, tool before embedding before task, as every write does.
        rows = list(source.tools.order_by("pk").select_for_update(no_key=True))
        ids = [tool.pk for tool in rows]
        if ToolsOfDeleted(tools) is ToolsOfDeleted.DEACTIVATE:
            _keep_inactive(rows, actor)
        else:
            delete_tasks(embedding_text.ENTITY.type, ids)
            delete_statistics(ids)
        source.delete()
    return len(ids)


def _keep_inactive(tools: list[Tool], actor: str) -> None:
    # What was overridden is the tool's own text from here on.
    ManualOverride.objects.filter(tool__in=tools).delete()
    for tool in tools:
        tool.active, tool.source, tool.endpoint = False, None, None
        tool.description_source = DescriptionSource.MANUAL
    save_tools(dict.fromkeys(tools, ("active", "source", "endpoint", "description_source")), actor)
