"""Every write to the catalogue. A service is one transaction of the current tenant, takes no request, and leaves the
embedding pipeline and the search text in step with what it wrote. Imports write through tools/imports/apply.py, which
uses the same `put_in_step`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pghistory
from django.core.exceptions import ValidationError
from django.db import IntegrityError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Now

from embeddings import wishes
from embeddings.models import Priority
from embeddings.wishes import Wish
from portal.bodies import unstorable
from tools import embedding
from tools.errors import Invalid, ManagedBySource, StaleVersion, translated
from tools.models import OVERRIDABLE_FIELDS, DescriptionSource, ManualOverride, Source, Tool

# What a person may set; everything else is identity, bookkeeping or another service's.
EDITABLE_FIELDS = frozenset(
    {
        "name", "description", "tool_type", "category", "subcategory", "tags", "tech_stack", "use_cases",
        "routing_domain", "semantic_namespace", "sensitivity", "target_personas", "parameters", "output", "annotations",
        "semantic_weight", "visibility", "lifecycle", "owner", "official", "active", "core", "estimated_cost",
    }
)  # fmt: skip


@contextmanager
def catalogue_write(actor: str) -> Iterator[None]:
    """One atomic write with its author in the history; the database's refusals become CatalogueErrors."""
    try:
        with transaction.atomic(), pghistory.context(actor=actor):
            yield
    except (IntegrityError, OperationalError) as error:
        known = translated(error)
        if known is None:
            raise
        raise known from error


def create_tool(*, actor: str, **fields: Any) -> Tool:
    """A tool written by hand. Raises Invalid, NameTaken."""
    unknown = set(fields) - EDITABLE_FIELDS - {"tool_id", "namespace", "source_protocol", "server"}
    if unknown:
        raise Invalid({name: ["This field cannot be set."] for name in sorted(unknown)})
    tool = Tool(**fields, updated_by=actor)
    _validate(tool, fields)
    with catalogue_write(actor):
        tool.search_text = embedding.search_text(tool)
        tool.save(force_insert=True)
        put_in_step([tool])
    return tool


def update_tool(*, pk: UUID, expected_version: int, changes: Mapping[str, Any], actor: str) -> Tool:
    """Saves a person's edit if the tool still has the version that they saw; an edit that changes nothing writes nothing.

    Overwriting an imported field of an endpoint-backed tool records a ManualOverride; writing the imported text itself
    removes it. Raises StaleVersion, Invalid, and Tool.DoesNotExist.
    """
    unknown = set(changes) - EDITABLE_FIELDS
    if unknown:
        raise Invalid({name: ["This field cannot be set."] for name in sorted(unknown)})
    with catalogue_write(actor):
        tool = _locked(pk)
        if tool.version != expected_version:
            raise StaleVersion(tool)
        changed = {name: value for name, value in changes.items() if getattr(tool, name) != value}
        if not changed:
            return tool
        for name, value in changed.items():
            setattr(tool, name, value)
        _validate(tool, changed)
        if tool.endpoint is not None and not (tool.source and tool.source.sync_wins):
            _record_overrides(tool, changed, actor)
        if "description" in changed:
            tool.description_source = _description_source(tool)
        _save(tool, {*changed, "description_source"}, actor)
    return tool


def reset_override(*, pk: UUID, field: str, actor: str) -> Tool:
    """Brings back what the source says today. A field that is not overridden is left as it is."""
    with catalogue_write(actor):
        tool = _locked(pk)
        removed, _ = ManualOverride.objects.filter(tool_id=pk, field=field).delete()
        if removed and tool.endpoint is not None:
            setattr(tool, field, embedding.imported_value(tool, field))
            if field == "description":
                tool.description_source = DescriptionSource.ENDPOINT_SYNC
            _save(tool, {field, "description_source"}, actor)
    return tool


def keep_override(*, pk: UUID, field: str, actor: str) -> None:
    """The operator has seen that the imported text moved on, and keeps their own."""
    with catalogue_write(actor):
        tool = _locked(pk)
        if tool.endpoint is not None:
            ManualOverride.objects.filter(tool_id=pk, field=field).update(
                imported_value=embedding.imported_value(tool, field)
            )


def delete_tool(*, pk: UUID, actor: str, expected_version: int | None = None) -> None:
    """Removes a tool with its vectors and tasks; its history stays. Raises StaleVersion, and ManagedBySource for an
    endpoint-backed one, which is deactivated instead, because the next sync would only bring it back."""
    with catalogue_write(actor):
        tool = _locked(pk)
        if expected_version is not None and tool.version != expected_version:
            raise StaleVersion(tool)
        if tool.endpoint_id is not None:
            raise ManagedBySource(
                f"{tool.name} comes from the source {tool.source}, whose next sync would bring it back. Deactivate it instead."
            )
        wishes.forget(embedding.ENTITY.type, [pk])
        tool.delete()


