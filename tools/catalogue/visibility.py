"""What of the catalogue the current caller may see (SEC-4): the one rule for pages, API, Django's admin, jobs and history.

Whatever belongs to a tool is seen by those who see the tool (Tool.objects.seen). A source is seen by those who see one of its tools.
What speaks of a source as a whole, such as its documents, syncs, plans and errors, names tools that nobody has given a sensitivity
yet; so it needs a caller who may see every sensitivity, and all of the source's tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.apps import apps
from django.db.models import Case, Count, Exists, F, Model, OuterRef, Q, QuerySet, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from embeddings.models import EmbeddingTask
from portal.jobs import services as jobs
from portal.jobs.models import Job, JobFailure
from portal.tenancy.rights import Rights, current_rights
from tools.catalogue.errors import BeyondRights
from tools.models import (
    Endpoint,
    ManualOverride,
    McpServer,
    Source,
    SourceDocument,
    Sync,
    SyncChange,
    Tool,
    ToolEmbedding,
)
from tools.models.tool import visible_tools

Row = TypeVar("Row", bound=Model)
Rule = Callable[[Rights], Q]


def seen(rows: QuerySet[Row]) -> QuerySet[Row]:
    """Those of the rows that the current caller may see. Raises KeyError for a model that has no rule here."""
    rights = current_rights()
    return rows if rights.sees_everything else rows.filter(_RULES[rows.model._meta.label](rights))


# --- Whole sources ----------------------------------------------------------------------------------------------------
def is_whole(rights: Rights) -> Q:
    """The condition for sources whose documents, syncs and errors the caller may read."""
    return Q(pk__in=[]) if not rights.sees_all_sensitivities else _sees_all_tools(rights)


def require_whole(source: Source) -> None:
    """Raises BeyondRights unless the caller may see all tools of a stored source, as who writes it must: a change of the source
    may change each of them."""
    rights = current_rights()
    if (
        not rights.sees_everything
        and not Source.objects.filter(_sees_all_tools(rights), pk=source.pk).exists()
    ):
        raise BeyondRights(rights)


def require_whole_documents(source: Source) -> None:
    """Raises BeyondRights unless the caller may read the source's documents, syncs and plans."""
    require_all_sensitivities()
    require_whole(source)


def require_all_sensitivities() -> None:
    """Raises BeyondRights unless the caller may see tools of every sensitivity."""
    if not current_rights().sees_all_sensitivities:
        raise BeyondRights(current_rights())


def require_writable(tools: Iterable[Tool]) -> None:
    """Raises BeyondRights where a tool, as it is or as it is to be stored, is more sensitive than the caller may see."""
    rights = current_rights()
    if not rights.sees_all_sensitivities and any(
        tool.sensitivity not in rights.sensitivities for tool in tools
    ):
        raise BeyondRights(rights)


def _sees_all_tools(rights: Rights) -> Q:
    hidden = Tool.objects.filter(~visible_tools(rights), source=OuterRef("pk"))
    return Q() if rights.sees_everything else Q(~Exists(hidden))


def with_tool_counts(sources: QuerySet[Source]) -> QuerySet[Source]:
    """The sources with `active_tools` and `inactive_tools`, which count those that the caller may see; with `whole`: whether
    the caller may read their documents, syncs and errors; and with `shown_error`: the `last_error`, where the caller may."""
    rights = current_rights()
    mine = visible_tools(rights, "tools__")
    whole: Any = (
        Value(True) if rights.sees_everything else Case(When(is_whole(rights), then=True), default=False)
    )
    return sources.annotate(
        active_tools=Count("tools", filter=mine & Q(tools__active=True)),
        inactive_tools=Count("tools", filter=mine & Q(tools__active=False)),
        whole=whole,
        shown_error=Case(When(whole=True, then=F("last_error")), default=Value(""), output_field=TextField()),
    )


# --- The rules --------------------------------------------------------------------------------------------------------
def _of_seen_tool(reference: str) -> Rule:
    return lambda rights: Q(**{f"{reference}__in": Tool.objects.visible_to(rights).values("pk")})


def _sources(rights: Rights) -> Q:
    tools = Tool.objects.filter(source=OuterRef("pk"))
    shown = Q(Exists(tools.visible_to(rights)))
    # Of one without tools nobody knows yet how sensitive they will be.
    return shown | Q(~Exists(tools)) if rights.sees_all_sensitivities else shown


def _whole(reference: str) -> Rule:
    return lambda rights: Q(**{f"{reference}__in": Source.objects.filter(is_whole(rights)).values("pk")})


def _tool_events(rights: Rights) -> Q:
    """The events since the tool last came into the caller's sight: what it was before is still hidden."""
    hidden = _hidden_events(rights).filter(pgh_obj_id=OuterRef("pgh_obj_id"), pgh_id__gte=OuterRef("pgh_id"))
    return _of_seen_tool("pgh_obj_id")(rights) & ~Q(Exists(hidden))


def _override_events(rights: Rights) -> Q:
    hidden = _hidden_events(rights).filter(
        pgh_obj_id=OuterRef("tool_id"), pgh_created_at__gte=OuterRef("pgh_created_at")
    )
    return _of_seen_tool("tool_id")(rights) & ~Q(Exists(hidden))


def _hidden_events(rights: Rights) -> QuerySet[Any]:
    events: Any = apps.get_model("tools", "ToolEvent").objects
    hidden: QuerySet[Any] = events.filter(~visible_tools(rights))
    return hidden


def jobs_of_seen_sources() -> Q:
    """The condition for jobs whose arguments name no source, or one that the current caller may see: a title says its name."""
    named = Cast(KeyTextTransform("source", OuterRef("args")), TextField())
    return (
        Q(args__source__isnull=True) | Q(args__source="") | Q(Exists(seen(Source.objects.filter(slug=named))))
    )


def _jobs(_: Rights) -> Q:
    return Q(pk__in=Job.objects.seen().values("pk"))


def _failures(_: Rights) -> Q:
    return Q(pk__in=jobs.seen_failures(JobFailure.objects.all()).values("pk"))


def _by_anybody(_: Rights) -> Q:
    return Q()


_RULES: dict[str, Rule] = {
    Tool._meta.label: visible_tools,
    "tools.ToolEvent": _tool_events,
    ManualOverride._meta.label: _of_seen_tool("tool"),
    "tools.ManualOverrideEvent": _override_events,
    ToolEmbedding._meta.label: _of_seen_tool("entity"),
    EmbeddingTask._meta.label: _of_seen_tool("entity_id"),
    Endpoint._meta.label: lambda rights: Q(
        pk__in=Tool.objects.visible_to(rights).filter(endpoint__isnull=False).values("endpoint")
    ),
    Source._meta.label: _sources,
    "tools.SourceEvent": lambda rights: Q(
        pgh_obj_id__in=Source.objects.filter(_sources(rights)).values("pk")
    ),
    SourceDocument._meta.label: _whole("source"),
    Sync._meta.label: _whole("source"),
    SyncChange._meta.label: _whole("sync__source"),
    Job._meta.label: _jobs,
    JobFailure._meta.label: _failures,
    # Connections, which tell of no tool but in their `shown_error`.
    McpServer._meta.label: _by_anybody,
    "tools.McpServerEvent": _by_anybody,
}
"""For each model of the catalogue, the condition for the rows that a caller with some rights may see."""