def set_sync_wins(*, pk: UUID, sync_wins: bool, actor: str) -> Source:
    """Decides whether later imports of the source overwrite what people edited (SYN-5). Raises Source.DoesNotExist."""
    with catalogue_write(actor):
        source: Source = Source.objects.select_for_update().get(pk=pk)
        if source.sync_wins != sync_wins:
            source.sync_wins = sync_wins
            source.updated_at = Now()
            source.save(update_fields=["sync_wins", "updated_at"])
    return source


def delete_source(*, pk: UUID, actor: str) -> int:
    """Removes a source with its documents, endpoints and tools; returns how many tools went with it."""
    with catalogue_write(actor):
        source = Source.objects.select_for_update().get(pk=pk)
        # Locked in order, tool before embedding before task, as every write does.
        ids = list(source.tools.order_by("pk").select_for_update().values_list("pk", flat=True))
        wishes.forget(embedding.ENTITY.type, ids)
        source.delete()
    return len(ids)


def refresh_embeddings(*, pks: Iterable[UUID]) -> int:
    """Asks for new vectors of these tools (Refresh Embedding); returns how many have a task now. Safe to repeat."""
    with catalogue_write("Refresh Embedding"):
        # Locked, because an edit in between would leave the embedding waiting for a text that is gone.
        tools = list(
            Tool.objects.filter(pk__in=list(pks), active=True)
            .order_by("pk").select_for_update().prefetch_related("endpoint", "source")
        )  # fmt: skip
        return put_in_step(tools, refresh=True)


def put_in_step(tools: Sequence[Tool], *, refresh: bool = False, priority: Priority = Priority.EDIT) -> int:
    """Makes the embeddings follow the tools, in the caller's transaction (EMB-2). The tools carry endpoint and source."""
    return wishes.want(
        embedding.ENTITY,
        [
            Wish(tool.pk, embedding.source_text(tool), active=tool.active, version=tool.version)
            for tool in tools
        ],
        refresh=refresh,
        priority=priority,
    )


def _locked(pk: UUID) -> Tool:
    # Without a join to endpoint and source: whoever waited for a sync here must read them anew, not as they were before.
    tool: Tool = Tool.objects.select_for_update().get(pk=pk)
    return tool


def _validate(tool: Tool, given: Mapping[str, Any]) -> None:
    """Every door comes through here: a NUL in a form's JSON is refused like one in a body of the API."""
    reasons = {name: unstorable(value) for name, value in given.items()}
    if unfit := {name: [f"This value {reason}."] for name, reason in reasons.items() if reason}:
        raise Invalid(unfit)
    try:
        tool.clean_fields(exclude=["tenant", "source", "endpoint"])
        _check_schema(tool)
    except ValidationError as error:
        raise Invalid(error.message_dict) from error


def _check_schema(tool: Tool) -> None:
    for field in ("parameters", "annotations"):
        if not isinstance(getattr(tool, field), dict):
            raise ValidationError({field: ["Must be a JSON object."]})
    if tool.output is not None and not isinstance(tool.output, dict):
        raise ValidationError({"output": ["Must be a JSON object."]})


def _record_overrides(tool: Tool, changed: Mapping[str, Any], actor: str) -> None:
    for field in OVERRIDABLE_FIELDS:
        if field not in changed:
            continue
        imported = embedding.imported_value(tool, field)
        if changed[field] == imported:
            ManualOverride.objects.filter(tool_id=tool.pk, field=field).delete()
        else:
            ManualOverride.objects.update_or_create(
                tool_id=tool.pk,
                field=field,
                defaults={
                    "value": changed[field], "imported_value": imported, "made_by": actor, "made_at": Now(),
                },
            )  # fmt: skip


def _description_source(tool: Tool) -> DescriptionSource:
    imported = tool.endpoint is not None and tool.description == embedding.imported_value(tool, "description")
    return DescriptionSource.ENDPOINT_SYNC if imported else DescriptionSource.MANUAL


def _save(tool: Tool, fields: set[str], actor: str) -> None:
    """Writes the fields with a raised version; the row is locked, so what was read is what is there."""
    tool.search_text = embedding.search_text(tool)
    values = {name: getattr(tool, name) for name in fields | {"search_text"}}
    Tool.objects.filter(pk=tool.pk, version=tool.version).update(
        **values, version=F("version") + 1, updated_at=Now(), updated_by=actor
    )
    tool.version += 1
    tool.updated_by = actor
    put_in_step([tool])
